#include "kv/verify.h"

#include <algorithm>

#include <fmt/format.h>

#include "kv/cache.h"
#include "kv/plan.h"

namespace cellar::kv {
namespace {

// One run list as a holder: who it is, for the message, and from which position on its cells are still to be written.
struct Holder {
    std::string name;
    const RunList* list = nullptr;
    int32_t pending_from = INT32_MAX;
};

std::string check_runs(const Holder& holder, const Store& store) {
    const int32_t cells = store.pool().blocks() * store.block_cells();
    const Run* before = nullptr;
    for (const Run& run : holder.list->runs()) {
        const std::string text = fmt::format("{}: run {{pos {}, cell {}, len {}, turn {}}}", holder.name, run.pos, run.cell, run.len, run.turn);
        if (run.pos < 0 || run.len <= 0 || run.cell < 0 || run.cell + run.len > cells) return text + " is out of range";
        if (before != nullptr) {
            if (before->end() > run.pos) return text + " is not behind the run before it";
            if (before->end() == run.pos && before->cell + before->len == run.cell && before->turn == run.turn) return text + " is not coalesced";
        }
        before = &run;
    }
    return {};
}

// What the holders of one store say about each block and cell.
struct Tally {
    std::vector<int32_t> refs;     // [blocks]
    std::vector<int32_t> highest;  // [blocks] end of the highest cell that anybody sees
    std::vector<int32_t> seen;     // [cells] lists that see it
};

std::string add(Tally& tally, const Holder& holder, const Store& store) {
    const int32_t block_cells = store.block_cells();
    std::vector<int32_t> mine(tally.seen.size());
    std::vector<int32_t> in_block(tally.refs.size());
    for (const Run& run : holder.list->runs()) {
        for (int32_t cell = run.cell; cell < run.cell + run.len; ++cell) {
            if (mine[static_cast<size_t>(cell)]++ != 0) return fmt::format("{}: cell {} lies in two runs", holder.name, cell);
            ++tally.seen[static_cast<size_t>(cell)];
            const auto block = static_cast<size_t>(cell / block_cells);
            ++in_block[block];
            tally.highest[block] = std::max(tally.highest[block], cell % block_cells + 1);
        }
    }
    size_t next = 0;
    const auto held = holder.list->held();
    for (size_t block = 0; block < in_block.size(); ++block) {
        if (in_block[block] == 0) continue;
        ++tally.refs[block];
        if (next == held.size() || held[next].block != static_cast<int32_t>(block) || held[next].cells != in_block[block]) {
            return fmt::format("{}: {} cells in block {}, but it is not held as such", holder.name, in_block[block], block);
        }
        ++next;
    }
    if (next != held.size()) return fmt::format("{}: block {} is held without a cell in it", holder.name, held[next].block);
    return {};
}

std::string check_pool(const Tally& tally, const Store& store) {
    const Pool& pool = store.pool();
    int32_t used = 0;
    int32_t touched = 0;
    int32_t free_at = pool.next_free(0);
    for (int32_t b = 0; b < pool.blocks(); ++b) {
        const auto at = static_cast<size_t>(b);
        if (pool.refs(b) != tally.refs[at]) return fmt::format("block {}: {} references, but {} holders", b, pool.refs(b), tally.refs[at]);
        if (pool.is_free(b) != (pool.refs(b) == 0)) return fmt::format("block {}: {} references, but free is {}", b, pool.refs(b), pool.is_free(b));
        if ((free_at == b) != pool.is_free(b)) return fmt::format("block {}: the search for free blocks finds {}", b, free_at);
        if (free_at == b) free_at = pool.next_free(b + 1);
        const bool fill_is_right = pool.is_free(b) ? pool.fill(b) == 0 : pool.fill(b) >= tally.highest[at] && pool.fill(b) <= pool.block_cells();
        if (!fill_is_right) return fmt::format("block {}: fill {}, but cells up to {} are seen", b, pool.fill(b), tally.highest[at]);
        if (!pool.is_free(b) && !pool.touched(b)) return fmt::format("block {}: in use, but not touched", b);
        used += pool.is_free(b) ? 0 : 1;
        touched += pool.touched(b) ? 1 : 0;
    }
    if (used != pool.used()) return fmt::format("{} blocks are in use, but {} are counted", used, pool.used());
    if (touched != pool.touched_blocks()) return fmt::format("{} blocks are touched, but {} are counted", touched, pool.touched_blocks());
    return {};
}

std::string check_poison(const Tally& tally, const Store& store) {
    if (!store.poisons()) return {};
    for (int32_t cell = 0; cell < static_cast<int32_t>(tally.seen.size()); ++cell) {
        const int32_t seen = tally.seen[static_cast<size_t>(cell)];
        if (store.seen(cell) != seen) return fmt::format("cell {}: {} lists see it, but {} are counted", cell, seen, store.seen(cell));
        const bool used = !store.pool().is_free(cell / store.block_cells());
        if (used && seen == 0 && !store.arena().is_poisoned(cell, 1)) return fmt::format("cell {}: nobody sees it, but it is not poisoned", cell);
    }
    return {};
}

std::string check_store(const std::vector<Holder>& holders, const Store& store) {
    const auto blocks = static_cast<size_t>(store.pool().blocks());
    Tally tally{std::vector<int32_t>(blocks), std::vector<int32_t>(blocks), std::vector<int32_t>(blocks * static_cast<size_t>(store.block_cells()))};
    for (const Holder& holder : holders) {
        if (auto wrong = check_runs(holder, store); !wrong.empty()) return wrong;
        if (auto wrong = add(tally, holder, store); !wrong.empty()) return wrong;
    }
    for (const Holder& holder : holders) {
        for (const Run& run : holder.list->runs()) {
            for (int32_t i = std::max(0, holder.pending_from - run.pos); i < run.len; ++i) {
                const int32_t seen = tally.seen[static_cast<size_t>(run.cell) + static_cast<size_t>(i)];
                if (seen != 1) return fmt::format("{}: cell {} is to be written, but {} lists see it", holder.name, run.cell + i, seen);
            }
        }
    }
    if (auto wrong = check_pool(tally, store); !wrong.empty()) return wrong;
    return check_poison(tally, store);
}

std::string check_seq(const Seq& seq, const CacheSpec& spec, const std::string& name) {
    const int32_t end = seq.length + seq.pending;
    int32_t logged = 0;
    for (const Run& run : seq.log.runs()) {
        if (run.pos != logged) return fmt::format("{}: the log has a gap at {}", name, logged);
        logged = run.end();
    }
    if (logged != end) return fmt::format("{}: {} tokens, but {} in the log", name, end, logged);
    if (seq.pure < 0 || seq.pure > seq.length) return fmt::format("{}: pure up to {} of {}", name, seq.pure, seq.length);
    for (size_t g = 0; g < seq.groups.size(); ++g) {
        const Keep& keep = spec.groups[g].keep;
        for (const Run& run : seq.groups[g].runs()) {
            if (run.end() > end) return fmt::format("{}: group {} holds position {} of {}", name, g, run.end() - 1, end);
            const bool holds_gone = std::max(run.pos, keep.sinks) < std::min(run.end(), seq.cut[g]);
            if (holds_gone) return fmt::format("{}: group {} let go positions up to {}, but holds {}", name, g, seq.cut[g], run.pos);
        }
        if (restorable(keep, seq.cut[g], seq.length) != seq.length) return fmt::format("{}: group {} let go too much: {}", name, g, seq.cut[g]);
        // A step in flight has not slid yet.
        if (seq.pending == 0 && std::max(first_needed(keep, seq.length), keep.sinks) > std::max(seq.cut[g], keep.sinks)) {
            return fmt::format("{}: group {} holds more than a query at {} needs", name, g, seq.length);
        }
    }
    return {};
}

}  // namespace

std::string verify(const Cache& cache) {
    std::vector<std::vector<Holder>> groups(cache.stores_.size());
    std::vector<Holder> logs;
    int open = 0;
    for (const Seq& seq : cache.seqs_) {
        if (seq.id == SeqId{}) {
            const bool empty = seq.log.empty() && std::all_of(seq.groups.begin(), seq.groups.end(), [](const RunList& l) { return l.empty(); });
            if (!empty) return "a closed sequence holds cells";
            continue;
        }
        ++open;
        const std::string name = fmt::format("sequence {:#x}", static_cast<uint64_t>(seq.id));
        if (auto wrong = check_seq(seq, cache.spec_, name); !wrong.empty()) return wrong;
        for (size_t g = 0; g < groups.size(); ++g) groups[g].push_back({name, &seq.groups[g], seq.length});
        logs.push_back({name, &seq.log, seq.length});
    }
    if (open != cache.open_seqs_) return fmt::format("{} sequences are open, but {} are counted", open, cache.open_seqs_);
    for (const Holding* holding : cache.holdings_) {
        for (size_t g = 0; g < groups.size(); ++g) groups[g].push_back({"holding", &holding->groups[g]});
        logs.push_back({"holding", &holding->log});
    }
    size_t ledger = 0;
    size_t touched = 0;
    const auto check = [&](const std::vector<Holder>& holders, const Store& store, const std::string& name) {
        ledger += Pool::table_bytes(store.pool().blocks()) + static_cast<size_t>(store.pool().used()) * store.block_bytes();
        touched += static_cast<size_t>(store.pool().touched_blocks()) * store.block_bytes();
        const std::string wrong = check_store(holders, store);
        return wrong.empty() ? wrong : name + wrong;
    };
    for (size_t g = 0; g < groups.size(); ++g) {
        if (auto wrong = check(groups[g], *cache.stores_[g], fmt::format("group {}: ", g)); !wrong.empty()) return wrong;
    }
    if (auto wrong = check(logs, *cache.log_, "log: "); !wrong.empty()) return wrong;
    if (ledger != cache.budget_.used) return fmt::format("the ledger has {} bytes, but {} are in use", cache.budget_.used, ledger);
    if (touched != cache.budget_.touched) return fmt::format("{} touched bytes are counted, but there are {}", cache.budget_.touched, touched);
    if (cache.budget_.limit != 0 && ledger > cache.budget_.limit) return fmt::format("{} bytes exceed the budget of {}", ledger, cache.budget_.limit);
    return {};
}

}  // namespace cellar::kv
