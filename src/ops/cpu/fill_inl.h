// Rewriting rows as a panel, and rows of activations as a tile. Included once for each target, after highway.h and target_inl.h.
#if defined(CELLAR_OPS_CPU_FILL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_FILL_INL_H_
#undef CELLAR_OPS_CPU_FILL_INL_H_
#else
#define CELLAR_OPS_CPU_FILL_INL_H_
#endif

#include "ops/cpu/line_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

// A block of 32 columns becomes sub-block `sub`.
template <DType type, class Source>
HWY_INLINE void fill_32(const Source& block, int sub, Panel<type>& panel) {
    const Block32 b = unpack_32<type>(block);
    panel.put_scale(sub, b.scale);
    if constexpr (panel_format(type).minimum) panel.put_minimum(sub, b.minimum);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) panel.put(sub * 8 + j, b.q[j]);
}

// Rewrites `columns` columns, at most kChunk, from the source's first block on.
template <DType type, class Source>
HWY_INLINE void fill_panel(const Source& source, int columns, Panel<type>& panel) {
    if constexpr (panel_format(type).per_256) {
        unpack_256<type>(source, panel);
    } else {
        for (int i = 0; i < columns / 32; ++i) fill_32<type>(block_of<type>(source, i), i, panel);
    }
}

HWY_INLINE void copy_quants(const int8_t* from, int columns, int8_t* to) {
    const hn::CappedTag<int8_t, 32> d;
    for (int c = 0; c < columns; c += static_cast<int>(hn::Lanes(d))) hn::StoreU(hn::LoadU(d, from + c), d, to + c);
}

#if HWY_TARGET == HWY_AVX2
HWY_INLINE void copy_quants(const int8_t* from, int columns, int16_t* to) {
    for (int c = 0; c < columns; c += 32) {
        VU even;
        VU odd;
        widen_bytes(VU{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + c))}, even, odd);
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + c), even.raw);
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + c + 16), odd.raw);
    }
}
#endif

// Columns of a row of activations become row t of the tile.
template <DType type, int tokens>
HWY_INLINE void fill_columns(const Line<type>& x, int columns, int t, ActivationTile<type, tokens>& tile) {
    constexpr PanelFormat format = panel_format(type);
    copy_quants(x.q, columns, tile.q[t]);
    for (int s = 0; s < columns / x.scaled; ++s) tile.scale[t][s] = x.scale(s);
    for (int s = 0; s < columns / format.sub; ++s) {
        if constexpr (kOffset<type> != 0) tile.start[t][s] = -kOffset<type> * x.sum(s);
        if constexpr (format.minimum) {
            const auto sum = static_cast<float>(x.sum(s));
            tile.sum[t][s] = format.per_256 ? sum : x.scale(s) * sum;
        }
    }
}

// All but the last columns of a matrix come in whole chunks: a constant, which makes copies of few instructions and loops without rests.
template <DType type, int tokens>
HWY_NOINLINE void fill_row(const Line<type>& x, int columns, int t, ActivationTile<type, tokens>& tile) {
    if (columns == kChunk) return fill_columns<type, tokens>(x, kChunk, t, tile);
    fill_columns<type, tokens>(x, columns, t, tile);
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
