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

// Turned halves of [at, at + row_bytes) of the rows; those of the tile to come are fetched on the way, a line for each row of the product.
template <kv::RowFormat format>
struct HalfTile {
    const uint16_t* data;
    const Rows* rows;
    ptrdiff_t at;
    int row_bytes;
    int next_row = 0;
    int next_byte = 0;

    HWY_INLINE VF operator()(int k, int j) const { return widen_half<format>(hn::Load(hn::Half<D16>(), data + k * kTile + j * kLanes)); }
    template <int C>
    HWY_INLINE void fetch_next() {
        if (next_row >= kTile) return;
        fetch(rows->next[next_row] + at + next_byte);
        next_byte += 64;
        if (next_byte < row_bytes) return;
        next_byte = 0;
        ++next_row;
    }
    [[nodiscard]] HalfTile from(int column) const { return {data + column, rows, at, row_bytes, column == 0 ? 0 : kTile, 0}; }
};

// Straight from the rows of the cache.
template <kv::RowFormat format>
struct CellTile {
    const Rows* rows;
    ptrdiff_t at;
    int column;
    int row_bytes;
    // What is fetched next of the tile to come: each pass over some columns takes its share, in the order of addresses.
    int next_row = 0;
    int next_byte = 0;

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
        constexpr int kBytes = C * kLanes * (format == kv::RowFormat::F32 ? 4 : format == kv::RowFormat::Q8_0 ? 1 : 2);
        if (next_row >= kTile) return;
        for (int i = 0; i < kBytes; i += 64) fetch(rows->next[next_row] + next_byte + i);
        next_byte += kBytes;
        if (next_byte < row_bytes) return;
        next_byte = 0;
        ++next_row;
    }
    [[nodiscard]] CellTile from(int more) const {
        const auto first = static_cast<int>(element_at(format, column + more));
        return {rows, first, column + more, row_bytes, kTile * first / row_bytes, 0};
    }
};

#endif

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
