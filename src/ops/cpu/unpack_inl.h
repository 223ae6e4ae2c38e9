// Blocks taken apart. Included once for each target, after highway.h and target_inl.h.
//
// All rows of a group are handled at once: the same four bytes of each row make one vector (a column), and whatever a format packs
// into bytes is taken apart there, where each lane is a row. No loop runs over single quants.
#if defined(CELLAR_OPS_CPU_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_UNPACK_INL_H_
#undef CELLAR_OPS_CPU_UNPACK_INL_H_
#else
#define CELLAR_OPS_CPU_UNPACK_INL_H_
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

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
