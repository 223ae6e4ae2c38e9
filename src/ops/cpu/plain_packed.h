#pragma once
// F32, F16 and BF16 weights packed for this machine: the half of packed.h for plain types.
#include "ops/types.h"

namespace cellar {
class ThreadTeam;
}

namespace cellar::ops::cpu_impl {

size_t plain_packed_bytes(DType type, int64_t rows, int64_t cols);
// Packs the packed_lanes() rows from `row` on, or as many as there are.
void plain_pack_bundle(const WeightMatrix& w, int64_t row, std::byte* packed);
void plain_packed_embed(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team);

}  // namespace cellar::ops::cpu_impl
