#pragma once
// Attention over runs, vectorised. The contracts are those of ops.h.
//
// Every query head goes the same way over its positions, alone or among others: a tile's scores are chains of additions over the width,
// a tile's part of the output a chain over its visible positions, ascending. Scores are kept in units of log2, so weights are powers of two.
// With packed keys the query is quantised to int8 per 32 values; the products of a block are summed as integers.
#include "ops/types.h"

namespace cellar {
class ThreadTeam;
}

namespace cellar::ops::cpu_impl {

// `width` is the wider of a K and a V head.
size_t attend_scratch_bytes(int tokens, int heads, int width, int64_t context, int threads);
void attend(const AttendArgs& args, ThreadTeam& team);

}  // namespace cellar::ops::cpu_impl
