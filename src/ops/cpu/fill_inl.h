// Rewriting rows as a panel. Included once for each target, after highway.h and target_inl.h.
//
// All rows of the panel are handled at once: the same four bytes of each row make one vector (a column), and whatever a format packs
// into bytes is taken apart there, where each lane is a row. No loop runs over single quants.
#if defined(CELLAR_OPS_CPU_FILL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_FILL_INL_H_
#undef CELLAR_OPS_CPU_FILL_INL_H_
#else
#define CELLAR_OPS_CPU_FILL_INL_H_
#endif

#include "ops/cpu/source_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

// (column >> shift) & mask, as a float. Requires: mask is not negative.
HWY_INLINE VF field(VU column, int shift, uint32_t mask) {
    return hn::ConvertTo(DF(), hn::BitCast(DI(), hn::And(hn::ShiftRightSame(column, shift), hn::Set(DU(), mask))));
}

HWY_INLINE VU bytes(VU column, int shift, uint32_t each) {
    return hn::And(hn::ShiftRightSame(column, shift), hn::Set(DU(), each * 0x01010101U));
}

// Four neighbouring bits of each lane, from bit `shift` on, each as bit 4 of a byte of its own.
HWY_INLINE VU fifth_bits(VU column, int shift) {
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
    // A table of the sixteen answers; the index of a lane is its low four bits.
    const __m512i answers = _mm512_setr_epi32(0, 0x10, 0x1000, 0x1010, 0x100000, 0x100010, 0x101000, 0x101010, 0x10000000, 0x10000010, 0x10001000,
                                              0x10001010, 0x10100000, 0x10100010, 0x10101000, 0x10101010);
    return VU{_mm512_permutexvar_epi32(hn::ShiftRightSame(column, shift).raw, answers)};
#else
    const VU four = hn::And(hn::ShiftRightSame(column, shift), hn::Set(DU(), 15U));
    return hn::ShiftLeft<4>(hn::And(hn::Mul(four, hn::Set(DU(), 0x00204081U)), hn::Set(DU(), 0x01010101U)));
#endif
}

// What the values of a table are stored as.
template <DType type>
HWY_INLINE VU look_up(VU indices) {
    constexpr PanelFormat format = panel_format(type);
    constexpr int add = format.wide && !kUnsignedWide ? 0 : format.offset;
    alignas(16) uint8_t table[16];
    for (int i = 0; i < 16; ++i) table[i] = static_cast<uint8_t>((type == DType::MXFP4 ? block::kFp4Values : block::kIq4Values)[i] + add);
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    const hn::Repartition<uint8_t, DU> db;
    return hn::BitCast(DU(), hn::TableLookupBytes(hn::LoadDup128(db, table), hn::BitCast(db, indices)));
#else
    HWY_ALIGN uint32_t lanes[kLanes];
    hn::Store(indices, DU(), lanes);
    for (uint32_t& lane : lanes) {
        lane = table[lane & 15] | static_cast<uint32_t>(table[lane >> 8 & 15]) << 8 | static_cast<uint32_t>(table[lane >> 16 & 15]) << 16 |
               static_cast<uint32_t>(table[lane >> 24 & 15]) << 24;
    }
    return hn::Load(DU(), lanes);
#endif
}

HWY_INLINE void put(Panel& panel, int column, VU quants) {
    hn::Store(quants, DU(), reinterpret_cast<uint32_t*>(panel.q[column]));
}
HWY_INLINE void put_scale(Panel& panel, int sub, VF scale) {
    hn::Store(scale, DF(), panel.scale[sub]);
}
HWY_INLINE void put_minimum(Panel& panel, int sub, VF minimum) {
    hn::Store(minimum, DF(), panel.minimum[sub]);
}

// A block of 32 columns: its quants as they stand in a panel, four columns to a vector, its scales and its minima.
struct Block32 {
    VU q[8];
    VF scale;
    VF minimum;
};

