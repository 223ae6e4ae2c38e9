#pragma once
// What a cache may use, what it uses, and what it would use.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/spec.h"

namespace cellar::kv {

struct CacheLimits {
    int64_t context = 0;      // most positions of one sequence
    int64_t cells = 0;        // of each group, rounded up to blocks; 0: as many as one sequence of `context` needs
    size_t budget_bytes = 0;  // most that ledger_bytes() may reach; 0: no limit but the cells
    int block = 32;           // cells of a block: 16, 32 or 64
    int max_seqs = 16;
    int max_step_tokens = 512;
    bool poison = false;  // for tests: cells that nobody can see hold NaN
};

struct GroupStats {
    int64_t blocks = 0;         // that the pool has
    int64_t blocks_used = 0;    // handed out, each counted once however many holders it has
    int64_t blocks_shared = 0;  // of these: with several holders
    int64_t cells_filled = 0;   // handed out within used blocks
    size_t block_bytes = 0;     // of one block in all rows, heads and planes
};

struct CacheStats {
    std::vector<GroupStats> groups;
    GroupStats log;           // tokens instead of cells
    size_t table_bytes = 0;   // fixed by the limits
    size_t ledger_bytes = 0;  // table_bytes and used blocks times block_bytes, log included
};

// Bytes that sequences of these lengths take, grown one after another in steps of step_tokens (0: max_step_tokens), nothing shared:
// the ledger, to the byte, at a cost that does not depend on the lengths. `peak` includes the cells that the last steps need before windows slide.
struct Estimate {
    std::vector<int64_t> blocks;  // used, per group
    int64_t log_blocks = 0;
    size_t table_bytes = 0;
    size_t ledger_bytes = 0;
    size_t peak_bytes = 0;
    bool fits = true;  // false: cells, budget, context or max_seqs do not suffice; the numbers then say what would be needed
};
Result<Estimate> estimate(const CacheSpec& spec, const CacheLimits& limits, std::span<const int64_t> lengths, int step_tokens = 0);

}  // namespace cellar::kv
