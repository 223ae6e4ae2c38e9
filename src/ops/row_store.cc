#include "ops/row_store.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "tensor/row_codec.h"

namespace cellar::ops {
namespace {

constexpr uint16_t kHalfNan = 0x7E00;
constexpr uint16_t kHalfInfinity = 0x7C00;

void put16(std::byte* out, uint16_t value) {
    std::memcpy(out, &value, sizeof value);
}

uint16_t get16(const std::byte* in) {
    uint16_t value = 0;
    std::memcpy(&value, in, sizeof value);
    return value;
}

void encode_block(const float* x /* [32] */, std::byte* out) {
    float most = 0.0F;
    bool finite = true;
    for (int i = 0; i < kPackedBlock; ++i) {
        finite = finite && std::isfinite(x[i]);
        most = std::max(most, std::fabs(x[i]));
    }
    const float scale = most / 127.0F;
    const uint16_t half = finite ? f32_to_f16(scale) : kHalfNan;
    std::fill_n(out, kPackedBlockBytes, std::byte{0});
    if (half >= kHalfInfinity) return put16(out, kHalfNan);
    if (half == 0) return;
    put16(out, half);
    const float inverse = 1.0F / scale;
    for (int i = 0; i < kPackedBlock; ++i) out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::nearbyint(x[i] * inverse)));
}

void encode_packed(const float* values, int width, std::byte* row) {
    for (int at = 0; at < width; at += kPackedBlock) {
        std::array<float, kPackedBlock> block{};
        std::copy_n(values + at, std::min(kPackedBlock, width - at), block.begin());
        encode_block(block.data(), row + static_cast<ptrdiff_t>(at / kPackedBlock) * kPackedBlockBytes);
    }
}

size_t value_bytes(kv::RowFormat format, int width) {
    const auto n = static_cast<size_t>(width);
    switch (format) {
        case kv::RowFormat::F32:
            return n * 4;
        case kv::RowFormat::F16:
        case kv::RowFormat::BF16:
            return n * 2;
        case kv::RowFormat::Q8_0:
            return (n + kPackedBlock - 1) / kPackedBlock * kPackedBlockBytes;
    }
    return 0;
}

}  // namespace

void encode_head_row(kv::RowFormat format, const float* values, int width, std::byte* row, size_t bytes) {
    const size_t used = value_bytes(format, width);
    CHECK_LE(used, bytes);
    switch (format) {
        case kv::RowFormat::F32:
            std::memcpy(row, values, used);
            break;
        case kv::RowFormat::F16:
            for (int i = 0; i < width; ++i) put16(row + 2 * i, f32_to_f16(values[i]));
            break;
        case kv::RowFormat::BF16:
            for (int i = 0; i < width; ++i) put16(row + 2 * i, f32_to_bf16(values[i]));
            break;
        case kv::RowFormat::Q8_0:
            encode_packed(values, width, row);
            break;
    }
    std::fill(row + used, row + bytes, std::byte{0});
}

void decode_head_row(kv::RowFormat format, const std::byte* row, int width, float* values) {
    switch (format) {
        case kv::RowFormat::F32:
            std::memcpy(values, row, static_cast<size_t>(width) * sizeof(float));
            break;
        case kv::RowFormat::F16:
            for (int i = 0; i < width; ++i) values[i] = f16_to_f32(get16(row + 2 * i));
            break;
        case kv::RowFormat::BF16:
            for (int i = 0; i < width; ++i) values[i] = bf16_to_f32(get16(row + 2 * i));
            break;
        case kv::RowFormat::Q8_0:
            for (int i = 0; i < width; ++i) {
                const std::byte* block = row + static_cast<ptrdiff_t>(i / kPackedBlock) * kPackedBlockBytes;
                values[i] = f16_to_f32(get16(block)) * static_cast<float>(static_cast<int8_t>(block[2 + i % kPackedBlock]));
            }
            break;
    }
}

}  // namespace cellar::ops
