#pragma once
// Plain rows for a sequence that was shifted: what its runs are turned by is worked into the rows.
#include <cstddef>
#include <cstdint>

#include "engine/engine.h"

namespace cellar {

struct Baked {
    int64_t cells = 0;  // of all groups, that have new rows
    size_t bytes = 0;   // of these rows, in all layers
};

// Rewrites the turned rows of a sequence into cells of their own; forks keep theirs, turned as they are. Attention then turns no query for
// it; what that costs in precision is said in docs/kv.md. Full before the first row moves, if there is no room for all of them. Cancelled
// leaves the sequence as it was, wherever it was met. Progress counts layers.
Result<Baked> bake(Engine& engine, SeqId seq, const Cancel* cancel = nullptr, const Progress& progress = {});

}  // namespace cellar
