// Rewriting rows in file layout as a panel. Included once for each target, after highway.h and target_inl.h.
//
// All rows of the panel are handled at once: the same four bytes of each row make one vector (a column), and whatever a format packs
// into bytes is taken apart there, where each lane is a row. No loop runs over single quants.
#if defined(CELLAR_OPS_CPU_FILL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_FILL_INL_H_
#undef CELLAR_OPS_CPU_FILL_INL_H_
#else
#define CELLAR_OPS_CPU_FILL_INL_H_
#endif

#include "ops/cpu/panel_inl.h"
#include "tensor/block_layout.h"
#include "tensor/row_codec.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

using DU = hn::RebindToUnsigned<DF>;
using VU = hn::Vec<DU>;

// kLanes rows that lie `stride` bytes apart.
struct Rows {
    const uint8_t* first;
    int64_t stride;
};

// Four columns: out[j] holds bytes [offset + 4 j, offset + 4 j + 4) of each row.
HWY_INLINE void load_columns(Rows rows, int64_t offset, VU* out /* [4] */) {
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
    const int64_t s4 = rows.stride * 4;
    const int64_t s12 = rows.stride * 12;
    __m512i v[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
        // Row r of each four in its own quarter: the quarters come by masked broadcasts from memory, which cost no shuffle.
        const uint8_t* p = rows.first + r * rows.stride + offset;
        v[r] = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
        v[r] = _mm512_mask_broadcast_i32x4(v[r], 0x00F0, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + s4)));
        v[r] = _mm512_mask_broadcast_i32x4(v[r], 0x0F00, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 2 * s4)));
        v[r] = _mm512_mask_broadcast_i32x4(v[r], 0xF000, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + s12)));
    }
    const __m512i low01 = _mm512_unpacklo_epi32(v[0], v[1]);
    const __m512i high01 = _mm512_unpackhi_epi32(v[0], v[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(v[2], v[3]);
    const __m512i high23 = _mm512_unpackhi_epi32(v[2], v[3]);
    out[0] = VU{_mm512_unpacklo_epi64(low01, low23)};
    out[1] = VU{_mm512_unpackhi_epi64(low01, low23)};
    out[2] = VU{_mm512_unpacklo_epi64(high01, high23)};
    out[3] = VU{_mm512_unpackhi_epi64(high01, high23)};
#elif HWY_TARGET == HWY_AVX2
    const int64_t s4 = rows.stride * 4;
    __m256i v[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
        const uint8_t* p = rows.first + r * rows.stride + offset;
        v[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
                                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + s4)), 1);
    }
    const __m256i low01 = _mm256_unpacklo_epi32(v[0], v[1]);
    const __m256i high01 = _mm256_unpackhi_epi32(v[0], v[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(v[2], v[3]);
    const __m256i high23 = _mm256_unpackhi_epi32(v[2], v[3]);
    out[0] = VU{_mm256_unpacklo_epi64(low01, low23)};
    out[1] = VU{_mm256_unpackhi_epi64(low01, low23)};
    out[2] = VU{_mm256_unpacklo_epi64(high01, high23)};
    out[3] = VU{_mm256_unpackhi_epi64(high01, high23)};
#else
    for (int j = 0; j < 4; ++j) {
        HWY_ALIGN uint32_t column[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) column[lane] = block::load32(rows.first + lane * rows.stride + offset + j * 4);
        out[j] = hn::Load(DU(), column);
    }
#endif
}

// One column.
HWY_INLINE VU load_column(Rows rows, int64_t offset) {
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
    const __m512i index =
        _mm512_mullo_epi32(_mm512_set1_epi32(static_cast<int>(rows.stride)), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    return VU{_mm512_i32gather_epi32(index, rows.first + offset, 1)};
#else
    HWY_ALIGN uint32_t column[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) column[lane] = block::load32(rows.first + lane * rows.stride + offset);
    return hn::Load(DU(), column);
#endif
}

// The low or the high 16 bits of each lane, which are an f16.
HWY_INLINE VF low_half(VU column) {
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
    return VF{_mm512_cvtph_ps(_mm512_cvtepi32_epi16(column.raw))};
#elif HWY_TARGET == HWY_AVX2
    const __m256i low = _mm256_and_si256(column.raw, _mm256_set1_epi32(0xFFFF));
    const __m256i packed = _mm256_packus_epi32(low, low);
    return VF{_mm256_cvtph_ps(_mm_unpacklo_epi64(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1)))};
#else
    HWY_ALIGN uint32_t lanes[kLanes];
    HWY_ALIGN float halves[kLanes];
    hn::Store(column, DU(), lanes);
    for (int lane = 0; lane < kLanes; ++lane) halves[lane] = f16_to_f32(static_cast<uint16_t>(lanes[lane]));
    return hn::Load(DF(), halves);
#endif
}
HWY_INLINE VF high_half(VU column) {
    return low_half(hn::ShiftRight<16>(column));
}

// (column >> shift) & mask, as a float. Requires: mask is not negative.
HWY_INLINE VF field(VU column, int shift, uint32_t mask) {
    return hn::ConvertTo(DF(), hn::BitCast(DI(), hn::And(hn::ShiftRightSame(column, shift), hn::Set(DU(), mask))));
}

HWY_INLINE VU bytes(VU column, int shift, uint32_t each) {
    return hn::And(hn::ShiftRightSame(column, shift), hn::Set(DU(), each * 0x01010101U));
}

// Four neighbouring bits of each lane, from bit `shift` on, each as bit 4 of a byte of its own.
HWY_INLINE VU fifth_bits(VU column, int shift) {
    const VU four = hn::And(hn::ShiftRightSame(column, shift), hn::Set(DU(), 15U));
    return hn::ShiftLeft<4>(hn::And(hn::Mul(four, hn::Set(DU(), 0x00204081U)), hn::Set(DU(), 0x01010101U)));
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

// A block of 32 columns at byte `at` of each row becomes sub-block `sub`.
template <DType type>
HWY_INLINE void fill_32(Rows rows, int64_t at, int sub, Panel& panel) {
    VU c[4];
    const int column = sub * 8;
    if constexpr (type == DType::Q8_0) {
        put_scale(panel, sub, low_half(load_column(rows, at)));
        const VU flip = hn::Set(DU(), kUnsignedWide ? 0x80808080U : 0U);
#pragma GCC unroll 2
        for (int part = 0; part < 2; ++part) {
            load_columns(rows, at + 2 + part * 16, c);
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) put(panel, column + part * 4 + j, hn::Xor(c[j], flip));
        }
        return;
    }
    const VU head = load_column(rows, at);
    VU fifth{};
    int64_t quants = at + 2;
    if constexpr (type == DType::MXFP4) {
        // 2^(e - 128), which is subnormal for e < 2.
        const VU e = hn::And(head, hn::Set(DU(), 255U));
        const VU normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(DU(), 1U)));
        const VU one = hn::ShiftLeft<22>(hn::Set(DU(), 1U));
        const VU small = hn::IfThenElse(hn::Eq(e, hn::Zero(DU())), hn::ShiftRight<1>(one), one);
        const auto is_small = hn::Eq(hn::ShiftRight<1>(e), hn::Zero(DU()));
        put_scale(panel, sub, hn::BitCast(DF(), hn::IfThenElse(is_small, small, normal)));
        quants = at + 1;
    } else {
        put_scale(panel, sub, low_half(head));
    }
    if constexpr (type == DType::Q4_1 || type == DType::Q5_1) {
        put_minimum(panel, sub, high_half(head));
        quants += 2;
    }
    if constexpr (type == DType::Q5_0 || type == DType::Q5_1) {
        fifth = load_column(rows, quants);
        quants += 4;
    }
    load_columns(rows, quants, c);
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
        put(panel, column + j, low);
        put(panel, column + 4 + j, high);
    }
}

