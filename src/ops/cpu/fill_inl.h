// Rewriting rows as a panel. Included once for each target, after highway.h and target_inl.h.
#if defined(CELLAR_OPS_CPU_FILL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_FILL_INL_H_
#undef CELLAR_OPS_CPU_FILL_INL_H_
#else
#define CELLAR_OPS_CPU_FILL_INL_H_
#endif

#include "ops/cpu/superblock_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

// A block of 32 columns becomes sub-block `sub`.
template <DType type, class Source>
HWY_INLINE void fill_32(const Source& block, int sub, Panel& panel) {
    const Block32 b = unpack_32<type>(block);
    panel.put_scale(sub, b.scale);
    if constexpr (panel_format(type).minimum) panel.put_minimum(sub, b.minimum);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) panel.put(sub * 8 + j, b.q[j]);
}

// Rewrites `columns` columns, at most kChunk, from the source's first block on.
template <DType type, class Source>
HWY_INLINE void fill_panel(const Source& source, int columns, Panel& panel) {
    if constexpr (panel_format(type).per_256) {
        unpack_256<type>(source, panel);
    } else {
        for (int i = 0; i < columns / 32; ++i) fill_32<type>(block_of<type>(source, i), i, panel);
    }
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
