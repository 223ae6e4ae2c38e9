#include <algorithm>

#include "kv/growth.h"
#include "kv/limits.h"
#include "kv/plan.h"

namespace cellar::kv {
namespace {

struct Need {
    int64_t blocks = 0;  // in the end
    int64_t extra = 0;   // of one sequence on top, before its windows slid
};

Need needed(const StoreShape& shape, const Keep& keep, std::span<const int64_t> lengths, int32_t step) {
    Need need;
    Growth one;
    for (size_t i = 0; i < lengths.size(); ++i) {
        if (i == 0 || lengths[i] != lengths[i - 1]) one = growth(keep, shape.block_cells, lengths[i], step);
        need.blocks += one.blocks;
        need.extra = std::max(need.extra, one.most - one.blocks);
    }
    return need;
}

}  // namespace

Result<Estimate> estimate(const CacheSpec& spec, const CacheLimits& limits, std::span<const int64_t> lengths, int step_tokens) {
    CELLAR_TRY(const Plan plan, kv::plan(spec, limits));
    const int32_t step = step_tokens == 0 ? plan.limits.max_step_tokens : step_tokens;
    Estimate estimate;
    for (const int64_t length : lengths) {
        if (length < 0 || length > INT32_MAX / 2) return fail("cache: a sequence of {} tokens", length);
        estimate.fits = estimate.fits && length <= plan.limits.context;
    }
    if (step < 1) return fail("cache: steps of {} tokens", step);
    estimate.fits = estimate.fits && lengths.size() <= static_cast<size_t>(plan.limits.max_seqs);
    estimate.table_bytes = plan.table_bytes();
    estimate.ledger_bytes = estimate.table_bytes;
    estimate.peak_bytes = estimate.table_bytes;
    bool countable = true;
    const auto add_bytes = [&](size_t& sum, int64_t blocks, const StoreShape& shape) {
        size_t bytes = 0;
        countable = countable && !__builtin_mul_overflow(static_cast<size_t>(blocks), shape.block_bytes(), &bytes) &&
                    !__builtin_add_overflow(sum, bytes, &sum);
    };
    const auto add = [&](const StoreShape& shape, const Need& need) {
        estimate.fits = estimate.fits && need.blocks + need.extra <= shape.blocks;
        add_bytes(estimate.ledger_bytes, need.blocks, shape);
        add_bytes(estimate.peak_bytes, need.blocks + need.extra, shape);
    };
    for (size_t g = 0; g < spec.groups.size(); ++g) {
        const Need need = needed(plan.groups[g], spec.groups[g].keep, lengths, step);
        add(plan.groups[g], need);
        estimate.blocks.push_back(need.blocks);
    }
    const Need need = needed(plan.log, Keep::all(), lengths, step);
    add(plan.log, need);
    estimate.log_blocks = need.blocks;
    if (!countable)
        return fail("cache: {} sequences of up to {} tokens take more memory than there are addresses", lengths.size(), std::ranges::max(lengths));
    estimate.fits = estimate.fits && (limits.budget_bytes == 0 || estimate.peak_bytes <= limits.budget_bytes);
    return estimate;
}

}  // namespace cellar::kv
