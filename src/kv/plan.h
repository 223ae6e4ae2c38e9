#pragma once
// From what is asked of a cache to the shapes of its stores: what `make` builds and `estimate` counts.
#include "base/result.h"
#include "kv/limits.h"
#include "kv/seq.h"
#include "kv/store.h"

namespace cellar::kv {

// Positions of a sequence at most.
inline constexpr int64_t most_context = INT32_MAX / 2;

constexpr int32_t log_block_tokens = 256;  // one page

struct Plan {
    CacheLimits limits;  // rounded, with the defaults filled in
    std::vector<StoreShape> groups;
    StoreShape log;

    [[nodiscard]] size_t table_bytes() const;
};

// Refuses specs and limits that make no sense, with their values.
Result<Plan> plan(const CacheSpec& spec, const CacheLimits& limits);

}  // namespace cellar::kv
