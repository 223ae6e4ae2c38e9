#include "kv/plan.h"

#include <algorithm>

namespace cellar::kv {
namespace {

// Address space of one group: far below what a process has, far above what a machine has.
constexpr size_t most_bytes = size_t{1} << 46;

Result<void> check_group(const GroupSpec& group, size_t index) {
    const Keep& keep = group.keep;
    if (keep.kind == Keep::Kind::State) return fail(ErrorKind::Unsupported, "cache: group {} keeps recurrent state, which is not supported", index);
    if (keep.kind != Keep::Kind::All && keep.size < 1) return fail("cache: group {} has a window or chunk of {} positions", index, keep.size);
    if (keep.sinks < 0 || (keep.sinks > 0 && keep.kind != Keep::Kind::Window)) return fail("cache: group {} asks for {} sinks", index, keep.sinks);
    if (group.planes < 1 || group.planes > 100'000) return fail("cache: group {} has {} planes", index, group.planes);
    if (group.rows.empty()) return fail("cache: group {} has no rows", index);
    for (const RowSpec& row : group.rows) {
        if (row.heads < 1 || row.heads > 1'000'000 || row.width < 1 || row.width > 1'000'000) {
            return fail("cache: row '{}' of group {} has {} heads of width {}", row.name, index, row.heads, row.width);
        }
    }
    return {};
}

Result<void> check_layers(const CacheSpec& spec) {
    for (size_t i = 0; i < spec.layers.size(); ++i) {
        const LayerPlace place = spec.layers[i];
        if (place.group < 0) continue;
        if (static_cast<size_t>(place.group) >= spec.groups.size() || place.plane < 0 ||
            place.plane >= spec.groups[static_cast<size_t>(place.group)].planes) {
            return fail("cache: layer {} names plane {} of group {}, which does not exist", i, place.plane, place.group);
        }
    }
    return {};
}

Result<void> check_limits(const CacheLimits& limits) {
    if (limits.context < 1 || limits.context > most_context)
        return fail("cache: a context of {} positions; it must be 1 to {}", limits.context, most_context);
    if (limits.cells < 0 || limits.cells > INT32_MAX / 2) return fail("cache: {} cells; it must be 0 to {}", limits.cells, INT32_MAX / 2);
    if (limits.block != 16 && limits.block != 32 && limits.block != 64) return fail("cache: blocks of {} cells; choose 16, 32 or 64", limits.block);
    if (limits.max_seqs < 1 || limits.max_seqs > 65'535) return fail("cache: {} sequences; it must be 1 to 65535", limits.max_seqs);
    if (limits.max_step_tokens < 1) return fail("cache: steps of {} tokens", limits.max_step_tokens);
    return {};
}

}  // namespace

size_t Plan::table_bytes() const {
    size_t bytes = Pool::table_bytes(log.blocks);
    for (const StoreShape& group : groups) bytes += Pool::table_bytes(group.blocks);
    return bytes;
}

Result<Plan> plan(const CacheSpec& spec, const CacheLimits& limits) {
    if (spec.groups.empty()) return fail("cache: the model keeps nothing");
    for (size_t i = 0; i < spec.groups.size(); ++i) CELLAR_TRY_VOID(check_group(spec.groups[i], i));
    CELLAR_TRY_VOID(check_layers(spec));
    CELLAR_TRY_VOID(check_limits(limits));
    Plan plan;
    plan.limits = limits;
    const int64_t cells = limits.cells == 0 ? limits.context : limits.cells;
    const auto blocks = static_cast<int32_t>((cells + limits.block - 1) / limits.block);
    plan.limits.cells = int64_t{blocks} * limits.block;
    for (size_t i = 0; i < spec.groups.size(); ++i) {
        const GroupSpec& group = spec.groups[i];
        const double bytes = static_cast<double>(group.cell_bytes()) * static_cast<double>(plan.limits.cells);
        if (bytes > static_cast<double>(most_bytes)) {
            return fail(ErrorKind::Full, "cache: {} cells of {} bytes in group {} exceed the address space; choose a smaller context",
                        plan.limits.cells, group.cell_bytes(), i);
        }
        plan.groups.push_back({group.planes, group.rows, blocks, limits.block, limits.poison});
    }
    // Every sequence may grow to the context, in a log that takes twice its room before it is tidied; kept prefixes log what they hold.
    const int64_t logged = std::max(limits.max_seqs * limits.context, plan.limits.cells);
    const int64_t log_blocks = 2 * (logged / log_block_tokens) + 10 * int64_t{limits.max_seqs};
    plan.log.planes = 1;
    plan.log.rows = {{"token", 1, sizeof(Token) / sizeof(float), RowFormat::F32}};
    plan.log.blocks = static_cast<int32_t>(std::min<int64_t>(log_blocks, INT32_MAX / log_block_tokens));
    plan.log.block_cells = log_block_tokens;
    if (limits.budget_bytes != 0 && plan.table_bytes() >= limits.budget_bytes) {
        return fail(ErrorKind::Full, "cache: a budget of {} bytes, of which tables alone take {}", limits.budget_bytes, plan.table_bytes());
    }
    return plan;
}

}  // namespace cellar::kv
