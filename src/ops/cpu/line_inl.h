// Products with one row of activations, straight from the source: no panel, nothing goes through memory. The sums are those of
// multiply_panel, bit for bit. Included once for each target, after highway.h and target_inl.h.
#if defined(CELLAR_OPS_CPU_LINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_LINE_INL_H_
#undef CELLAR_OPS_CPU_LINE_INL_H_
#else
#define CELLAR_OPS_CPU_LINE_INL_H_
#endif

#include "ops/cpu/superblock_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

// Columns [column, column + columns) of a prepared row of activations.
template <DType type>
struct Line {
    static constexpr PanelFormat format = panel_format(type);
    static constexpr int scaled = format.per_256 ? 256 : 32;
    static constexpr int summed = format.per_256 ? 16 : 32;

    Line(const std::byte* row, int64_t n, int64_t column)
        : q(reinterpret_cast<const int8_t*>(row + column)),
          scales(row + n + column / scaled * 4),
          sums(row + n + n / scaled * 4 + column / summed * 4) {}

    // Of the quants of sub-block s.
    [[nodiscard]] HWY_INLINE int32_t sum(int s) const {
        if constexpr (format.sub == summed) return load_at<int32_t>(sums + s * 4);
        return load_at<int32_t>(sums + s * 8) + load_at<int32_t>(sums + s * 8 + 4);
    }
    [[nodiscard]] HWY_INLINE float scale(int s) const { return load_at<float>(scales + s * 4); }

    const int8_t* q;
    const std::byte* scales;
    const std::byte* sums;
};

// What a block of 256 columns comes to. On the way it asks for what is read later, a few lines at a time: a core can wait for few.
template <DType type, bool fetches>
struct Dots {
    static constexpr PanelFormat format = panel_format(type);
    static constexpr int kSubs = 256 / format.sub;

    HWY_INLINE void put(int column, VU quants) {
        constexpr int kLines = (format.block_bytes * kLanes + 63) / 64;
        if constexpr (fetches) {
            for (int line = column * kLines / 64; line < (column + 1) * kLines / 64; ++line) __builtin_prefetch(ahead + line * 64, 0, 2);
        }
        VI& sum = dot[column / (format.sub / 4)];
        sum = dot4<format.wide>(sum, make_quants<format.wide>(quants), x + column * 4);
    }
    HWY_INLINE void put_scale(int sub, VF v) { scale[sub] = v; }
    HWY_INLINE void put_minimum(int sub, VF v) { minimum[sub] = v; }

    const int8_t* x;
    const uint8_t* ahead;
    VI dot[kSubs];
    VF scale[kSubs];
    VF minimum[kSubs];
};

template <DType type, class Source>
HWY_INLINE VF multiply_256(const Source& source, const Line<type>& x, VF sum) {
    constexpr PanelFormat format = panel_format(type);
    const DF df;
    Dots<type, Source::kFetches> block;
    block.x = x.q;
    block.ahead = ahead_of(source);
#pragma GCC unroll 16
    for (int s = 0; s < block.kSubs; ++s) block.dot[s] = kOffset<type> == 0 ? hn::Zero(DI()) : hn::Set(DI(), -kOffset<type> * x.sum(s));
    unpack_256<type>(source, block);
    VF whole = hn::Zero(df);
#pragma GCC unroll 16
    for (int s = 0; s < block.kSubs; ++s) {
        whole = hn::MulAdd(hn::ConvertTo(df, block.dot[s]), block.scale[s], whole);
        if constexpr (format.minimum) whole = hn::MulAdd(block.minimum[s], hn::Set(df, static_cast<float>(x.sum(s))), whole);
    }
    return hn::MulAdd(whole, hn::Set(df, x.scale(0)), sum);
}

template <DType type, class Source>
HWY_INLINE VF multiply_32(const Source& source, const Line<type>& x, int s, VF sum) {
    constexpr PanelFormat format = panel_format(type);
    const DF df;
    const DI di;
    const Block32 b = unpack_32<type>(block_of<type>(source, s));
    // Sums of integers come out the same in any order: two chains are shorter than one.
    VI even = hn::Set(di, -kOffset<type> * x.sum(s));
    VI odd = hn::Zero(di);
#pragma GCC unroll 4
    for (int j = 0; j < 8; j += 2) {
        even = dot4<format.wide>(even, make_quants<format.wide>(b.q[j]), x.q + s * 32 + j * 4);
        odd = dot4<format.wide>(odd, make_quants<format.wide>(b.q[j + 1]), x.q + s * 32 + j * 4 + 4);
    }
    const VF scale = hn::Set(df, x.scale(s));
    sum = hn::MulAdd(hn::ConvertTo(df, hn::Add(even, odd)), hn::Mul(b.scale, scale), sum);
    if constexpr (format.minimum) sum = hn::MulAdd(b.minimum, hn::Set(df, x.scale(s) * static_cast<float>(x.sum(s))), sum);
    return sum;
}

// Adds the products of `columns` columns, at most kChunk, to `sum`.
template <DType type, class Source>
HWY_INLINE VF multiply_line(const Source& source, const Line<type>& x, int columns, VF sum) {
    if constexpr (panel_format(type).per_256) {
        return multiply_256<type>(source, x, sum);
    } else {
        for (int s = 0; s < columns / 32; ++s) {
            fetch_ahead(source, s);
            sum = multiply_32<type>(source, x, s, sum);
        }
        return sum;
    }
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
