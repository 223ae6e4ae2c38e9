#include "ops/cpu/packed.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/packed.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/target_inl.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/thread_team.h"
#include "ops/cpu/plain_layout.h"
#include "ops/cpu/plain_packed.h"
#include "ops/cpu/source_inl.h"
#include "tensor/row_codec.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

int lanes() {
    return kLanes;
}

// Packs one block of kLanes rows.
void pack_block(const PackedLayout& layout, Rows rows, uint8_t* columns, uint8_t* rest) {
    const DU du;
    int column = 0;
    for (; column + 4 <= layout.columns; column += 4) {
        VU c[4];
        load_columns(rows, layout.first_column + column * 4, c);
        for (int j = 0; j < 4; ++j) hn::Store(c[j], du, reinterpret_cast<uint32_t*>(columns + (column + j) * kLanes * 4));
    }
    for (; column < layout.columns; ++column) {
        hn::Store(load_column(rows, layout.first_column + column * 4), du, reinterpret_cast<uint32_t*>(columns + column * kLanes * 4));
    }
    for (int lane = 0; lane < kLanes; ++lane) {
        for (int i = 0; i < layout.rest; ++i) rest[lane * layout.rest + i] = rows.first[lane * rows.stride + layout.rest_at + i];
    }
}

// Packs the group of rows that starts at `row`; `out` is where the group goes.
void pack_group(const WeightMatrix& w, int64_t row, uint8_t* out) {
    constexpr int kLargestBlock = 256;
    const PanelFormat format = panel_format(w.type);
    const PackedLayout layout = packed_layout(w.type);
    const auto stride = static_cast<int64_t>(row_bytes(w.type, w.cols));
    const int count = static_cast<int>(std::min<int64_t>(kLanes, w.rows - row));
    const uint8_t* first = reinterpret_cast<const uint8_t*>(w.data) + row * stride;
    const int block = format.per_256 ? 256 : 32;
    uint8_t padded[kLanes][kLargestBlock] = {};
    for (int64_t column = 0; column < w.cols; column += kChunk) {
        const auto blocks = static_cast<int>(std::min<int64_t>(kChunk, w.cols - column) / block);
        uint8_t* rest = out + blocks * layout.columns * kLanes * 4;
        for (int i = 0; i < blocks; ++i) {
            const uint8_t* at = first + (column / block + i) * format.block_bytes;
            Rows rows{at, stride};
            if (count < kLanes) {
                for (int lane = 0; lane < count; ++lane) std::memcpy(padded[lane], at + lane * stride, static_cast<size_t>(format.block_bytes));
                rows = {padded[0], kLargestBlock};
            }
            pack_block(layout, rows, out + i * layout.columns * kLanes * 4, rest + i * layout.rest * kLanes);
        }
        const size_t used = static_cast<size_t>(blocks * format.block_bytes) * kLanes;
        const size_t chunk = packed_chunk_bytes(w.type, kLanes, blocks);
        std::memset(out + used, 0, chunk - used);
        out += chunk;
    }
}

// Puts one row's blocks back together.
void unpack_row(const WeightMatrix& w, int64_t row, float* y) {
    constexpr int kLargestBlock = 256;
    const PanelFormat format = panel_format(w.type);
    const PackedLayout layout = packed_layout(w.type);
    const int block = format.per_256 ? 256 : 32;
    const uint8_t* at = reinterpret_cast<const uint8_t*>(w.data) + static_cast<size_t>(row / kLanes) * packed_group_bytes(w.type, kLanes, w.cols);
    const int64_t lane = row % kLanes;
    for (int64_t column = 0; column < w.cols; column += kChunk) {
        const auto blocks = static_cast<int>(std::min<int64_t>(kChunk, w.cols - column) / block);
        const uint8_t* rest = at + blocks * layout.columns * kLanes * 4;
        for (int i = 0; i < blocks; ++i) {
            std::byte bytes[kLargestBlock];
            for (int c = 0; c < layout.columns; ++c) {
                std::memcpy(bytes + layout.first_column + c * 4, at + ((i * layout.columns + c) * kLanes + lane) * 4, 4);
            }
            std::memcpy(bytes + layout.rest_at, rest + (i * kLanes + lane) * layout.rest, static_cast<size_t>(layout.rest));
            decode_row(w.type, bytes, block, y + column + i * block);
        }
        at += packed_chunk_bytes(w.type, kLanes, blocks);
    }
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops::cpu_impl {

HWY_EXPORT(lanes);
HWY_EXPORT(pack_group);
HWY_EXPORT(unpack_row);

int packed_lanes() {
    return kBundle * HWY_DYNAMIC_DISPATCH(lanes)();
}

size_t packed_bytes(DType type, int64_t rows, int64_t cols) {
    CHECK_EQ(cols % info(type).block, 0);
    if (is_plain(type)) return plain_packed_bytes(type, rows, cols);
    const int64_t lanes = HWY_DYNAMIC_DISPATCH(lanes)();
    return static_cast<size_t>((rows + lanes - 1) / lanes) * packed_group_bytes(type, static_cast<int>(lanes), cols);
}

size_t packed_row_at(DType type, int64_t row, int64_t cols) {
    const int lanes = HWY_DYNAMIC_DISPATCH(lanes)();
    if (is_plain(type)) return PlainLayout(type, lanes, cols).bundle_at(row);
    return static_cast<size_t>(row / lanes) * packed_group_bytes(type, lanes, cols);
}

void pack_rows(const WeightMatrix& w, int64_t first, int64_t last, std::byte* packed, ThreadTeam& team) {
    const int64_t bundle = packed_lanes();
    CHECK_EQ(first % bundle, 0);
    CHECK(last % bundle == 0 || last == w.rows);
    const bool plain = is_plain(w.type);
    const int64_t step = plain ? bundle : HWY_DYNAMIC_DISPATCH(lanes)();
    const auto pack = HWY_DYNAMIC_DISPATCH(pack_group);
    const size_t bytes = plain ? 0 : packed_group_bytes(w.type, static_cast<int>(step), w.cols);
    // Memory that nobody touched yet comes in huge pages: a member that has one to itself waits for no other to clear it.
    constexpr int64_t kPiece = int64_t{2} << 20;
    const auto row = static_cast<int64_t>(row_bytes(w.type, w.cols));
    const int64_t share = (last - first + team.size() - 1) / team.size();
    const int64_t each = std::max<int64_t>(1, std::min(kPiece / std::max<int64_t>(1, row), share) / step) * step;
    team.run((last - first + each - 1) / each, [&](int64_t i, int) {
        for (int64_t at = first + i * each; at < std::min(last, first + (i + 1) * each); at += step) {
            if (plain) {
                plain_pack_bundle(w, at, packed);
            } else {
                pack(w, at, reinterpret_cast<uint8_t*>(packed) + static_cast<size_t>(at / step) * bytes);
            }
        }
    });
}

void packed_embed(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team) {
    CHECK_EQ(y.cols, table.cols);
    if (is_plain(table.type)) return plain_packed_embed(table, ids, count, y, team);
    const auto unpack = HWY_DYNAMIC_DISPATCH(unpack_row);
    team.run(count, [&](int64_t i, int) { unpack(table, ids[i], y.row(i)); });
}

}  // namespace cellar::ops::cpu_impl
#endif
