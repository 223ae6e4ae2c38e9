// Blocks of 256 columns taken apart, into an `Out` that takes
//   put(column, quants)       columns [4 column, 4 column + 4) of each row
//   put_scale(sub, scale)     of a sub-block of 16 or 32 columns
//   put_minimum(sub, minimum)
// The arguments are constants once loops are unrolled, so an Out may keep what it gets in registers.
// Included once for each target, after highway.h and target_inl.h.
#if defined(CELLAR_OPS_CPU_SUPERBLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_SUPERBLOCK_INL_H_
#undef CELLAR_OPS_CPU_SUPERBLOCK_INL_H_
#else
#define CELLAR_OPS_CPU_SUPERBLOCK_INL_H_
#endif

#include "ops/cpu/unpack_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

// Scales and minima of Q4_K and Q5_K.
template <class Source, class Out>
HWY_INLINE void unpack_scales_minima(const Source& block, Out& out) {
    VU c[4];
    load_columns(block, 0, c);
    const VF d = low_half(c[0]);
    const VF dm = hn::Neg(high_half(c[0]));
    const VU high_of_scales = bytes(c[1], 6, 3);
    const VU high_of_minima = bytes(c[2], 6, 3);
    const VU scales = hn::Or(bytes(c[3], 0, 15), hn::ShiftLeft<4>(high_of_scales));
    const VU minima = hn::Or(bytes(c[3], 4, 15), hn::ShiftLeft<4>(high_of_minima));
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
        out.put_scale(g, hn::Mul(d, field(c[1], g * 8, 63)));
        out.put_minimum(g, hn::Mul(dm, field(c[2], g * 8, 63)));
        out.put_scale(4 + g, hn::Mul(d, field(scales, g * 8, 63)));
        out.put_minimum(4 + g, hn::Mul(dm, field(minima, g * 8, 63)));
    }
}

// Nibbles of Q4_K and Q5_K: 32 bytes hold 64 columns.
template <DType type, class Source, class Out>
HWY_INLINE void unpack_nibbles(const Source& block, Out& out) {
    VU fifth[8];
    if constexpr (type == DType::Q5_K) {
        load_columns(block, 16, fifth);
        load_columns(block, 32, fifth + 4);
    }
#pragma GCC unroll 4
    for (int pair = 0; pair < 4; ++pair) {
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
            VU c[4];
            load_columns(block, (type == DType::Q5_K ? 48 : 16) + pair * 32 + i * 16, c);
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                VU low = bytes(c[j], 0, 15);
                VU high = bytes(c[j], 4, 15);
                if constexpr (type == DType::Q5_K) {
                    low = hn::Or(low, hn::ShiftLeft<4>(bytes(fifth[i * 4 + j], 2 * pair, 1)));
                    high = hn::Or(high, hn::ShiftLeft<4>(bytes(fifth[i * 4 + j], 2 * pair + 1, 1)));
                }
                out.put(pair * 16 + i * 4 + j, low);
                out.put(pair * 16 + 8 + i * 4 + j, high);
            }
        }
    }
}

// 32 bytes hold 128 columns of two bits; Q3_K has a third bit elsewhere.
template <DType type, class Source, class Out>
HWY_INLINE void unpack_pairs_of_bits(const Source& block, Out& out) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        VU third[4];
        if constexpr (type == DType::Q3_K) load_columns(block, i * 16, third);
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
            VU c[4];
            load_columns(block, (type == DType::Q3_K ? 32 : 16) + half * 32 + i * 16, c);
#pragma GCC unroll 4
            for (int part = 0; part < 4; ++part) {
#pragma GCC unroll 4
                for (int j = 0; j < 4; ++j) {
                    VU q = bytes(c[j], part * 2, 3);
                    if constexpr (type == DType::Q3_K) q = hn::Or(q, hn::ShiftLeft<2>(bytes(third[j], half * 4 + part, 1)));
                    out.put((half * 4 + part) * 8 + i * 4 + j, q);
                }
            }
        }
    }
}

