// What the products of attention have on their right side, per target: tiles turned, widened, or straight from the cache.
#if defined(CELLAR_OPS_CPU_ATTEND_OPERAND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_ATTEND_OPERAND_INL_H_
#undef CELLAR_OPS_CPU_ATTEND_OPERAND_INL_H_
#else
#define CELLAR_OPS_CPU_ATTEND_OPERAND_INL_H_
#endif

#include "ops/cpu/attend_tile_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {

// Each gives vector j of row k, from a column on.

struct FloatTile {
    const float* data;
    int stride;

    HWY_INLINE VF operator()(int k, int j) const { return hn::Load(DF(), data + k * stride + j * kLanes); }
    template <int C>
    HWY_INLINE void fetch_next() const {}
    [[nodiscard]] FloatTile from(int column) const { return {data + column, stride}; }
};

#if HWY_TARGET != HWY_SCALAR

// What is fetched of the tile to come, bit by bit between products: lines of [at, at + row_bytes) of each row, row after row. Behind the
// last one it begins again.
struct FetchAhead {
    const Rows* rows;
    ptrdiff_t at;
    int row_bytes;
    int row = 0;
    int byte = 0;

    template <int kBytes>
    HWY_INLINE void advance() {
        const std::byte* line = rows->next[row] + at + byte;
#pragma GCC unroll 8
        for (int i = 0; i < kBytes; i += 64) fetch(line + i);
        byte += kBytes;
        const bool whole = byte >= row_bytes;
        byte = whole ? 0 : byte;
        row = (row + static_cast<int>(whole)) & (kTile - 1);
    }
};

// Turned halves of [at, at + row_bytes) of the rows.
template <kv::RowFormat format>
struct HalfTile {
    const uint16_t* data;
    FetchAhead ahead;

    HWY_INLINE VF operator()(int k, int j) const { return widen_half<format>(hn::Load(hn::Half<D16>(), data + k * kTile + j * kLanes)); }
    template <int C>
    HWY_INLINE void fetch_next() {
        ahead.advance<C * kLanes * 2>();
    }
    // Each pass over some positions takes its share.
    [[nodiscard]] HalfTile from(int column) const { return {data + column, {ahead.rows, ahead.at, ahead.row_bytes, column, 0}}; }
};

// Straight from the rows of the cache, from some column on.
template <kv::RowFormat format>
struct CellTile {
    const Rows* rows;
    ptrdiff_t at;
    FetchAhead ahead;

    HWY_INLINE VF operator()(int k, int j) const {
        if constexpr (format == kv::RowFormat::F32) {
            return hn::LoadU(DF(), reinterpret_cast<const float*>(rows->at[k] + at) + j * kLanes);
        } else if constexpr (format == kv::RowFormat::Q8_0) {
            return load_bytes(rows->at[k] + at + j * kLanes);
        } else {
            return load_half<format>(rows->at[k] + at + 2 * j * kLanes);
        }
    }
    template <int C>
    HWY_INLINE void fetch_next() {
        ahead.advance<C * kLanes*(format == kv::RowFormat::F32 ? 4 : format == kv::RowFormat::Q8_0 ? 1 : 2)>();
    }
};

#endif

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
