#pragma once
// Weights packed for this machine: written once when a model is loaded, read in one stream by every product.
// The products have the same bits as those of matmul.h on the same CPU target.
//
// A WeightMatrix whose data was packed keeps its type, rows and cols; `data` is then what pack_rows wrote, 64-byte aligned.
// Packed data belongs to the CPU target it was packed for and is no file format.
#include "ops/types.h"

namespace cellar {
class ThreadTeam;
}

namespace cellar::ops::cpu_impl {

// Rows that are packed together; packing is cut at multiples of it.
int packed_lanes();
// Requires: whole blocks.
size_t packed_bytes(DType type, int64_t rows, int64_t cols);

// Packs rows [first, last) of a matrix in file layout into `packed`, where the packed matrix starts, as pieces of work for the team.
// Nothing outside these rows is read, so a caller can give back the file's pages as it goes.
// Requires: first is a multiple of packed_lanes(); so is last, or it is w.rows.
void pack_rows(const WeightMatrix& w, int64_t first, int64_t last, std::byte* packed, ThreadTeam& team);

// Where the weights from `row` on lie in a packed matrix. Requires: row is a multiple of packed_lanes().
size_t packed_row_at(DType type, int64_t row, int64_t cols);

// As embed of ops.h, with packed weights.
void packed_embed(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team);

}  // namespace cellar::ops::cpu_impl
