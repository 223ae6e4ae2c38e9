// Rewriting plain weights as they are packed. Included once for each target, after highway.h and target_inl.h.
#if defined(CELLAR_OPS_CPU_PLAIN_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_PLAIN_PACK_INL_H_
#undef CELLAR_OPS_CPU_PLAIN_PACK_INL_H_
#else
#define CELLAR_OPS_CPU_PLAIN_PACK_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "ops/cpu/plain_layout.h"
#include "ops/cpu/source_inl.h"
#include "ops/types.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

constexpr int kPart = 16;  // bytes of each row that are turned at a time

// Writes a column of four bytes of each row, which is one step or two. `stride` bytes lie between steps; returns the steps written.
HWY_INLINE int64_t put_column(DType type, VU column, uint8_t* out, size_t stride) {
    const DU du;
    if (type != DType::F16) {
        hn::Store(column, du, reinterpret_cast<uint32_t*>(out));
        return 1;
    }
    const hn::Rebind<uint16_t, DU> dh;
    hn::StoreU(hn::TruncateTo(dh, column), dh, reinterpret_cast<uint16_t*>(out));
    hn::StoreU(hn::TruncateTo(dh, hn::ShiftRight<16>(column)), dh, reinterpret_cast<uint16_t*>(out + stride));
    return 2;
}

// Bytes [from, to) of `count` rows; `out` is where their first step goes.
inline void pack_stretch(DType type, const uint8_t* rows, int64_t stride, int count, int64_t from, int64_t to, uint8_t* out, size_t step_bytes) {
    for (; from < to; from += kPart) {
        const int64_t bytes = std::min<int64_t>(kPart, to - from);
        Rows source{rows + from, stride};
        // An odd number of columns of two bytes leaves the last column half empty. It may be the last in its bundle.
        uint8_t padded[kLanes][kPart] = {};
        if (count < kLanes || bytes < kPart) {
            for (int lane = 0; lane < count; ++lane) std::memcpy(padded[lane], rows + lane * stride + from, static_cast<size_t>(bytes));
            source = {padded[0], kPart};
        }
        VU column[4];
        load_columns(source, 0, column);
        for (int j = 0; j * 4 < bytes; ++j) {
            if (type == DType::F16 && bytes - j * 4 == 2) {
                const hn::Rebind<uint16_t, DU> dh;
                hn::StoreU(hn::TruncateTo(dh, column[j]), dh, reinterpret_cast<uint16_t*>(out));
                return;
            }
            out += static_cast<size_t>(put_column(type, column[j], out, step_bytes)) * step_bytes;
        }
    }
}

// Columns [first, last) of the bundle that starts at `row`; `out` is where they go. Requires: first is a multiple of a step.
inline void pack_columns(const WeightMatrix& w, int64_t row, int64_t first, int64_t last, uint8_t* out) {
    const PlainLayout layout(w.type, kLanes, w.cols);
    const int64_t value_bytes = w.type == DType::F32 ? 4 : 2;
    const int64_t stride = w.cols * value_bytes;
    const int groups = layout.groups(row, w.rows);
    const auto group_bytes = static_cast<size_t>(kLanes) * static_cast<size_t>(layout.lane_bytes);
    const auto* rows = reinterpret_cast<const uint8_t*>(w.data) + row * stride;
    for (int g = 0; g < groups; ++g) {
        const auto count = static_cast<int>(std::min<int64_t>(kLanes, w.rows - row - g * kLanes));
        pack_stretch(w.type, rows + g * kLanes * stride, stride, count, first * value_bytes, last * value_bytes,
                     out + static_cast<size_t>(g) * group_bytes, static_cast<size_t>(groups) * group_bytes);
    }
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
