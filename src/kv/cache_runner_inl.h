#pragma once
// How cache_runner.h works. For one file of a program: a test or a fuzzer.
#include "kv/cache_runner_bakes_inl.h"
#include "kv/cache_runner_kept_inl.h"
#include "kv/cache_runner_pieces_inl.h"
#include "kv/cache_runner_steps_inl.h"

namespace cellar::kv {

const std::vector<std::vector<Keep>>& scenario_mixes() {
    static const std::vector<std::vector<Keep>> all = {
        {Keep::all()},
        {Keep::all(), Keep::window(64), Keep::window(16)},
        {Keep::chunk(48)},
        {Keep::chunk(32), Keep::all()},
        {Keep::window(20, 4), Keep::all()},
        {Keep::window(1)},
        {Keep::window(7, 3), Keep::chunk(5)},
    };
    return all;
}

Scenario scenario(size_t mix, int block, int32_t cells, bool budget) {
    Scenario out{scenario_mixes()[mix % scenario_mixes().size()], {}, budget};
    out.limits.context = 300;
    out.limits.cells = cells;
    out.limits.block = block;
    out.limits.max_seqs = 6;
    out.limits.max_step_tokens = 120;
    out.limits.poison = true;
    if (!budget) return out;
    const auto probe = Cache::make(model_spec(out.keeps), out.limits);
    CHECK(probe.has_value());
    const CacheStats stats = (*probe)->stats();
    out.limits.budget_bytes =
        stats.table_bytes + 12 * stats.log.block_bytes + static_cast<size_t>(cells * 2 / 3 / block + 1) * stats.groups[0].block_bytes;
    return out;
}

class Runner {
  public:
    // Looks at everything after each `every` operations.
    explicit Runner(const Scenario& scenario, size_t every = 1) : world_(scenario), every_(every) {
        if (scenario.reclaim) world_.reclaim = [this](size_t bytes) { return kept_.evict(bytes); };
        world_.cache->set_reclaim(world_.reclaim);
    }

    std::string run(const Program& program, RunCounts* counts) {
        for (size_t i = 0; i < program.size() && world_.wrong.empty(); ++i) {
            operate(program[i]);
            if (i % every_ == 0) world_.check(fmt::format("operation {}", i));
        }
        while (world_.wrong.empty() && !bakes_.empty()) bakes_.end({OpKind::BakeEnd, 0, 0, 0});
        while (world_.wrong.empty() && !steps_.empty()) steps_.commit({OpKind::Commit, 0, 1, 0}, true);
        while (world_.wrong.empty() && !world_.model.empty()) close(world_.model.begin()->first);
        if (world_.wrong.empty()) finish();
        if (counts != nullptr) *counts = world_.counts;
        return world_.wrong;
    }
    Cache& cache() { return *world_.cache; }

  private:
    void finish() {
        kept_.clear();
        pieces_.clear();
        world_.check("the end");
        const CacheStats stats = world_.cache->stats();
        for (const GroupStats& g : stats.groups)
            if (g.blocks_used != 0) world_.say(fmt::format("{} blocks are left", g.blocks_used));
        if (stats.log.blocks_used != 0) world_.say("the log is not empty");
        if (world_.cache->ledger_bytes() != stats.table_bytes) world_.say("the ledger is not empty");
    }

    void operate(const Op& op) {
        switch (op.kind) {
            case OpKind::Open:
                return open();
            case OpKind::Commit:
                return steps_.commit(op, false);
            case OpKind::Abandon:
                return steps_.abandon(op);
            case OpKind::BakeEnd:
                return bakes_.end(op);
            case OpKind::Compact:
                return compact(op);
            case OpKind::Release:
                return world_.cache->release_pages();
            case OpKind::Evict:
                return kept_.evict_now(op);
            case OpKind::Load:
                return pieces_.load(op);
            default:
                break;
        }
        const SeqId id = world_.pick(op.a);
        if (id == SeqId{}) return world_.model.empty() ? open() : void();
        on_sequence(op, id);
    }

