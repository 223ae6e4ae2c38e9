// Unpacking of one block of a weight row: its quants as bytes in the order of the columns, its scales and minima as floats.
// Plain loops that compilers vectorise. Included once for each target, after highway.h and target_inl.h.
#if defined(CELLAR_OPS_CPU_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_UNPACK_INL_H_
#undef CELLAR_OPS_CPU_UNPACK_INL_H_
#else
#define CELLAR_OPS_CPU_UNPACK_INL_H_
#endif

#include <bit>

#include "tensor/block_layout.h"
#include "tensor/row_codec.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

HWY_INLINE float half_at(const uint8_t* p) {
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    return _cvtsh_ss(block::load16(p));
#else
    return f16_to_f32(block::load16(p));
#endif
}

HWY_INLINE void nibbles(const uint8_t* packed /* [16] */, uint8_t* q /* [32] */) {
    for (int i = 0; i < 16; ++i) {
        q[i] = packed[i] & 15;
        q[i + 16] = packed[i] >> 4;
    }
}

HWY_INLINE void fifth_bits(const uint8_t* packed /* [4] */, uint8_t* q /* [32] */) {
    const uint32_t bits = block::load32(packed);
    for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(q[i] | (bits >> i & 1U) << 4);
}

HWY_INLINE void look_up(const int8_t* table /* [16] */, int add, uint8_t* q /* [32] */) {
    for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(table[q[i]] + add);
}

// Scales and minima of Q4_K and Q5_K.
HWY_INLINE void scales_and_minima(const uint8_t* b, float* scale, float* minimum) {
    uint8_t s[8];
    uint8_t m[8];
    block::unpack_scales_mins(b + 4, s, m);
    const float d = half_at(b);
    const float dm = half_at(b + 2);
    for (int g = 0; g < 8; ++g) {
        scale[g] = d * static_cast<float>(s[g]);
        minimum[g] = -(dm * static_cast<float>(m[g]));
    }
}

// `b` is one block of 32 or 256 columns. Wide quants come out signed, the others as panel_format describes them.
template <DType type>
HWY_INLINE void unpack_block(const uint8_t* b, uint8_t* q, float* scale, float* minimum) {
    if constexpr (type == DType::Q4_0 || type == DType::IQ4_NL || type == DType::Q5_0) {
        scale[0] = half_at(b);
        nibbles(b + (type == DType::Q5_0 ? 6 : 2), q);
        if constexpr (type == DType::Q5_0) fifth_bits(b + 2, q);
        if constexpr (type == DType::IQ4_NL) look_up(block::kIq4Values, 0, q);
    } else if constexpr (type == DType::Q4_1 || type == DType::Q5_1) {
        scale[0] = half_at(b);
        minimum[0] = half_at(b + 2);
        nibbles(b + (type == DType::Q5_1 ? 8 : 4), q);
        if constexpr (type == DType::Q5_1) fifth_bits(b + 4, q);
    } else if constexpr (type == DType::Q8_0) {
        scale[0] = half_at(b);
        std::memcpy(q, b + 2, 32);
    } else if constexpr (type == DType::MXFP4) {
        // 2^(e - 128): a subnormal for e < 2.
        scale[0] = std::bit_cast<float>(b[0] < 2 ? 0x00200000U << b[0] : (b[0] - 1U) << 23);
        nibbles(b + 1, q);
        look_up(block::kFp4Values, panel_format(type).offset, q);
    } else if constexpr (type == DType::Q2_K) {
        const float d = half_at(b + 80);
        const float dm = half_at(b + 82);
        for (int g = 0; g < 16; ++g) {
            scale[g] = d * static_cast<float>(b[g] & 15);
            minimum[g] = -(dm * static_cast<float>(b[g] >> 4));
        }
        for (int part = 0; part < 8; ++part) {
            for (int i = 0; i < 32; ++i) q[part * 32 + i] = b[16 + part / 4 * 32 + i] >> (part % 4 * 2) & 3;
        }
    } else if constexpr (type == DType::Q3_K) {
        int8_t s[16];
        block::unpack_q3_scales(b + 96, s);
        const float d = half_at(b + 108);
        for (int g = 0; g < 16; ++g) scale[g] = d * static_cast<float>(s[g]);
        for (int part = 0; part < 8; ++part) {
            for (int i = 0; i < 32; ++i) {
                q[part * 32 + i] = static_cast<uint8_t>((b[32 + part / 4 * 32 + i] >> (part % 4 * 2) & 3) | (b[i] >> part & 1) << 2);
            }
        }
    } else if constexpr (type == DType::Q4_K) {
        scales_and_minima(b, scale, minimum);
        for (int part = 0; part < 8; ++part) {
            for (int i = 0; i < 32; ++i) q[part * 32 + i] = b[16 + part / 2 * 32 + i] >> (part % 2 * 4) & 15;
        }
    } else if constexpr (type == DType::Q5_K) {
        scales_and_minima(b, scale, minimum);
        for (int part = 0; part < 8; ++part) {
            for (int i = 0; i < 32; ++i) {
                q[part * 32 + i] = static_cast<uint8_t>((b[48 + part / 2 * 32 + i] >> (part % 2 * 4) & 15) | (b[16 + i] >> part & 1) << 4);
            }
        }
    } else if constexpr (type == DType::Q6_K) {
        const float d = half_at(b + 208);
        for (int g = 0; g < 16; ++g) scale[g] = d * static_cast<float>(static_cast<int8_t>(b[192 + g]));
        for (int part = 0; part < 8; ++part) {
            const uint8_t* low = b + part / 4 * 64 + part % 2 * 32;
            const uint8_t* high = b + 128 + part / 4 * 32;
            for (int i = 0; i < 32; ++i) {
                q[part * 32 + i] = static_cast<uint8_t>((low[i] >> (part % 4 / 2 * 4) & 15) | (high[i] >> (part % 4 * 2) & 3) << 4);
            }
        }
    } else if constexpr (type == DType::IQ4_XS) {
        int8_t s[8];
        block::unpack_iq4_scales(b + 2, s);
        const float d = half_at(b);
        for (int g = 0; g < 8; ++g) {
            scale[g] = d * static_cast<float>(s[g]);
            nibbles(b + 8 + g * 16, q + g * 32);
            look_up(block::kIq4Values, 0, q + g * 32);
        }
    }
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
