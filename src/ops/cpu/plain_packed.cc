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
#include "ops/cpu/source_inl.h"
#include "tensor/row_codec.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

constexpr int kPart = 16;                 // bytes of each row that are turned at a time
constexpr int64_t kStretch = 16 * kPart;  // bytes of each row that all groups take before the next

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
void pack_stretch(const WeightMatrix& w, const uint8_t* rows, int64_t stride, int count, int64_t from, int64_t to, uint8_t* out, size_t step_bytes) {
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
            if (w.type == DType::F16 && bytes - j * 4 == 2) {
                const hn::Rebind<uint16_t, DU> dh;
                hn::StoreU(hn::TruncateTo(dh, column[j]), dh, reinterpret_cast<uint16_t*>(out));
                return;
            }
            out += static_cast<size_t>(put_column(w.type, column[j], out, step_bytes)) * step_bytes;
        }
    }
}

// Packs the bundle that starts at `row`.
void pack_bundle(const WeightMatrix& w, int64_t row, uint8_t* packed) {
    const PlainLayout layout(w.type, kLanes, w.cols);
    const auto stride = static_cast<int64_t>(row_bytes(w.type, w.cols));
    const int groups = layout.groups(row, w.rows);
    const auto group_bytes = static_cast<size_t>(kLanes * layout.lane_bytes);
    const size_t step_bytes = group_bytes * static_cast<size_t>(groups);
    uint8_t* out = packed + layout.bundle_at(row);
    const auto* first = reinterpret_cast<const uint8_t*>(w.data) + row * stride;
    for (int64_t from = 0; from < stride; from += kStretch) {
        const int64_t step = from / (layout.lane_bytes);
        for (int g = 0; g < groups; ++g) {
            const auto count = static_cast<int>(std::min<int64_t>(kLanes, w.rows - row - g * kLanes));
            pack_stretch(w, first + g * kLanes * stride, stride, count, from, std::min(from + kStretch, stride),
                         out + static_cast<size_t>(step) * step_bytes + static_cast<size_t>(g) * group_bytes, step_bytes);
        }
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

void plain_pack_rows(const WeightMatrix& w, int64_t first, int64_t last, std::byte* packed, ThreadTeam& team) {
    const int64_t each = packed_lanes();
    const auto pack = HWY_DYNAMIC_DISPATCH(pack_bundle);
    team.run((last - first + each - 1) / each, [&](int64_t i, int) { pack(w, first + i * each, reinterpret_cast<uint8_t*>(packed)); });
}

void plain_packed_embed(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team) {
    const auto unpack = HWY_DYNAMIC_DISPATCH(unpack_row);
    team.run(count, [&](int64_t i, int) { unpack(table, ids[i], y.row(i)); });
}

}  // namespace cellar::ops::cpu_impl
#endif
