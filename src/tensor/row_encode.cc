// Encoders for caches, tests and tools. Each block is fitted on its own, by range; none searches for the best scale.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/block_layout.h"
#include "tensor/row_codec.h"

namespace cellar {
namespace {

using BlockEncoder = void (*)(const float* x, uint8_t* b);

struct Range {
    float low;
    float high;
};

Range range_of(const float* x, int n) {
    const auto [low, high] = std::minmax_element(x, x + n);
    return {*low, *high};
}

// The largest magnitude. Compared as bits, where NaN is above everything: a block that holds one gets a scale that is NaN.
float largest(const float* x, int n) {
    uint32_t most = 0;
    for (int i = 0; i < n; ++i) most = std::max(most, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
    return std::bit_cast<float>(most);
}

// Stores `value` as f16 and returns what was stored, so that the quants fit the scale that readers will see.
float put_half(float value, uint8_t* at) {
    const uint16_t bits = f32_to_f16(value);
    std::memcpy(at, &bits, 2);
    return f16_to_f32(bits);
}

// x / scale rounded to nearest even within [low, high]; 0 for a zero scale, `low` for NaN.
int quant(float x, float scale, int low, int high) {
    if (scale == 0.0F) return std::clamp(0, low, high);
    const float q = std::nearbyint(x / scale);
    if (!(q > static_cast<float>(low))) return low;
    return q < static_cast<float>(high) ? static_cast<int>(q) : high;
}

void put_nibble(uint8_t* q, int i, int v) {
    q[i % 16] = static_cast<uint8_t>(q[i % 16] | (v & 15) << (i / 16 * 4));
}

void put_fifth_bit(uint8_t* bits, int i, int v) {
    bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (v >> 4 & 1) << (i % 8));
}

// The value of largest magnitude, with its sign: symmetric formats have one step more on the negative side, which it takes.
float extreme(const float* x, int n) {
    return *std::max_element(x, x + n, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

void encode_q8_0(const float* x, uint8_t* b) {
    const float scale = largest(x, 32) / 127.0F;
    put_half(scale, b);
    for (int i = 0; i < 32; ++i) b[2 + i] = static_cast<uint8_t>(quant(x[i], scale, -127, 127));
}

void encode_q4_0(const float* x, uint8_t* b) {
    const float d = put_half(extreme(x, 32) / -8.0F, b);
    for (int i = 0; i < 32; ++i) put_nibble(b + 2, i, quant(x[i], d, -8, 7) + 8);
}

void encode_q4_1(const float* x, uint8_t* b) {
    const Range r = range_of(x, 32);
    const float d = put_half((r.high - r.low) / 15.0F, b);
    const float m = put_half(r.low, b + 2);
    for (int i = 0; i < 32; ++i) put_nibble(b + 4, i, quant(x[i] - m, d, 0, 15));
}

void encode_q5_0(const float* x, uint8_t* b) {
    const float d = put_half(extreme(x, 32) / -16.0F, b);
    for (int i = 0; i < 32; ++i) {
        const int v = quant(x[i], d, -16, 15) + 16;
        put_fifth_bit(b + 2, i, v);
        put_nibble(b + 6, i, v);
    }
}

void encode_q5_1(const float* x, uint8_t* b) {
    const Range r = range_of(x, 32);
    const float d = put_half((r.high - r.low) / 31.0F, b);
    const float m = put_half(r.low, b + 2);
    for (int i = 0; i < 32; ++i) {
        const int v = quant(x[i] - m, d, 0, 31);
        put_fifth_bit(b + 4, i, v);
        put_nibble(b + 8, i, v);
    }
}

int nearest(const int8_t* table /* [16] */, float v) {
    return static_cast<int>(std::min_element(table, table + 16, [v](int8_t a, int8_t b) { return std::fabs(a - v) < std::fabs(b - v); }) - table);
}

void encode_iq4_nl(const float* x, uint8_t* b) {
    const float d = put_half(extreme(x, 32) / -127.0F, b);
    for (int i = 0; i < 32; ++i) put_nibble(b + 2, i, nearest(block::kIq4Values, d == 0.0F ? 0.0F : x[i] / d));
}

void encode_mxfp4(const float* x, uint8_t* b) {
    const float most = largest(x, 32);
    // The largest value of the format is 6 (12 of the table's halves): the power of two that puts `most` at 4 to 8.
    const int exponent = most > 0.0F && std::isfinite(most) ? std::clamp(std::ilogb(most) - 2 + 127, 0, 254) : 0;
    b[0] = static_cast<uint8_t>(exponent);
    const float step = std::ldexp(1.0F, exponent - 128);
    for (int i = 0; i < 32; ++i) put_nibble(b + 1, i, nearest(block::kFp4Values, x[i] / step));
}

// Scales and minima of eight groups of 32, for values in [0, top]. Leaves them as stored: value = scale * q - minimum.
struct GroupFit {
    float scale[8];
    float minimum[8];
};

GroupFit put_scales_mins(const float* x, int top, uint8_t* halves, uint8_t* packed) {
    GroupFit fit{};
    for (int g = 0; g < 8; ++g) {
        const Range r = range_of(x + g * 32, 32);
        fit.minimum[g] = std::max(0.0F, -r.low);
        fit.scale[g] = std::max(0.0F, r.high + fit.minimum[g]) / static_cast<float>(top);
    }
    const float d = put_half(largest(fit.scale, 8) / 63.0F, halves);
    const float dm = put_half(largest(fit.minimum, 8) / 63.0F, halves + 2);
    for (int g = 0; g < 8; ++g) {
        const int s = quant(fit.scale[g], d, 0, 63);
        const int m = quant(fit.minimum[g], dm, 0, 63);
        fit.scale[g] = d * static_cast<float>(s);
        fit.minimum[g] = dm * static_cast<float>(m);
        if (g < 4) {
            packed[g] = static_cast<uint8_t>(packed[g] | s);
            packed[4 + g] = static_cast<uint8_t>(packed[4 + g] | m);
        } else {
            packed[g - 4] = static_cast<uint8_t>(packed[g - 4] | s >> 4 << 6);
            packed[g] = static_cast<uint8_t>(packed[g] | m >> 4 << 6);
            packed[4 + g] = static_cast<uint8_t>((s & 15) | (m & 15) << 4);
        }
    }
    return fit;
}

void encode_q4_k(const float* x, uint8_t* b) {
    const GroupFit fit = put_scales_mins(x, 15, b, b + 4);
    for (int i = 0; i < 256; ++i) {
        const int v = quant(x[i] + fit.minimum[i / 32], fit.scale[i / 32], 0, 15);
        uint8_t& byte = b[16 + i / 64 * 32 + i % 32];
        byte = static_cast<uint8_t>(byte | v << (i / 32 % 2 * 4));
    }
}

void encode_q5_k(const float* x, uint8_t* b) {
    const GroupFit fit = put_scales_mins(x, 31, b, b + 4);
    for (int i = 0; i < 256; ++i) {
        const int v = quant(x[i] + fit.minimum[i / 32], fit.scale[i / 32], 0, 31);
        uint8_t& low = b[48 + i / 64 * 32 + i % 32];
        uint8_t& high = b[16 + i % 32];
        low = static_cast<uint8_t>(low | (v & 15) << (i / 32 % 2 * 4));
        high = static_cast<uint8_t>(high | v >> 4 << (i / 32));
    }
}

void encode_q2_k(const float* x, uint8_t* b) {
    float scale[16];
    float minimum[16];
    for (int g = 0; g < 16; ++g) {
        const Range r = range_of(x + g * 16, 16);
        minimum[g] = std::max(0.0F, -r.low);
        scale[g] = std::max(0.0F, r.high + minimum[g]) / 3.0F;
    }
    const float d = put_half(largest(scale, 16) / 15.0F, b + 80);
    const float dm = put_half(largest(minimum, 16) / 15.0F, b + 82);
    for (int g = 0; g < 16; ++g) {
        const int s = quant(scale[g], d, 0, 15);
        const int m = quant(minimum[g], dm, 0, 15);
        b[g] = static_cast<uint8_t>(s | m << 4);
        for (int i = g * 16; i < g * 16 + 16; ++i) {
            const int v = quant(x[i] + dm * static_cast<float>(m), d * static_cast<float>(s), 0, 3);
            uint8_t& byte = b[16 + i / 128 * 32 + i % 32];
            byte = static_cast<uint8_t>(byte | v << (i % 128 / 32 * 2));
        }
    }
}

// Signed scales of sixteen groups of 16: group values are scale * q with q in [-steps, steps - 1].
float put_signed_scales(const float* x, int steps, int most, uint8_t* half, int* quants /* [16] */) {
    float scale[16];
    for (int g = 0; g < 16; ++g) scale[g] = extreme(x + g * 16, 16) / static_cast<float>(-steps);
    const float d = put_half(extreme(scale, 16) / static_cast<float>(-most - 1), half);
    for (int g = 0; g < 16; ++g) quants[g] = quant(scale[g], d, -most - 1, most);
    return d;
}

void encode_q3_k(const float* x, uint8_t* b) {
    int scales[16];
    const float d = put_signed_scales(x, 4, 31, b + 108, scales);
    for (int g = 0; g < 16; ++g) {
        const int s = scales[g] + 32;
        uint8_t& low = b[96 + g % 8];
        uint8_t& high = b[104 + g % 4];
        low = static_cast<uint8_t>(low | (s & 15) << (g / 8 * 4));
        high = static_cast<uint8_t>(high | s >> 4 << (g / 4 * 2));
    }
    for (int i = 0; i < 256; ++i) {
        const int v = quant(x[i], d * static_cast<float>(scales[i / 16]), -4, 3) + 4;
        uint8_t& low = b[32 + i / 128 * 32 + i % 32];
        uint8_t& high = b[i % 32];
        low = static_cast<uint8_t>(low | (v & 3) << (i % 128 / 32 * 2));
        high = static_cast<uint8_t>(high | v >> 2 << (i / 32));
    }
}

void encode_q6_k(const float* x, uint8_t* b) {
    int scales[16];
    const float d = put_signed_scales(x, 32, 127, b + 208, scales);
    for (int g = 0; g < 16; ++g) b[192 + g] = static_cast<uint8_t>(scales[g]);
    for (int i = 0; i < 256; ++i) {
        const int v = quant(x[i], d * static_cast<float>(scales[i / 16]), -32, 31) + 32;
        const int half = i / 128;
        const int quarter = i % 128 / 32;
        uint8_t& low = b[half * 64 + quarter % 2 * 32 + i % 32];
        uint8_t& high = b[128 + half * 32 + i % 32];
        low = static_cast<uint8_t>(low | (v & 15) << (quarter / 2 * 4));
        high = static_cast<uint8_t>(high | v >> 4 << (quarter * 2));
    }
}

void encode_iq4_xs(const float* x, uint8_t* b) {
    float scale[8];
    for (int g = 0; g < 8; ++g) scale[g] = extreme(x + g * 32, 32) / -127.0F;
    const float d = put_half(extreme(scale, 8) / -32.0F, b);
    uint16_t high = 0;
    for (int g = 0; g < 8; ++g) {
        const int s = quant(scale[g], d, -32, 31);
        high = static_cast<uint16_t>(high | (s + 32) >> 4 << (2 * g));
        b[4 + g / 2] = static_cast<uint8_t>(b[4 + g / 2] | ((s + 32) & 15) << (g % 2 * 4));
        const float step = d * static_cast<float>(s);
        for (int i = 0; i < 32; ++i) {
            put_nibble(b + 8 + g * 16, i, nearest(block::kIq4Values, step == 0.0F ? 0.0F : x[g * 32 + i] / step));
        }
    }
    std::memcpy(b + 2, &high, 2);
}

BlockEncoder encoder_of(DType type) {
    switch (type) {
        case DType::Q4_0:
            return encode_q4_0;
        case DType::Q4_1:
            return encode_q4_1;
        case DType::Q5_0:
            return encode_q5_0;
        case DType::Q5_1:
            return encode_q5_1;
        case DType::Q8_0:
            return encode_q8_0;
        case DType::Q2_K:
            return encode_q2_k;
        case DType::Q3_K:
            return encode_q3_k;
        case DType::Q4_K:
            return encode_q4_k;
        case DType::Q5_K:
            return encode_q5_k;
        case DType::Q6_K:
            return encode_q6_k;
        case DType::IQ4_NL:
            return encode_iq4_nl;
        case DType::IQ4_XS:
            return encode_iq4_xs;
        case DType::MXFP4:
            return encode_mxfp4;
        case DType::F32:
        case DType::F16:
        case DType::BF16:
            break;
    }
    return nullptr;
}

}  // namespace

bool can_encode(DType type) {
    return find_dtype(static_cast<uint32_t>(type)) != nullptr;
}

void encode_row(DType type, const float* values, int64_t n, std::byte* row) {
    const DTypeInfo& t = info(type);
    CHECK_EQ(n % t.block, 0);
    auto* bytes = reinterpret_cast<uint8_t*>(row);
    if (type == DType::F32) {
        if (n > 0) std::memcpy(row, values, static_cast<size_t>(n) * sizeof(float));
    } else if (type == DType::F16 || type == DType::BF16) {
        for (int64_t i = 0; i < n; ++i) {
            const uint16_t bits = type == DType::F16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
            std::memcpy(bytes + 2 * i, &bits, 2);
        }
    } else {
        const BlockEncoder encode = encoder_of(type);
        CHECK(encode != nullptr);
        std::memset(bytes, 0, row_bytes(type, n));
        for (int64_t i = 0; i < n / t.block; ++i) encode(values + i * t.block, bytes + i * t.block_bytes);
    }
}

}  // namespace cellar