    void on_sequence(const Op& op, SeqId id) {
        const int32_t length = world_.model[id].length();
        const auto within = [&](uint32_t n) { return static_cast<int32_t>(n % (static_cast<uint32_t>(length) + 1)); };
        const Interval range{within(op.b), std::min(length, within(op.b) + static_cast<int32_t>(op.c % 40))};
        switch (op.kind) {
            case OpKind::Close:
                return close(id);
            case OpKind::Fork:
                return fork(id, op.b % 2 == 0 ? length : within(op.b / 2) + 1);
            case OpKind::Append:
            case OpKind::Begin:
                if (steps_.begin(id, sizes(op.b), op.c) && op.kind == OpKind::Append) steps_.commit_last();
                return;
            case OpKind::Trim:
                return trim(id, op.b % 2 == 0 ? std::max(0, length - static_cast<int32_t>(op.b / 2 % 6)) : within(op.b / 2));
            case OpKind::Overwrite: {
                trim(id, within(op.b));
                const int32_t n = std::min(length - world_.model[id].length(), world_.cache->limits().max_step_tokens);
                if (n > 0 && steps_.begin(id, n, op.c & ~7U)) steps_.commit_last();
                return;
            }
            case OpKind::Remove:
                ++world_.counts.removes;
                if (world_.cache->remove(id, range) != range.length()) return world_.say("remove counts otherwise");
                if (range.length() > 0) model_remove(world_.model[id], range);
                return;
            case OpKind::Shift:
                return shift(id, range);
            case OpKind::BakeBegin:
                return bakes_.begin(id);
            case OpKind::Keep: {
                const int32_t n = op.b % 2 == 0 ? length : within(op.b / 2);
                kept_.keep(id, n, op.c);
                if (op.c % 3 == 0) kept_.ask(id, n, op);
                return;
            }
            case OpKind::Hit:
            case OpKind::Pin:
                return kept_.ask(id, op.b % 2 == 0 ? length : within(op.b / 2), op);
            case OpKind::Save:
                return pieces_.save(id, within(op.b), op.c);
            default:
                break;
        }
    }

    // Mostly one token, sometimes some, sometimes as many as fit into a step.
    [[nodiscard]] int32_t sizes(uint32_t b) const {
        const auto rest = static_cast<int32_t>(b / 4);
        return b % 4 < 2 ? 1 : b % 4 == 2 ? 1 + rest % 40 : 1 + rest % world_.cache->limits().max_step_tokens;
    }

    void open() {
        const auto id = world_.cache->open();
        if (id.has_value() != world_.room()) return world_.say("open");
        if (id) world_.model[*id].groups.resize(world_.spec.groups.size());
    }

    void close(SeqId id) {
        world_.cache->close(id);
        world_.model.erase(id);
        if (world_.cache->is_open(id)) world_.say("a closed sequence is open");
    }

    void fork(SeqId id, int32_t at) {
        ModelSeq child = world_.model[id];
        const size_t ledger = world_.cache->ledger_bytes();
        const auto made = world_.cache->fork(id, at);
        if (made.has_value() != world_.room()) return world_.say("fork");
        if (!made) return;
        ++world_.counts.forks;
        if (world_.cache->ledger_bytes() != ledger) return world_.say("a fork took memory");
        model_trim(child, model_restorable(world_.spec, child, at));
        world_.model[*made] = std::move(child);
    }

    void trim(SeqId id, int32_t n) {
        const int32_t want = model_restorable(world_.spec, world_.model[id], n);
        if (world_.cache->restorable(id, n) != want)
            return world_.say(fmt::format("restorable({}) is {}, not {}", n, world_.cache->restorable(id, n), want));
        if (world_.cache->trim(id, n) != want) return world_.say("trim reached another length");
        model_trim(world_.model[id], want);
    }

    void shift(SeqId id, Interval range) {
        if (range.length() == 0) return;
        const auto done = world_.cache->remove_and_shift(id, range);
        if (done.has_value() != model_shift(world_.spec, world_.model[id], range))
            return world_.say(fmt::format("shift {} to {}: {}", range.lo, range.hi, done.has_value()));
        ++(done ? world_.counts.shifts : world_.counts.refused_shifts);
    }

    void compact(const Op& op) {
        if (!world_.busy.empty()) return;
        ++world_.counts.compacts;
        const CacheStats before = world_.cache->stats();
        const int64_t most = op.a % 2 == 0 ? INT64_MAX : op.b % 300;
        int64_t cells = 0;
        for (const Move& move : world_.cache->compact(most)) cells += move.len;
        if (cells > most) return world_.say("compact moved more than it may");
        for (size_t g = 0; g < world_.spec.groups.size() && most == INT64_MAX; ++g) {
            const GroupStats& stats = before.groups[g];
            if (stats.blocks_used == stats.blocks) continue;
            for (const auto& [id, seq] : world_.model)
                for (const Run& run : world_.cache->runs(id, static_cast<int>(g)))
                    if (run.cell + run.len > stats.blocks_used * world_.cache->limits().block) return world_.say("compact left a hole");
        }
    }

    World world_;
    OpenSteps steps_{world_};
    OpenBakes bakes_{world_};
    KeptPrefixes kept_{world_};
    SavedPieces pieces_{world_};
    size_t every_;
};

std::string run(const Scenario& scenario, const Program& program, RunCounts* counts) {
    return Runner(scenario).run(program, counts);
}

}  // namespace cellar::kv