template <class Source, class Out>
HWY_INLINE void unpack_q2_k(const Source& block, Out& out) {
    unpack_pairs_of_bits<DType::Q2_K>(block, out);
    VU c[4];
    load_columns(block, 0, c);
    const VU factors = load_column(block, 80);
    const VF d = low_half(factors);
    const VF dm = hn::Neg(high_half(factors));
#pragma GCC unroll 16
    for (int g = 0; g < 16; ++g) {
        out.put_scale(g, hn::Mul(d, field(c[g / 4], g % 4 * 8, 15)));
        out.put_minimum(g, hn::Mul(dm, field(c[g / 4], g % 4 * 8 + 4, 15)));
    }
}

template <class Source, class Out>
HWY_INLINE void unpack_q3_k(const Source& block, Out& out) {
    unpack_pairs_of_bits<DType::Q3_K>(block, out);
    const VF d = load_half(block, 108);
    const VU s[3] = {load_column(block, 96), load_column(block, 100), load_column(block, 104)};
#pragma GCC unroll 4
    for (int group = 0; group < 4; ++group) {
        const VU scales = hn::Or(bytes(s[group % 2], group / 2 * 4, 15), hn::ShiftLeft<4>(bytes(s[2], group * 2, 3)));
#pragma GCC unroll 4
        for (int g = 0; g < 4; ++g) {
            out.put_scale(group * 4 + g, hn::Mul(d, hn::Sub(field(scales, g * 8, 63), hn::Set(DF(), 32.0F))));
        }
    }
}

template <class Source, class Out>
HWY_INLINE void unpack_q6_k(const Source& block, Out& out) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        // 16 bytes of high bits serve four parts of 32 columns, whose low nibbles lie in two places.
        VU high[4];
        load_columns(block, 128 + i * 16, high);
        const int half = i / 2;
#pragma GCC unroll 2
        for (int part = 0; part < 2; ++part) {
            VU low[4];
            load_columns(block, half * 64 + part * 32 + i % 2 * 16, low);
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const int column = half * 32 + part * 8 + i % 2 * 4 + j;
                out.put(column, hn::Or(bytes(low[j], 0, 15), hn::ShiftLeft<4>(bytes(high[j], part * 2, 3))));
                out.put(column + 16, hn::Or(bytes(low[j], 4, 15), hn::ShiftLeft<4>(bytes(high[j], part * 2 + 4, 3))));
            }
        }
    }
    VU c[4];
    load_columns(block, 192, c);
    const VF d = load_half(block, 208);
#pragma GCC unroll 16
    for (int g = 0; g < 16; ++g) {
        const VI scale = hn::ShiftRight<24>(hn::BitCast(DI(), hn::ShiftLeftSame(c[g / 4], 24 - g % 4 * 8)));
        out.put_scale(g, hn::Mul(d, hn::ConvertTo(DF(), scale)));
    }
}

template <class Source, class Out>
HWY_INLINE void unpack_iq4_xs(const Source& block, Out& out) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
        VU c[4];
        load_columns(block, 8 + g * 16, c);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            out.put(g * 8 + j, look_up<DType::IQ4_XS>(bytes(c[j], 0, 15)));
            out.put(g * 8 + 4 + j, look_up<DType::IQ4_XS>(bytes(c[j], 4, 15)));
        }
    }
    const VU head = load_column(block, 0);
    const VU low = load_column(block, 4);
    const VF d = low_half(head);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
        const VU high_bits = hn::ShiftLeft<4>(hn::And(hn::ShiftRightSame(head, 16 + 2 * g), hn::Set(DU(), 3U)));
        const VU scale = hn::Or(hn::And(hn::ShiftRightSame(low, g * 4), hn::Set(DU(), 15U)), high_bits);
        out.put_scale(g, hn::Mul(d, hn::Sub(field(scale, 0, 63), hn::Set(DF(), 32.0F))));
    }
}

// Requires: panel_format(type).per_256.
template <DType type, class Source, class Out>
HWY_INLINE void unpack_256(const Source& block, Out& out) {
    if constexpr (type == DType::Q2_K) unpack_q2_k(block, out);
    if constexpr (type == DType::Q3_K) unpack_q3_k(block, out);
    if constexpr (type == DType::Q6_K) unpack_q6_k(block, out);
    if constexpr (type == DType::IQ4_XS) unpack_iq4_xs(block, out);
    if constexpr (type == DType::Q4_K || type == DType::Q5_K) {
        unpack_nibbles<type>(block, out);
        unpack_scales_minima(block, out);
    }
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