template <DType type, class Source>
HWY_INLINE Block32 unpack_32(const Source& block) {
    Block32 out;
    out.minimum = hn::Zero(DF());
    if constexpr (type == DType::Q8_0) {
        out.scale = load_half(block, 0);
        load_columns(block, 2, out.q);
        load_columns(block, 18, out.q + 4);
        if constexpr (kUnsignedWide) {
#pragma GCC unroll 8
            for (VU& q : out.q) q = hn::Xor(q, hn::Set(DU(), 0x80808080U));
        }
        return out;
    }
    VU fifth = hn::Zero(DU());
    int64_t quants = 2;
    if constexpr (type == DType::MXFP4) {
        // 2^(e - 128), which is subnormal for e < 2.
        const VU e = load_byte(block, 0);
        const VU normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(DU(), 1U)));
        const VU small = hn::IfThenElse(hn::Eq(e, hn::Zero(DU())), hn::Set(DU(), 1U << 21), hn::Set(DU(), 1U << 22));
        const auto is_small = hn::Eq(hn::ShiftRight<1>(e), hn::Zero(DU()));
        out.scale = hn::BitCast(DF(), hn::IfThenElse(is_small, small, normal));
        quants = 1;
    } else if constexpr (type == DType::Q4_1 || type == DType::Q5_1) {
        const VU head = load_column(block, 0);
        out.scale = low_half(head);
        out.minimum = high_half(head);
        quants = 4;
    } else {
        out.scale = load_half(block, 0);
    }
    if constexpr (type == DType::Q5_0 || type == DType::Q5_1) {
        fifth = load_column(block, quants);
        quants += 4;
    }
    VU c[4];
    load_columns(block, quants, c);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
        VU low = bytes(c[j], 0, 15);
        VU high = bytes(c[j], 4, 15);
        if constexpr (type == DType::Q5_0 || type == DType::Q5_1) {
            low = hn::Or(low, fifth_bits(fifth, j * 4));
            high = hn::Or(high, fifth_bits(fifth, 16 + j * 4));
        } else if constexpr (type == DType::IQ4_NL || type == DType::MXFP4) {
            low = look_up<type>(low);
            high = look_up<type>(high);
        }
        out.q[j] = low;
        out.q[4 + j] = high;
    }
    return out;
}

// A block of 32 columns becomes sub-block `sub`.
template <DType type, class Source>
HWY_INLINE void fill_32(const Source& block, int sub, Panel& panel) {
    const Block32 b = unpack_32<type>(block);
    put_scale(panel, sub, b.scale);
    if constexpr (panel_format(type).minimum) put_minimum(panel, sub, b.minimum);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) put(panel, sub * 8 + j, b.q[j]);
}

// What fill_panel and multiply_panel do, for one token and without the way through memory.
template <DType type, class Source>
HWY_INLINE void multiply_directly(const Source& source, const ActivationTile<1>& x, int subs, float* acc /* [kLanes] */) {
    constexpr PanelFormat format = panel_format(type);
    static_assert(!format.per_256);
    const DF df;
    const DI di;
    VF sum = hn::Load(df, acc);
    for (int s = 0; s < subs; ++s) {
        const Block32 b = unpack_32<type>(block_of<type>(source, s));
        // Sums of integers come out the same in any order: two chains are shorter than one.
        VI even = hn::Set(di, x.start[0][s]);
        VI odd = hn::Zero(di);
#pragma GCC unroll 4
        for (int j = 0; j < 8; j += 2) {
            even = dot4<format.wide>(even, make_quants<format.wide>(b.q[j]), x.q[0] + s * 32 + j * 4);
            odd = dot4<format.wide>(odd, make_quants<format.wide>(b.q[j + 1]), x.q[0] + s * 32 + j * 4 + 4);
        }
        sum = hn::MulAdd(hn::ConvertTo(df, hn::Add(even, odd)), hn::Mul(b.scale, hn::Set(df, x.scale[0][s])), sum);
        if constexpr (format.minimum) sum = hn::MulAdd(b.minimum, hn::Set(df, x.sum[0][s]), sum);
    }
    hn::Store(sum, df, acc);
}

