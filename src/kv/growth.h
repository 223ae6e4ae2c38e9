#pragma once
// How many blocks a sequence takes while it grows, counted without growing one. The cost does not depend on the length.
#include <cstdint>
#include <vector>

#include "kv/spec.h"

namespace cellar::kv {

struct Growth {
    int64_t blocks = 0;  // held in the end
    int64_t most = 0;    // held at any time: a step has its cells before windows slide
    friend bool operator==(const Growth&, const Growth&) = default;
};

// Of one run list that grows alone, by `step` positions at a time, and slides behind each step. Requires: keep is no state; step > 0,
// block_cells > 0.
Growth growth(const Keep& keep, int32_t block_cells, int64_t length, int64_t step);

// First positions of steps, ascending, among which is one that holds the most blocks: one for full attention, about two for each cell of a
// block for a window, and no more than a step or a chunk has positions for a chunk.
std::vector<int64_t> widest_steps(const Keep& keep, int32_t block_cells, int64_t length, int64_t step);

}  // namespace cellar::kv
