#include <algorithm>

#include "base/check.h"

#include "kv/limits.h"
#include "kv/plan.h"

namespace cellar::kv {
namespace {

// Grows one list in steps as a cache would and returns the most blocks it held.
int32_t grow(Store& store, RunList& list, const Keep& keep, int64_t length, int32_t step) {
    int32_t cut = 0;
    int32_t most = 0;
    for (int64_t at = 0; at < length; at += step) {
        const auto n = static_cast<int32_t>(std::min<int64_t>(step, length - at));
        CHECK(list.append(store, static_cast<int32_t>(at), n, nullptr));
        most = std::max(most, store.pool().used());
        slide(store, list, keep, static_cast<int32_t>(at) + n, cut);
    }
    return most;
}

struct Growth {
    int64_t blocks = 0;  // in the end
    int64_t extra = 0;   // of one sequence on top, before its windows slid
};

Result<Growth> grow_alone(StoreShape shape, const Keep& keep, std::span<const int64_t> lengths, int32_t step) {
    Growth growth;
    shape.dry = true;
    for (const int64_t length : lengths) {
        shape.blocks = static_cast<int32_t>(length / shape.block_cells + 2);
        Budget unlimited;
        CELLAR_TRY(auto store, Store::make(shape, unlimited));
        RunList list;
        const int32_t most = grow(*store, list, keep, length, step);
        growth.blocks += store->pool().used();
        growth.extra = std::max<int64_t>(growth.extra, most - store->pool().used());
        list.clear(*store);
    }
    return growth;
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
    const auto add = [&](const StoreShape& shape, const Growth& growth) {
        estimate.fits = estimate.fits && growth.blocks + growth.extra <= shape.blocks;
        estimate.ledger_bytes += static_cast<size_t>(growth.blocks) * shape.block_bytes();
        estimate.peak_bytes += static_cast<size_t>(growth.blocks + growth.extra) * shape.block_bytes();
    };
    for (size_t g = 0; g < spec.groups.size(); ++g) {
        CELLAR_TRY(const Growth growth, grow_alone(plan.groups[g], spec.groups[g].keep, lengths, step));
        add(plan.groups[g], growth);
        estimate.blocks.push_back(growth.blocks);
    }
    CELLAR_TRY(const Growth growth, grow_alone(plan.log, Keep::all(), lengths, step));
    add(plan.log, growth);
    estimate.log_blocks = growth.blocks;
    estimate.fits = estimate.fits && (limits.budget_bytes == 0 || estimate.peak_bytes <= limits.budget_bytes);
    return estimate;
}

}  // namespace cellar::kv
