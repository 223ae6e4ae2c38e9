// Rows into cells, byte for byte what encode_head_row writes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/store.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/check.h"
#include "ops/cpu/encode_inl.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/split.h"

#if HWY_ONCE
namespace cellar::ops {
HWY_EXPORT(encode_row);
}  // namespace cellar::ops

namespace cellar::ops::cpu_impl {

void store_rows(Mat x, const kv::RowTable& table, int plane, const int32_t* cells, ThreadTeam& team) {
    CHECK_EQ(x.cols, static_cast<int64_t>(table.heads) * table.width);
    const auto encode = HWY_DYNAMIC_DISPATCH(encode_row);
    for_rows(x.rows, x.cols, team, [&](int64_t t) {
        for (int h = 0; h < table.heads; ++h) {
            encode(table.format, x.row(t) + static_cast<int64_t>(h) * table.width, table.width, table.at(plane, h, cells[t]), table.row_bytes);
        }
    });
}

}  // namespace cellar::ops::cpu_impl
#endif
