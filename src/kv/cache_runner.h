#pragma once
// Runs programs on a cache, its index and a plain model at once; both are compared byte for byte, and every invariant checked, after each
// operation.
#include <cstdint>
#include <string>
#include <vector>

#include "kv/cache_model.h"
#include "kv/cache_program.h"

namespace cellar::kv {

struct Scenario {
    std::vector<Keep> keeps;
    CacheLimits limits;
    bool reclaim = false;  // a step that finds no room lets kept prefixes go
};

// Mixes of groups that programs run on, and limits under which a pool is often full. With a budget there is none for about a third of the
// blocks of one group, and kept prefixes make room.
const std::vector<std::vector<Keep>>& scenario_mixes();
Scenario scenario(size_t mix, int block, int32_t cells, bool budget);

struct RunCounts {
    int64_t operations = 0, tokens = 0, forks = 0, full = 0, abandoned = 0, refused_shifts = 0, shifts = 0, removes = 0, compacts = 0, bakes = 0,
            kept = 0, hits = 0, reused = 0, evicted = 0, saved = 0, loaded = 0;
};

// Empty when all went well.
std::string run(const Scenario& scenario, const Program& program, RunCounts* counts = nullptr);

}  // namespace cellar::kv
