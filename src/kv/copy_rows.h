#pragma once
// Rows from one arena to another, whatever format each has: for loading into other formats and for moving between caches.
#include <cstdint>

#include "kv/view.h"

namespace cellar::kv {

// Copies row `from` of `len` cells from `from_cell` on, in one plane, to another table. In the same format bytes are copied; else
// values are decoded and encoded anew, one head of one cell at a time, which is slow and exact to the target's rounding.
// Requires: equal heads and width; ranges within the tables; the tables do not overlap.
void copy_rows(const RowTable& from, int from_plane, int32_t from_cell, const RowTable& to, int to_plane, int32_t to_cell, int32_t len);

}  // namespace cellar::kv
