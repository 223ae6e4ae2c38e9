#pragma once
// How much memory a cache may use, and what follows from it: the context of one sequence and the cells of all of them.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/limits.h"
#include "kv/spec.h"

namespace cellar {

struct BudgetRequest {
    kv::CacheLimits limits;  // block, max_seqs, max_step_tokens, poison; context and cells as asked for, 0: automatic
    int64_t trained = 0;     // context that the model was trained for
    size_t budget = 0;       // of cache and transients; 0: automatic
    size_t transients = 0;
    uint64_t weights = 0;            // that are not in memory yet
    std::optional<uint64_t> memory;  // that this process may use; nothing where the system does not say
};

struct BudgetPlan {
    kv::CacheLimits limits;          // context, cells and budget_bytes filled in; budget_bytes 0: nobody knows how much memory there is
    size_t budget = 0;               // budget_bytes and the transients
    std::string summary;             // one line: the budget, and what there is room for
    std::vector<std::string> notes;  // what is worth a line besides: a context cut to the budget, or longer than it holds
};

// The automatic budget is 90 % of the memory less weights and transients, and never so small that a cache of 8 blocks does not fit. The automatic
// context is the trained one, as far as one sequence fits the budget. The automatic number of cells is what the budget has room
// for, but at most twice what all sequences can fill: the rest would never be used, and its tables cost.
// Full: a budget too small for tables, transients and 8 blocks, with all these numbers.
Result<BudgetPlan> plan_budget(const kv::CacheSpec& spec, const BudgetRequest& request);

// "auto" (0), bytes with units, or a share of the memory that this process may use. `what` names the flag, variable or option.
Result<size_t> parse_budget(const std::string& text, const std::string& what);

}  // namespace cellar