// Scales and minima of Q4_K and Q5_K.
template <class Source>
HWY_INLINE void fill_scales_minima(const Source& block, Panel& panel) {
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
        put_scale(panel, g, hn::Mul(d, field(c[1], g * 8, 63)));
        put_minimum(panel, g, hn::Mul(dm, field(c[2], g * 8, 63)));
        put_scale(panel, 4 + g, hn::Mul(d, field(scales, g * 8, 63)));
        put_minimum(panel, 4 + g, hn::Mul(dm, field(minima, g * 8, 63)));
    }
}

// Nibbles of Q4_K and Q5_K: 32 bytes hold 64 columns.
template <DType type, class Source>
HWY_INLINE void fill_nibbles(const Source& block, Panel& panel) {
    for (int i = 0; i < 2; ++i) {
        VU fifth[4];
        if constexpr (type == DType::Q5_K) load_columns(block, 16 + i * 16, fifth);
        for (int pair = 0; pair < 4; ++pair) {
            VU c[4];
            load_columns(block, (type == DType::Q5_K ? 48 : 16) + pair * 32 + i * 16, c);
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                VU low = bytes(c[j], 0, 15);
                VU high = bytes(c[j], 4, 15);
                if constexpr (type == DType::Q5_K) {
                    low = hn::Or(low, hn::ShiftLeft<4>(bytes(fifth[j], 2 * pair, 1)));
                    high = hn::Or(high, hn::ShiftLeft<4>(bytes(fifth[j], 2 * pair + 1, 1)));
                }
                put(panel, pair * 16 + i * 4 + j, low);
                put(panel, pair * 16 + 8 + i * 4 + j, high);
            }
        }
    }
}

// 32 bytes hold 128 columns of two bits; Q3_K has a third bit elsewhere.
template <DType type, class Source>
HWY_INLINE void fill_pairs_of_bits(const Source& block, Panel& panel) {
    for (int i = 0; i < 2; ++i) {
        VU third[4];
        if constexpr (type == DType::Q3_K) load_columns(block, i * 16, third);
        for (int half = 0; half < 2; ++half) {
            VU c[4];
            load_columns(block, (type == DType::Q3_K ? 32 : 16) + half * 32 + i * 16, c);
            for (int part = 0; part < 4; ++part) {
#pragma GCC unroll 4
                for (int j = 0; j < 4; ++j) {
                    VU q = bytes(c[j], part * 2, 3);
                    if constexpr (type == DType::Q3_K) q = hn::Or(q, hn::ShiftLeft<2>(bytes(third[j], half * 4 + part, 1)));
                    put(panel, (half * 4 + part) * 8 + i * 4 + j, q);
                }
            }
        }
    }
}

template <class Source>
HWY_INLINE void fill_q2_k(const Source& block, Panel& panel) {
    VU c[4];
    load_columns(block, 0, c);
    const VU factors = load_column(block, 80);
    const VF d = low_half(factors);
    const VF dm = hn::Neg(high_half(factors));
#pragma GCC unroll 16
    for (int g = 0; g < 16; ++g) {
        put_scale(panel, g, hn::Mul(d, field(c[g / 4], g % 4 * 8, 15)));
        put_minimum(panel, g, hn::Mul(dm, field(c[g / 4], g % 4 * 8 + 4, 15)));
    }
    fill_pairs_of_bits<DType::Q2_K>(block, panel);
}