// Scales and minima of Q4_K and Q5_K.
HWY_INLINE void fill_scales_minima(Rows rows, int64_t at, Panel& panel) {
    VU c[4];
    load_columns(rows, at, c);
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
template <DType type>
HWY_INLINE void fill_nibbles(Rows rows, int64_t at, Panel& panel) {
    for (int i = 0; i < 2; ++i) {
        VU fifth[4];
        if constexpr (type == DType::Q5_K) load_columns(rows, at + 16 + i * 16, fifth);
        for (int pair = 0; pair < 4; ++pair) {
            VU c[4];
            load_columns(rows, at + (type == DType::Q5_K ? 48 : 16) + pair * 32 + i * 16, c);
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
template <DType type>
HWY_INLINE void fill_pairs_of_bits(Rows rows, int64_t at, Panel& panel) {
    for (int i = 0; i < 2; ++i) {
        VU third[4];
        if constexpr (type == DType::Q3_K) load_columns(rows, at + i * 16, third);
        for (int half = 0; half < 2; ++half) {
            VU c[4];
            load_columns(rows, at + (type == DType::Q3_K ? 32 : 16) + half * 32 + i * 16, c);
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

HWY_INLINE void fill_q2_k(Rows rows, int64_t at, Panel& panel) {
    VU c[4];
    load_columns(rows, at, c);
    const VU factors = load_column(rows, at + 80);
    const VF d = low_half(factors);
    const VF dm = hn::Neg(high_half(factors));
#pragma GCC unroll 16
    for (int g = 0; g < 16; ++g) {
        put_scale(panel, g, hn::Mul(d, field(c[g / 4], g % 4 * 8, 15)));
        put_minimum(panel, g, hn::Mul(dm, field(c[g / 4], g % 4 * 8 + 4, 15)));
    }
    fill_pairs_of_bits<DType::Q2_K>(rows, at, panel);
}

HWY_INLINE void fill_q3_k(Rows rows, int64_t at, Panel& panel) {
    // The 12 bytes of scales and the factor behind them end the block: they are read with the two bytes before them.
    VU c[4];
    load_columns(rows, at + 94, c);
    const VF d = high_half(c[3]);
    VU s[3];
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) s[i] = hn::Or(hn::ShiftRight<16>(c[i]), hn::ShiftLeft<16>(c[i + 1]));
#pragma GCC unroll 4
    for (int group = 0; group < 4; ++group) {
        const VU scales = hn::Or(bytes(s[group % 2], group / 2 * 4, 15), hn::ShiftLeft<4>(bytes(s[2], group * 2, 3)));
#pragma GCC unroll 4
        for (int g = 0; g < 4; ++g) {
            put_scale(panel, group * 4 + g, hn::Mul(d, hn::Sub(field(scales, g * 8, 63), hn::Set(DF(), 32.0F))));
        }
    }
    fill_pairs_of_bits<DType::Q3_K>(rows, at, panel);
}

HWY_INLINE void fill_q6_k(Rows rows, int64_t at, Panel& panel) {
    VU c[4];
    load_columns(rows, at + 192, c);
    const VF d = high_half(load_column(rows, at + 206));
#pragma GCC unroll 16
    for (int g = 0; g < 16; ++g) {
        const VI scale = hn::ShiftRight<24>(hn::BitCast(DI(), hn::ShiftLeftSame(c[g / 4], 24 - g % 4 * 8)));
        put_scale(panel, g, hn::Mul(d, hn::ConvertTo(DF(), scale)));
    }
    for (int i = 0; i < 4; ++i) {
        // 16 bytes of high bits serve four parts of 32 columns, whose low nibbles lie in two places.
        VU high[4];
        load_columns(rows, at + 128 + i * 16, high);
        const int half = i / 2;
        for (int part = 0; part < 2; ++part) {
            VU low[4];
            load_columns(rows, at + half * 64 + part * 32 + i % 2 * 16, low);
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const int column = half * 32 + part * 8 + i % 2 * 4 + j;
                put(panel, column, hn::Or(bytes(low[j], 0, 15), hn::ShiftLeft<4>(bytes(high[j], part * 2, 3))));
                put(panel, column + 16, hn::Or(bytes(low[j], 4, 15), hn::ShiftLeft<4>(bytes(high[j], part * 2 + 4, 3))));
            }
        }
    }
}

HWY_INLINE void fill_iq4_xs(Rows rows, int64_t at, Panel& panel) {
    const VU head = load_column(rows, at);
    const VU low = load_column(rows, at + 4);
    const VF d = low_half(head);
    for (int g = 0; g < 8; ++g) {
        const VU high_bits = hn::ShiftLeft<4>(hn::And(hn::ShiftRightSame(head, 16 + 2 * g), hn::Set(DU(), 3U)));
        const VU scale = hn::Or(hn::And(hn::ShiftRightSame(low, g * 4), hn::Set(DU(), 15U)), high_bits);
        put_scale(panel, g, hn::Mul(d, hn::Sub(field(scale, 0, 63), hn::Set(DF(), 32.0F))));
        VU c[4];
        load_columns(rows, at + 8 + g * 16, c);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            put(panel, g * 8 + j, look_up<DType::IQ4_XS>(bytes(c[j], 0, 15)));
            put(panel, g * 8 + 4 + j, look_up<DType::IQ4_XS>(bytes(c[j], 4, 15)));
        }
    }
}

// Rewrites `columns` columns, at most kChunk, whose blocks start at the rows' first byte.
template <DType type>
HWY_INLINE void fill_panel(Rows rows, int columns, Panel& panel) {
    if constexpr (panel_format(type).per_256) {
        if constexpr (type == DType::Q2_K) fill_q2_k(rows, 0, panel);
        if constexpr (type == DType::Q3_K) fill_q3_k(rows, 0, panel);
        if constexpr (type == DType::Q6_K) fill_q6_k(rows, 0, panel);
        if constexpr (type == DType::IQ4_XS) fill_iq4_xs(rows, 0, panel);
        if constexpr (type == DType::Q4_K || type == DType::Q5_K) {
            fill_scales_minima(rows, 0, panel);
            fill_nibbles<type>(rows, 0, panel);
        }
    } else {
        constexpr int block_bytes = panel_format(type).block_bytes;
        for (int sub = 0; sub < columns / 32; ++sub) fill_32<type>(rows, sub * block_bytes, sub, panel);
    }
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
