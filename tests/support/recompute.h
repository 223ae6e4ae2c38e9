#pragma once
// Runs programs on an engine, and everything that is pure once more from nothing: one sequence, no reuse, another chunk size. The next logits
// must have the same bits.
#include <string>

#include "kv/cache_program.h"
#include "kv/spec.h"

namespace cellar::tiny {

struct RecomputeCounts {
    int64_t operations = 0, compared = 0, tokens = 0, full = 0, cancelled = 0, hits = 0, reused = 0, bakes = 0, loaded = 0;
};

// A golden recipe in a cache format. Engines are made once for each and used again; afterwards all their cells must be free. Empty when all went
// well.
std::string recompute(const std::string& recipe, kv::RowFormat format, const kv::Program& program, RecomputeCounts* counts = nullptr);

}  // namespace cellar::tiny
