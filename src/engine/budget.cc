#include "engine/budget.h"

#include <algorithm>

#include "base/memory.h"
#include "base/units.h"
#include "kv/plan.h"

namespace cellar {
namespace {

constexpr int64_t kSmallestContext = 256;  // below this an automatic context is no help to anybody
constexpr int64_t kLeastBlocks = 8;
constexpr uint64_t kPercentOfMemory = 90;
constexpr int64_t kMostCells = INT32_MAX / 2;

// Tables, and a few blocks in each group.
Result<size_t> least_cache(const kv::CacheSpec& spec, kv::CacheLimits limits) {
    limits.cells = kLeastBlocks * limits.block;
    limits.budget_bytes = 0;
    CELLAR_TRY(const kv::Plan plan, kv::plan(spec, limits));
    size_t bytes = plan.table_bytes() + 2 * plan.log.block_bytes();
    for (const kv::StoreShape& group : plan.groups) bytes += kLeastBlocks * group.block_bytes();
    return bytes;
}

int64_t cells_for(const kv::CacheSpec& spec, const kv::CacheLimits& limits) {
    size_t smallest = SIZE_MAX;
    for (const kv::GroupSpec& group : spec.groups) smallest = std::min(smallest, group.cell_bytes());
    int64_t cells = std::min<int64_t>(2 * limits.max_seqs * (limits.context + limits.block), kMostCells);
    if (limits.budget_bytes != 0) cells = std::min<int64_t>(cells, static_cast<int64_t>(limits.budget_bytes / smallest));
    return std::max(cells / limits.block, kLeastBlocks) * limits.block;
}

// With cells and the budget of the cache filled in.
Result<kv::CacheLimits> complete(const kv::CacheSpec& spec, const BudgetRequest& request, int64_t context, size_t budget) {
    kv::CacheLimits limits = request.limits;
    limits.context = context;
    limits.budget_bytes = 0;
    if (budget != 0) {
        CELLAR_TRY(const size_t least, least_cache(spec, limits));
        const size_t cache = budget - std::min(budget, request.transients);
        if (cache < least && request.budget != 0) {
            return fail(ErrorKind::Full, "a cache budget of {} is too small: {} for a step, {} for tables and {} blocks; give {} bytes at least",
                        format_bytes(budget), format_bytes(request.transients), format_bytes(least), kLeastBlocks, least + request.transients);
        }
        limits.budget_bytes = std::max(cache, least);
    }
    if (limits.cells == 0) limits.cells = cells_for(spec, limits);
    return limits;
}

size_t automatic(const BudgetRequest& request) {
    if (!request.memory) return 0;
    const uint64_t share = *request.memory / 100 * kPercentOfMemory;
    return std::max<size_t>(share - std::min(share, request.weights), 1);
}

Result<bool> holds_one(const kv::CacheSpec& spec, const kv::CacheLimits& limits) {
    CELLAR_TRY(const kv::Estimate one, kv::estimate(spec, limits, std::span<const int64_t>(&limits.context, 1)));
    return limits.budget_bytes == 0 || one.peak_bytes <= limits.budget_bytes;
}

}  // namespace

Result<BudgetPlan> plan_budget(const kv::CacheSpec& spec, const BudgetRequest& request) {
    BudgetPlan out;
    const size_t budget = request.budget != 0 ? request.budget : automatic(request);
    int64_t context = request.limits.context != 0 ? request.limits.context : request.trained;
    CELLAR_TRY(out.limits, complete(spec, request, context, budget));
    CELLAR_TRY(bool fits, holds_one(spec, out.limits));
    while (request.limits.context == 0 && !fits && context > kSmallestContext) {
        context = std::max(kSmallestContext, context * 7 / 8);
        CELLAR_TRY(out.limits, complete(spec, request, context, budget));
        CELLAR_TRY(fits, holds_one(spec, out.limits));
    }
    if (context < request.trained && request.limits.context == 0)
        out.notes.push_back(
            fmt::format("context {} of the {} tokens the model was trained for: more does not fit into the cache budget", context, request.trained));
    if (context > request.trained)
        out.notes.push_back(fmt::format("context {} is longer than the {} tokens the model was trained for: answers may get worse behind them",
                                        context, request.trained));
    out.summary = "cache budget unknown: the system does not say how much memory there is";
    if (out.limits.budget_bytes == 0) return out;
    out.budget = out.limits.budget_bytes + request.transients;
    const size_t cell = spec.bytes_per_token();
    const auto room = std::min<int64_t>(out.limits.cells, static_cast<int64_t>(out.limits.budget_bytes / std::max<size_t>(cell, 1)));
    out.summary = fmt::format("cache budget {}{}: room for about {} tokens", format_bytes(out.budget), request.budget == 0 ? " (automatic)" : "",
                              format_count(static_cast<uint64_t>(room)));
    if (!fits)
        out.notes.push_back(
            fmt::format("a sequence of the whole context of {} tokens does not fit into the cache budget of {}", context, format_bytes(out.budget)));
    return out;
}

Result<size_t> parse_budget(const std::string& text, const std::string& what) {
    if (text.empty() || text == "auto") return 0;
    CELLAR_TRY(const uint64_t bytes, parse_bytes(text, what, text.ends_with('%') ? usable_memory().value_or(0) : 0));
    if (bytes == 0) return fail("{} is '{}', which leaves nothing; give auto, bytes (2GiB) or a share of memory (50%)", what, text);
    return bytes;
}

}  // namespace cellar
