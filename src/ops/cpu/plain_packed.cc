// Packing plain weights and reading rows of them.
#include "ops/cpu/plain_packed.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/plain_packed.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/target_inl.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/thread_team.h"
#include "ops/cpu/packed.h"
#include "ops/cpu/plain_layout.h"
#include "ops/cpu/plain_pack_inl.h"
#include "tensor/row_codec.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

// Packs the bundle that starts at `row`.
void pack_bundle(const WeightMatrix& w, int64_t row, uint8_t* packed) {
    const PlainLayout layout(w.type, kLanes, w.cols);
    const int groups = layout.groups(row, w.rows);
    const auto step_bytes = static_cast<size_t>(groups) * kLanes * static_cast<size_t>(layout.lane_bytes);
    uint8_t* out = packed + layout.bundle_at(row);
    constexpr int64_t kColumns = 128;
    for (int64_t column = 0; column < w.cols; column += kColumns) {
        pack_columns(w, row, column, std::min(column + kColumns, w.cols), out + static_cast<size_t>(column / layout.step) * step_bytes);
    }
    const size_t used = static_cast<size_t>(layout.steps) * step_bytes;
    std::memset(out + used, 0, layout.bundle_bytes(groups) - used);
}

// Puts one row back together.
void unpack_row(const WeightMatrix& w, int64_t row, float* y) {
    constexpr int kValues = 256;
    const PlainLayout layout(w.type, kLanes, w.cols);
    const int64_t first = row / layout.bundle_rows() * layout.bundle_rows();
    const auto lane_bytes = static_cast<size_t>(layout.lane_bytes);
    const size_t step_bytes = static_cast<size_t>(layout.groups(first, w.rows) * kLanes) * lane_bytes;
    const std::byte* at = w.data + layout.bundle_at(row) + static_cast<size_t>(row - first) * lane_bytes;
    for (int64_t column = 0; column < w.cols; column += kValues) {
        const int64_t count = std::min<int64_t>(kValues, w.cols - column);
        std::byte values[kValues * sizeof(float)];
        for (int64_t i = 0; i < (count + layout.step - 1) / layout.step; ++i, at += step_bytes) {
            std::memcpy(values + static_cast<size_t>(i) * lane_bytes, at, lane_bytes);
        }
        decode_row(w.type, values, count, y + column);
    }
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops::cpu_impl {

HWY_EXPORT(pack_bundle);
HWY_EXPORT(unpack_row);

namespace {

int lanes() {
    return packed_lanes() / kBundle;
}

}  // namespace

size_t plain_packed_bytes(DType type, int64_t rows, int64_t cols) {
    return PlainLayout(type, lanes(), cols).matrix_bytes(rows);
}

void plain_pack_bundle(const WeightMatrix& w, int64_t row, std::byte* packed) {
    HWY_DYNAMIC_DISPATCH(pack_bundle)(w, row, reinterpret_cast<uint8_t*>(packed));
}

void plain_packed_embed(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team) {
    const auto unpack = HWY_DYNAMIC_DISPATCH(unpack_row);
    team.run(count, [&](int64_t i, int) { unpack(table, ids[i], y.row(i)); });
}

}  // namespace cellar::ops::cpu_impl
#endif
