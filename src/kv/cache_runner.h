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
};

// Mixes of groups that programs run on, and limits under which a pool is often full. `blocks` are those of one group; with a budget there is
// none for about a third of them.
const std::vector<std::vector<Keep>>& scenario_mixes();
Scenario scenario(size_t mix, int block, int32_t cells, bool budget);

struct RunCounts {
    int64_t operations = 0, tokens = 0, forks = 0, full = 0, abandoned = 0, refused_shifts = 0, shifts = 0, removes = 0, compacts = 0, bakes = 0,
            kept = 0, hits = 0, reused = 0, evicted = 0, saved = 0, loaded = 0;
};

// Empty when all went well.
std::string run(const Scenario& scenario, const Program& program, RunCounts* counts = nullptr);

// Many operations on one cache. Every 10,000 of them all is closed, when nothing may be left, and compacted, when memory is measured.
struct Soak {
    std::string wrong;             // empty when all went well
    std::vector<size_t> resident;  // bytes of the process, after each 10,000 operations
    std::vector<size_t> heap;      // of these, what is allocated and not freed
};
Soak soak(const Scenario& scenario, int64_t operations, uint64_t seed);

}  // namespace cellar::kv
