#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/block_layout.h"
#include "tensor/row_codec.h"

namespace cellar {
namespace {

using block::load16;
using block::load32;

float half_at(const uint8_t* p) {
    return f16_to_f32(load16(p));
}

// One decoder for each format takes one block.
using BlockDecoder = void (*)(const uint8_t* b, float* y);

int nibble(const uint8_t* q, int i) {
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

void decode_q4_0(const uint8_t* b, float* y) {
    const float d = half_at(b);
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(nibble(b + 2, i) - 8);
}

void decode_q4_1(const uint8_t* b, float* y) {
    const float d = half_at(b);
    const float m = half_at(b + 2);
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(nibble(b + 4, i)) + m;
}

void decode_q5_0(const uint8_t* b, float* y) {
    const float d = half_at(b);
    const uint32_t high = load32(b + 2);
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>((nibble(b + 6, i) | static_cast<int>(high >> i & 1U) << 4) - 16);
}

void decode_q5_1(const uint8_t* b, float* y) {
    const float d = half_at(b);
    const float m = half_at(b + 2);
    const uint32_t high = load32(b + 4);
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(nibble(b + 8, i) | static_cast<int>(high >> i & 1U) << 4) + m;
}

void decode_q8_0(const uint8_t* b, float* y) {
    const float d = half_at(b);
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(static_cast<int8_t>(b[2 + i]));
}

void decode_iq4_nl(const uint8_t* b, float* y) {
    const float d = half_at(b);
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(block::kIq4Values[nibble(b + 2, i)]);
}

void decode_mxfp4(const uint8_t* b, float* y) {
    const float d = std::ldexp(1.0F, b[0] - 128);
    for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(block::kFp4Values[nibble(b + 1, i)]);
}

void decode_q2_k(const uint8_t* b, float* y) {
    const uint8_t* q = b + 16;
    const float d = half_at(b + 80);
    const float dm = half_at(b + 82);
    for (int i = 0; i < 256; ++i) {
        const uint8_t scale = b[i / 16];
        const int v = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        y[i] = d * static_cast<float>(scale & 15) * static_cast<float>(v) - dm * static_cast<float>(scale >> 4);
    }
}

void decode_q3_k(const uint8_t* b, float* y) {
    const uint8_t* q = b + 32;
    int8_t scales[16];
    block::unpack_q3_scales(b + 96, scales);
    const float d = half_at(b + 108);
    for (int i = 0; i < 256; ++i) {
        const int low = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        const int high = b[i % 32] >> (i / 32) & 1;
        y[i] = d * static_cast<float>(scales[i / 16]) * static_cast<float>((low | high << 2) - 4);
    }
}

void decode_q4_k(const uint8_t* b, float* y) {
    uint8_t scales[8];
    uint8_t mins[8];
    block::unpack_scales_mins(b + 4, scales, mins);
    const float d = half_at(b);
    const float dm = half_at(b + 2);
    for (int i = 0; i < 256; ++i) {
        const int v = b[16 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
        y[i] = d * static_cast<float>(scales[i / 32]) * static_cast<float>(v) - dm * static_cast<float>(mins[i / 32]);
    }
}

void decode_q5_k(const uint8_t* b, float* y) {
    uint8_t scales[8];
    uint8_t mins[8];
    block::unpack_scales_mins(b + 4, scales, mins);
    const float d = half_at(b);
    const float dm = half_at(b + 2);
    for (int i = 0; i < 256; ++i) {
        const int low = b[48 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
        const int high = b[16 + i % 32] >> (i / 32) & 1;
        y[i] = d * static_cast<float>(scales[i / 32]) * static_cast<float>(low | high << 4) - dm * static_cast<float>(mins[i / 32]);
    }
}

void decode_q6_k(const uint8_t* b, float* y) {
    const float d = half_at(b + 208);
    for (int i = 0; i < 256; ++i) {
        const int half = i / 128;
        const int quarter = i % 128 / 32;
        const int low = b[half * 64 + quarter % 2 * 32 + i % 32] >> (quarter / 2 * 4) & 15;
        const int high = b[128 + half * 32 + i % 32] >> (quarter * 2) & 3;
        const int scale = static_cast<int8_t>(b[192 + i / 16]);
        y[i] = d * static_cast<float>(scale) * static_cast<float>((low | high << 4) - 32);
    }
}

void decode_iq4_xs(const uint8_t* b, float* y) {
    int8_t scales[8];
    block::unpack_iq4_scales(b + 2, scales);
    const float d = half_at(b);
    for (int i = 0; i < 256; ++i) {
        const int v = nibble(b + 8 + i / 32 * 16, i % 32);
        y[i] = d * static_cast<float>(scales[i / 32]) * static_cast<float>(block::kIq4Values[v]);
    }
}

BlockDecoder decoder_of(DType type) {
    switch (type) {
        case DType::Q4_0:
            return decode_q4_0;
        case DType::Q4_1:
            return decode_q4_1;
        case DType::Q5_0:
            return decode_q5_0;
        case DType::Q5_1:
            return decode_q5_1;
        case DType::Q8_0:
            return decode_q8_0;
        case DType::Q2_K:
            return decode_q2_k;
        case DType::Q3_K:
            return decode_q3_k;
        case DType::Q4_K:
            return decode_q4_k;
        case DType::Q5_K:
            return decode_q5_k;
        case DType::Q6_K:
            return decode_q6_k;
        case DType::IQ4_NL:
            return decode_iq4_nl;
        case DType::IQ4_XS:
            return decode_iq4_xs;
        case DType::MXFP4:
            return decode_mxfp4;
        case DType::F32:
        case DType::F16:
        case DType::BF16:
            break;
    }
    return nullptr;
}

}  // namespace

void decode_row(DType type, const std::byte* row, int64_t n, float* out) {
    const DTypeInfo& t = info(type);
    CHECK_EQ(n % t.block, 0);
    const auto* bytes = reinterpret_cast<const uint8_t*>(row);
    if (type == DType::F32) {
        if (n > 0) std::memcpy(out, row, static_cast<size_t>(n) * sizeof(float));
    } else if (type == DType::F16) {
        for (int64_t i = 0; i < n; ++i) out[i] = f16_to_f32(load16(bytes + 2 * i));
    } else if (type == DType::BF16) {
        for (int64_t i = 0; i < n; ++i) out[i] = bf16_to_f32(load16(bytes + 2 * i));
    } else {
        const BlockDecoder decode = decoder_of(type);
        CHECK(decode != nullptr);
        for (int64_t i = 0; i < n / t.block; ++i) decode(bytes + i * t.block_bytes, out + i * t.block);
    }
}

}  // namespace cellar