template <class Source>
HWY_INLINE void fill_q3_k(const Source& block, Panel& panel) {
    const VF d = load_half(block, 108);
    const VU s[3] = {load_column(block, 96), load_column(block, 100), load_column(block, 104)};
#pragma GCC unroll 4
    for (int group = 0; group < 4; ++group) {
        const VU scales = hn::Or(bytes(s[group % 2], group / 2 * 4, 15), hn::ShiftLeft<4>(bytes(s[2], group * 2, 3)));
#pragma GCC unroll 4
        for (int g = 0; g < 4; ++g) {
            put_scale(panel, group * 4 + g, hn::Mul(d, hn::Sub(field(scales, g * 8, 63), hn::Set(DF(), 32.0F))));
        }
    }
    fill_pairs_of_bits<DType::Q3_K>(block, panel);
}

template <class Source>
HWY_INLINE void fill_q6_k(const Source& block, Panel& panel) {
    VU c[4];
    load_columns(block, 192, c);
    const VF d = load_half(block, 208);
#pragma GCC unroll 16
    for (int g = 0; g < 16; ++g) {
        const VI scale = hn::ShiftRight<24>(hn::BitCast(DI(), hn::ShiftLeftSame(c[g / 4], 24 - g % 4 * 8)));
        put_scale(panel, g, hn::Mul(d, hn::ConvertTo(DF(), scale)));
    }
    for (int i = 0; i < 4; ++i) {
        // 16 bytes of high bits serve four parts of 32 columns, whose low nibbles lie in two places.
        VU high[4];
        load_columns(block, 128 + i * 16, high);
        const int half = i / 2;
        for (int part = 0; part < 2; ++part) {
            VU low[4];
            load_columns(block, half * 64 + part * 32 + i % 2 * 16, low);
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const int column = half * 32 + part * 8 + i % 2 * 4 + j;
                put(panel, column, hn::Or(bytes(low[j], 0, 15), hn::ShiftLeft<4>(bytes(high[j], part * 2, 3))));
                put(panel, column + 16, hn::Or(bytes(low[j], 4, 15), hn::ShiftLeft<4>(bytes(high[j], part * 2 + 4, 3))));
            }
        }
    }
}

template <class Source>
HWY_INLINE void fill_iq4_xs(const Source& block, Panel& panel) {
    const VU head = load_column(block, 0);
    const VU low = load_column(block, 4);
    const VF d = low_half(head);
    for (int g = 0; g < 8; ++g) {
        const VU high_bits = hn::ShiftLeft<4>(hn::And(hn::ShiftRightSame(head, 16 + 2 * g), hn::Set(DU(), 3U)));
        const VU scale = hn::Or(hn::And(hn::ShiftRightSame(low, g * 4), hn::Set(DU(), 15U)), high_bits);
        put_scale(panel, g, hn::Mul(d, hn::Sub(field(scale, 0, 63), hn::Set(DF(), 32.0F))));
        VU c[4];
        load_columns(block, 8 + g * 16, c);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            put(panel, g * 8 + j, look_up<DType::IQ4_XS>(bytes(c[j], 0, 15)));
            put(panel, g * 8 + 4 + j, look_up<DType::IQ4_XS>(bytes(c[j], 4, 15)));
        }
    }
}

// Rewrites `columns` columns, at most kChunk, from the source's first block on.
template <DType type, class Source>
HWY_INLINE void fill_panel(const Source& source, int columns, Panel& panel) {
    if constexpr (type == DType::Q2_K) fill_q2_k(source, panel);
    if constexpr (type == DType::Q3_K) fill_q3_k(source, panel);
    if constexpr (type == DType::Q6_K) fill_q6_k(source, panel);
    if constexpr (type == DType::IQ4_XS) fill_iq4_xs(source, panel);
    if constexpr (type == DType::Q4_K || type == DType::Q5_K) {
        fill_scales_minima(source, panel);
        fill_nibbles<type>(source, panel);
    }
    if constexpr (!panel_format(type).per_256) {
        for (int i = 0; i < columns / 32; ++i) fill_32<type>(block_of<type>(source, i), i, panel);
    }
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
