#pragma once
// Runs programs on an engine, and everything that is pure once more from nothing: one sequence, no reuse, another chunk size. The next logits
// must have the same bits.
#include <string>

#include "kv/cache_program.h"
#include "kv/spec.h"

namespace cellar::tiny {

struct RecomputeCounts {
    int64_t operations = 0, compared = 0, tokens = 0, full = 0, cancelled = 0, hits = 0, reused = 0, bakes = 0, cancelled_bakes = 0, compacted = 0,
            shifts = 0, evicted = 0, loaded = 0;
};

// What a program runs on: a golden recipe with its cache.
struct Recomputed {
    std::string recipe;
    kv::RowFormat format = kv::RowFormat::F16;
    int block = 32;
    bool budget = false;  // there is none for most blocks, so that kept prefixes come and go
    friend auto operator<=>(const Recomputed&, const Recomputed&) = default;
};

// Engines are made once for each and used again; afterwards all their cells must be free. Empty when all went well.
std::string recompute(const Recomputed& on, const kv::Program& program, RecomputeCounts* counts = nullptr);

}  // namespace cellar::tiny
