#include "ops/activation_form.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "tensor/row_codec.h"

namespace cellar::ops {

ActivationForm activation_form(DType weights) {
    switch (weights) {
        case DType::F32:
        case DType::F16:
            return ActivationForm::F32;
        case DType::BF16:
            return ActivationForm::BF16;
        case DType::Q4_0:
        case DType::Q4_1:
        case DType::Q5_0:
        case DType::Q5_1:
        case DType::Q8_0:
        case DType::IQ4_NL:
        case DType::MXFP4:
            return ActivationForm::Q8;
        case DType::Q2_K:
        case DType::Q3_K:
        case DType::Q4_K:
        case DType::Q5_K:
        case DType::Q6_K:
        case DType::IQ4_XS:
            return ActivationForm::Q8_256;
    }
    CHECK(false);
    return ActivationForm::F32;
}

int form_block(ActivationForm form) {
    switch (form) {
        case ActivationForm::F32:
        case ActivationForm::BF16:
            return 1;
        case ActivationForm::Q8:
            return 32;
        case ActivationForm::Q8_256:
            return 256;
    }
    return 1;
}

size_t form_row_bytes(ActivationForm form, int64_t n) {
    CHECK_EQ(n % form_block(form), 0);
    const auto count = static_cast<size_t>(n);
    switch (form) {
        case ActivationForm::F32:
            return count * sizeof(float);
        case ActivationForm::BF16:
            return (count * 2 + 3) / 4 * 4;
        case ActivationForm::Q8:
            return count + count / 32 * (sizeof(float) + sizeof(int32_t));
        case ActivationForm::Q8_256:
            return count + count / 256 * sizeof(float) + count / 16 * sizeof(int32_t);
    }
    return 0;
}

float quantize_activations(const float* x, int count, int8_t* out) {
    uint32_t bits = 0;
    for (int i = 0; i < count; ++i) bits = std::max(bits, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
    const float most = std::bit_cast<float>(bits);
    if (!(most >= kSmallestActivation && most <= std::numeric_limits<float>::max())) {
        std::fill_n(out, count, int8_t{0});
        return most < kSmallestActivation ? 0.0F : std::numeric_limits<float>::quiet_NaN();
    }
    const float inverse = 127.0F / most;
    for (int i = 0; i < count; ++i) out[i] = static_cast<int8_t>(std::nearbyint(x[i] * inverse));
    return most / 127.0F;
}

namespace {

void encode_quantized(int block, int sum_block, const float* x, int64_t n, std::byte* out) {
    auto* values = reinterpret_cast<int8_t*>(out);
    auto* scales = out + n;
    auto* sums = scales + n / block * static_cast<int64_t>(sizeof(float));
    for (int64_t b = 0; b < n / block; ++b) {
        const float scale = quantize_activations(x + b * block, block, values + b * block);
        std::memcpy(scales + b * 4, &scale, 4);
    }
    for (int64_t b = 0; b < n / sum_block; ++b) {
        int32_t sum = 0;
        for (int i = 0; i < sum_block; ++i) sum += values[b * sum_block + i];
        std::memcpy(sums + b * 4, &sum, 4);
    }
}

void decode_quantized(int block, const std::byte* row, int64_t n, float* out) {
    const auto* values = reinterpret_cast<const int8_t*>(row);
    for (int64_t i = 0; i < n; ++i) {
        float scale;
        std::memcpy(&scale, row + n + i / block * 4, 4);
        out[i] = scale * static_cast<float>(values[i]);
    }
}

}  // namespace

void encode_activations(ActivationForm form, const float* x, int64_t n, std::byte* out) {
    switch (form) {
        case ActivationForm::F32:
            if (n > 0) std::memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
            break;
        case ActivationForm::BF16:
            if (n % 2 != 0) std::memset(out + n * 2, 0, 2);
            encode_row(DType::BF16, x, n, out);
            break;
        case ActivationForm::Q8:
            encode_quantized(32, 32, x, n, out);
            break;
        case ActivationForm::Q8_256:
            encode_quantized(256, 16, x, n, out);
            break;
    }
}

void decode_activations(ActivationForm form, const std::byte* row, int64_t n, float* out) {
    switch (form) {
        case ActivationForm::F32:
            decode_row(DType::F32, row, n, out);
            break;
        case ActivationForm::BF16:
            decode_row(DType::BF16, row, n, out);
            break;
        case ActivationForm::Q8:
            decode_quantized(32, row, n, out);
            break;
        case ActivationForm::Q8_256:
            decode_quantized(256, row, n, out);
            break;
    }
}

}  // namespace cellar::ops
