#pragma once
// How cache_runner.h works. For one file of a program: a test or a fuzzer.
#include <malloc.h>

#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "base/check.h"
#include "kv/cache_model_inl.h"
#include "kv/cache_runner.h"
#include "kv/index.h"
#include "kv/snapshot.h"

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
    Scenario out{scenario_mixes()[mix % scenario_mixes().size()], {}};
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

// What an index may say: prefixes are found that were kept, and must be found if nothing was evicted since.
class KeptModel {
  public:
    void keep(std::span<const Token> tokens) {
        ever_.emplace_back(tokens.begin(), tokens.end());
        since_.emplace_back(tokens.begin(), tokens.end());
    }
    void evicted() { since_.clear(); }
    [[nodiscard]] int32_t at_most(std::span<const Token> tokens) const { return longest(ever_, tokens); }
    [[nodiscard]] int32_t at_least(std::span<const Token> tokens) const { return longest(since_, tokens); }

  private:
    static int32_t longest(const std::vector<std::vector<Token>>& all, std::span<const Token> tokens) {
        ptrdiff_t most = 0;
        for (const auto& kept : all)
            most = std::max(most, std::mismatch(kept.begin(), kept.end(), tokens.begin(), tokens.end()).first - kept.begin());
        return static_cast<int32_t>(most);
    }
    std::vector<std::vector<Token>> ever_;
    std::vector<std::vector<Token>> since_;
};

class Runner {
  public:
    // Looks at everything after each `every` operations.
    explicit Runner(const Scenario& scenario, size_t every = 1) : spec_(model_spec(scenario.keeps)), every_(every) {
        auto made = Cache::make(spec_, scenario.limits);
        CHECK(made.has_value());
        cache_ = *std::move(made);
        index_ = std::make_unique<Index>(*cache_);
    }

    std::string run(const Program& program, RunCounts* counts) {
        for (size_t i = 0; i < program.size() && wrong_.empty(); ++i) {
            operate(program[i]);
            if (i % every_ == 0) check(fmt::format("operation {}", i));
        }
        while (wrong_.empty() && !bakes_.empty()) end_bake({OpKind::BakeEnd, 0, 0, 0});
        while (wrong_.empty() && !steps_.empty()) commit({OpKind::Commit, 0, 1, 0}, true);
        while (wrong_.empty() && !model_.empty()) close(model_.begin()->first);
        if (wrong_.empty()) finish();
        if (counts != nullptr) *counts = counts_;
        return wrong_;
    }
    Cache& cache() { return *cache_; }

  private:
    struct OpenStep {
        Step step;
        std::vector<SeqId> ids;
        std::vector<std::vector<Token>> tokens;
        std::vector<ModelSeq> grown;
    };
    struct OpenBake {
        Bake bake;
        SeqId id{};
        ModelSeq baked;
    };
    struct Saved {
        std::vector<std::vector<std::byte>> pieces;
        std::vector<int32_t> ends;
        ModelSeq seq;
    };

    void finish() {
        index_->clear();
        kept_.clear();
        saved_.clear();
        check("the end");
        const CacheStats stats = cache_->stats();
        for (const GroupStats& g : stats.groups)
            if (g.blocks_used != 0) say(fmt::format("{} blocks are left", g.blocks_used));
        if (stats.log.blocks_used != 0) say("the log is not empty");
        if (cache_->ledger_bytes() != stats.table_bytes) say("the ledger is not empty");
    }

    void say(const std::string& wrong) {
        if (wrong_.empty()) wrong_ = wrong;
    }

    void check(const std::string& what) {
        ++counts_.operations;
        const bool before = !wrong_.empty();
        if (!before) say(verify(*cache_));
        if (wrong_.empty()) say(verify(*index_));
        if (wrong_.empty() && static_cast<size_t>(cache_->open_seqs()) != model_.size()) say("another number of sequences");
        for (const auto& [id, seq] : model_) {
            if (!wrong_.empty() || busy_.contains(id)) continue;
            if (const std::string wrong = compare_seq(*cache_, id, seq); !wrong.empty())
                say(fmt::format("sequence {:#x}: {}", static_cast<uint64_t>(id), wrong));
        }
        if (!wrong_.empty()) wrong_ += " (after " + what + ")";
    }

    // The sequence that a number picks of those that no step or bake keeps busy.
    SeqId pick(uint32_t a) const {
        std::vector<SeqId> idle;
        for (const auto& [id, seq] : model_)
            if (!busy_.contains(id)) idle.push_back(id);
        return idle.empty() ? SeqId{} : idle[a % idle.size()];
    }

    void operate(const Op& op) {
        switch (op.kind) {
            case OpKind::Open:
                return open();
            case OpKind::Commit:
                return commit(op, false);
            case OpKind::Abandon:
                return abandon(op);
            case OpKind::BakeEnd:
                return end_bake(op);
            case OpKind::Compact:
                return compact(op);
            case OpKind::Release:
                return cache_->release_pages();
            case OpKind::Evict:
                return evict(op);
            case OpKind::Load:
                return load(op);
            default:
                break;
        }
        const SeqId id = pick(op.a);
        if (id == SeqId{}) return model_.empty() ? open() : void();
        on_sequence(op, id);
    }

    void on_sequence(const Op& op, SeqId id) {
        const int32_t length = model_[id].length();
        const auto within = [&](uint32_t n) { return static_cast<int32_t>(n % (static_cast<uint32_t>(length) + 1)); };
        const Interval range{within(op.b), std::min(length, within(op.b) + static_cast<int32_t>(op.c % 40))};
        switch (op.kind) {
            case OpKind::Close:
                return close(id);
            case OpKind::Fork:
                return fork(id, op.b % 2 == 0 ? length : within(op.b / 2) + 1);
            case OpKind::Append:
            case OpKind::Begin:
                if (begin(id, sizes(op.b), op.c) && op.kind == OpKind::Append) commit_at(steps_.size() - 1, {});
                return;
            case OpKind::Trim:
                return trim(id, op.b % 2 == 0 ? std::max(0, length - static_cast<int32_t>(op.b / 2 % 6)) : within(op.b / 2));
            case OpKind::Overwrite: {
                trim(id, within(op.b));
                const int32_t n = std::min(length - model_[id].length(), cache_->limits().max_step_tokens);
                if (n > 0 && begin(id, n, op.c & ~7U)) commit_at(steps_.size() - 1, {});
                return;
            }
            case OpKind::Remove:
                ++counts_.removes;
                if (cache_->remove(id, range) != range.length()) return say("remove counts otherwise");
                if (range.length() > 0) model_remove(model_[id], range);
                return;
            case OpKind::Shift:
                return shift(id, range);
            case OpKind::BakeBegin:
                return begin_bake(id);
            case OpKind::Keep: {
                const int32_t n = op.b % 2 == 0 ? length : within(op.b / 2);
                keep(id, n, op.c);
                if (op.c % 3 == 0) ask(id, n, op);
                return;
            }
            case OpKind::Hit:
            case OpKind::Pin:
                return ask(id, op.b % 2 == 0 ? length : within(op.b / 2), op);
            case OpKind::Save:
                return save(id, within(op.b), op.c);
            default:
                break;
        }
    }

    // Mostly one token, sometimes some, sometimes as many as fit into a step.
    [[nodiscard]] int32_t sizes(uint32_t b) const {
        const auto rest = static_cast<int32_t>(b / 4);
        return b % 4 < 2 ? 1 : b % 4 == 2 ? 1 + rest % 40 : 1 + rest % cache_->limits().max_step_tokens;
    }

    void open() {
        const auto id = cache_->open();
        const bool room = model_.size() < static_cast<size_t>(cache_->limits().max_seqs);
        if (id.has_value() != room) return say("open");
        if (id) model_[*id].groups.resize(spec_.groups.size());
    }

    void close(SeqId id) {
        cache_->close(id);
        model_.erase(id);
        if (cache_->is_open(id)) say("a closed sequence is open");
    }

    void fork(SeqId id, int32_t at) {
        ModelSeq child = model_[id];
        const size_t ledger = cache_->ledger_bytes();
        const auto made = cache_->fork(id, at);
        if (made.has_value() != (model_.size() < static_cast<size_t>(cache_->limits().max_seqs))) return say("fork");
        if (!made) return;
        ++counts_.forks;
        if (cache_->ledger_bytes() != ledger) return say("a fork took memory");
        model_trim(child, model_restorable(spec_, child, at));
        model_[*made] = std::move(child);
    }

    void trim(SeqId id, int32_t n) {
        const int32_t want = model_restorable(spec_, model_[id], n);
        if (cache_->restorable(id, n) != want) return say(fmt::format("restorable({}) is {}, not {}", n, cache_->restorable(id, n), want));
        if (cache_->trim(id, n) != want) return say("trim reached another length");
        model_trim(model_[id], want);
    }

    void shift(SeqId id, Interval range) {
        if (range.length() == 0) return;
        const auto done = cache_->remove_and_shift(id, range);
        if (done.has_value() != model_shift(spec_, model_[id], range))
            return say(fmt::format("shift {} to {}: {}", range.lo, range.hi, done.has_value()));
        ++(done ? counts_.shifts : counts_.refused_shifts);
    }

    // --- steps

    // Whether each append opening as many blocks as it can find use for would still fit.
    [[nodiscard]] bool surely_fits(const std::vector<Append>& appends) const {
        const CacheStats stats = cache_->stats();
        const auto blocks = [&](int64_t per_block) {
            int64_t n = 0;
            for (const Append& append : appends) n += (static_cast<int64_t>(append.tokens.size()) + per_block - 1) / per_block;
            return n;
        };
        size_t bytes = stats.ledger_bytes + static_cast<size_t>(blocks(256)) * stats.log.block_bytes;
        bool fits = stats.log.blocks - stats.log.blocks_used >= blocks(256);
        for (const GroupStats& g : stats.groups) {
            fits = fits && g.blocks - g.blocks_used >= blocks(cache_->limits().block);
            bytes += static_cast<size_t>(blocks(cache_->limits().block)) * g.block_bytes;
        }
        for (const Append& append : appends)
            fits = fits && cache_->length(append.id) + static_cast<int64_t>(append.tokens.size()) <= cache_->limits().context;
        return fits && (cache_->limits().budget_bytes == 0 || bytes <= cache_->limits().budget_bytes);
    }

    // Few different tokens, so that texts often begin alike; now and then the tokens of an image.
    static std::vector<Token> some_tokens(const ModelSeq& seq, int32_t n, uint32_t which) {
        std::vector<Token> out;
        const int32_t rotary = seq.length() == 0 ? 0 : seq.log.back().rotary + 1;
        const bool image = which % 16 == 5;
        for (int32_t i = 0; i < n; ++i)
            out.push_back({static_cast<int32_t>((which / 8 + static_cast<uint32_t>(i) / 9) % 3), image ? rotary : rotary + i, image ? 7U : 0U});
        return out;
    }

    bool begin(SeqId first, int32_t n, uint32_t which) {
        if (steps_.size() >= 3) return false;
        auto open = std::make_unique<OpenStep>();
        open->ids.push_back(first);
        for (const auto& [id, seq] : model_)
            if (id != first && !busy_.contains(id) && which % 8 == 1) open->ids.push_back(id);
        if (which % 4 == 1) std::reverse(open->ids.begin(), open->ids.end());
        const int32_t most = cache_->limits().max_step_tokens / static_cast<int32_t>(open->ids.size());
        std::vector<Append> appends;
        for (const SeqId id : open->ids) open->tokens.push_back(some_tokens(model_[id], id == first ? std::min(n, most) : 1, which));
        for (size_t i = 0; i < open->ids.size(); ++i) appends.push_back({open->ids[i], open->tokens[i]});
        const bool fits = surely_fits(appends);
        const auto begun = cache_->begin(appends, open->step);
        if (!begun) {
            ++counts_.full;
            if (fits) say("full, though all would have fit");
            if (begun.error().kind != ErrorKind::Full) say("not full but: " + begun.error().message);
            return false;
        }
        for (size_t i = 0; i < open->ids.size(); ++i) {
            busy_.insert(open->ids[i]);
            ModelSeq seq = model_[open->ids[i]];
            const bool pure = seq.pure == seq.length();
            int32_t t = open->step.view().groups[0].seqs[i].first_token;
            for (const Token& token : open->tokens[i]) {
                model_append(seq, token, pure ? 0 : ++salt_);
                write_rows(open->step.view(), t++, seq.chain.back());
            }
            open->grown.push_back(std::move(seq));
        }
        steps_.push_back(std::move(open));
        return true;
    }

    void commit(const Op& op, bool all) {
        if (steps_.empty()) return;
        const size_t at = op.a % steps_.size();
        std::vector<int32_t> kept;
        if (!all && op.b % 4 == 0)
            for (const auto& list : steps_[at]->tokens) kept.push_back(static_cast<int32_t>((op.b / 4 + op.c) % (list.size() + 1)));
        commit_at(at, kept);
    }

    void commit_at(size_t at, const std::vector<int32_t>& kept) {
        OpenStep& open = *steps_[at];
        std::vector<const ModelSeq*> seqs;
        for (const ModelSeq& seq : open.grown) seqs.push_back(&seq);
        if (auto wrong = compare_view(open.step.view(), seqs); !wrong.empty()) say(wrong);
        cache_->commit(open.step, kept);
        for (size_t i = 0; i < open.ids.size(); ++i) {
            busy_.erase(open.ids[i]);
            ModelSeq& seq = model_[open.ids[i]];
            const int32_t before = seq.length();
            const bool pure = seq.pure == before;
            seq = std::move(open.grown[i]);
            if (!kept.empty()) model_trim(seq, before + kept[i]);
            if (pure) seq.pure = seq.length();
            counts_.tokens += seq.length() - before;
            model_let_go(spec_, seq);
        }
        steps_.erase(steps_.begin() + static_cast<ptrdiff_t>(at));
    }

    void abandon(const Op& op) {
        if (steps_.empty()) return;
        ++counts_.abandoned;
        const size_t at = op.a % steps_.size();
        cache_->abandon(steps_[at]->step);
        for (const SeqId id : steps_[at]->ids) busy_.erase(id);
        steps_.erase(steps_.begin() + static_cast<ptrdiff_t>(at));
    }

    // --- bake. Rotation is not the cache's business: here a rotated row is one of another tag.

    static uint64_t rotated(uint64_t tag, int32_t turn) { return tag * 1'000'003 + static_cast<uint32_t>(turn); }

    void begin_bake(SeqId id) {
        auto open = std::make_unique<OpenBake>();
        open->id = id;
        open->baked = model_[id];
        const auto begun = cache_->begin_bake(id, open->bake);
        if (!begun) return begun.error().kind == ErrorKind::Full ? void() : say("not full but: " + begun.error().message);
        busy_.insert(id);
        for (const TurnedMove& move : open->bake.moves()) {
            const auto g = static_cast<size_t>(move.group);
            for (const Run& run : cache_->runs(id, move.group)) {
                for (int32_t cell = std::max(move.from, run.cell); cell < std::min(move.from + move.len, run.cell + run.len); ++cell) {
                    ModelRow& row = open->baked.groups[g][static_cast<size_t>(run.pos + cell - run.cell)];
                    if (row.turn != move.turn) return say("a bake turns otherwise");
                    row = {ModelRow::State::Held, rotated(row.tag, row.turn), 0};
                    write_row(cache_->rows(move.group), g, move.to + cell - move.from, row.tag);
                }
            }
        }
        bakes_.push_back(std::move(open));
    }

    void end_bake(const Op& op) {
        if (bakes_.empty()) return;
        const size_t at = op.a % bakes_.size();
        const std::unique_ptr<OpenBake> open = std::move(bakes_[at]);
        bakes_.erase(bakes_.begin() + static_cast<ptrdiff_t>(at));
        busy_.erase(open->id);
        if (op.b % 4 == 0) return cache_->abandon_bake(open->bake);
        ++counts_.bakes;
        cache_->commit_bake(open->bake);
        model_[open->id] = std::move(open->baked);
        for (size_t g = 0; g < spec_.groups.size(); ++g)
            for (const Run& run : cache_->runs(open->id, static_cast<int>(g)))
                if (run.turn != 0) say("a baked sequence is turned");
    }

    void compact(const Op& op) {
        if (!busy_.empty()) return;
        ++counts_.compacts;
        const CacheStats before = cache_->stats();
        const int64_t most = op.a % 2 == 0 ? INT64_MAX : op.b % 300;
        int64_t cells = 0;
        for (const Move& move : cache_->compact(most)) cells += move.len;
        if (cells > most) return say("compact moved more than it may");
        for (size_t g = 0; g < spec_.groups.size() && most == INT64_MAX; ++g) {
            const GroupStats& stats = before.groups[g];
            if (stats.blocks_used == stats.blocks) continue;
            for (const auto& [id, seq] : model_)
                for (const Run& run : cache_->runs(id, static_cast<int>(g)))
                    if (run.cell + run.len > stats.blocks_used * cache_->limits().block) return say("compact left a hole");
        }
    }

    // --- kept prefixes

    static std::string root(uint32_t c) { return c % 4 == 0 ? "other" : "root"; }

    void keep(SeqId id, int32_t n, uint32_t c) {
        ++counts_.kept;
        const ModelSeq& seq = model_[id];
        const int32_t kept = std::min(n, seq.pure);
        const int32_t reached = index_->keep(root(c), id, n);
        if (reached < 0 || reached > kept) return say(fmt::format("keep({}) of {} pure tokens reaches {}", n, seq.pure, reached));
        if (!index_needs_marks() && reached != kept) return say("keep reaches less than it was given");
        const std::span<const Token> tokens(seq.log.data(), static_cast<size_t>(kept));
        kept_[root(c)].keep(tokens);
        std::vector<Token> asked(tokens.begin(), tokens.begin() + reached);
        asked.push_back({12345, 0, 9});
        if (index_->find(root(c), asked).length < reached)
            say(fmt::format("keep says {}, but a hit reaches {}", reached, index_->find(root(c), asked).length));
    }

    [[nodiscard]] bool index_needs_marks() const {
        return std::any_of(spec_.groups.begin(), spec_.groups.end(), [](const GroupSpec& g) { return g.keep.kind != Keep::Kind::All; });
    }

    void ask(SeqId id, int32_t n, const Op& op) {
        std::vector<Token> tokens(model_[id].log.begin(), model_[id].log.begin() + n);
        tokens.push_back({static_cast<int32_t>(op.a % 3), static_cast<int32_t>(op.c % 2), 0});
        if (op.kind == OpKind::Pin) return index_->pin(root(op.c), tokens, now_ + op.b % 8);
        const bool room = model_.size() < static_cast<size_t>(cache_->limits().max_seqs);
        const size_t ledger = cache_->ledger_bytes();
        const auto hit = index_->take(root(op.c), tokens);
        if (hit.has_value() != room) return say("take");
        if (!hit) return;
        if (cache_->ledger_bytes() != ledger) return say("a hit took memory");
        const KeptModel& kept = kept_[root(op.c)];
        if (hit->matched > kept.at_most(tokens) || hit->matched < kept.at_least(tokens))
            say(fmt::format("{} tokens match, but {} to {} were kept", hit->matched, kept.at_least(tokens), kept.at_most(tokens)));
        if (hit->length > std::min(hit->matched, n)) return say("a hit reaches further than it matches");
        if (!index_needs_marks() && hit->length != std::min(hit->matched, n)) say("a hit reaches less than it could");
        ++counts_.hits;
        counts_.reused += hit->length;
        model_[hit->id] = model_fresh(spec_, std::span<const Token>(tokens).first(static_cast<size_t>(hit->length)));
    }

    void evict(const Op& op) {
        const size_t ledger = cache_->ledger_bytes();
        const size_t sank = index_->evict(op.a * size_t{1024}, now_ += 1.0);
        if (ledger - cache_->ledger_bytes() != sank) return say("evict counts otherwise");
        counts_.evicted += sank > 0 ? 1 : 0;
        for (auto& [root, kept] : kept_) kept.evicted();
    }

    // --- pieces

    void save(SeqId id, int32_t cut, uint32_t slot) {
        Saved saved;
        saved.seq = model_[id];
        int32_t from = 0;
        for (const int32_t end : {cut, saved.seq.length()}) {
            if (end <= from) continue;
            std::vector<std::byte>& bytes = saved.pieces.emplace_back();
            saved.ends.push_back(end);
            const auto written = write_piece(*cache_, id, {from, end}, [&](std::span<const std::byte> part) -> Result<void> {
                bytes.insert(bytes.end(), part.begin(), part.end());
                return {};
            });
            if (!written) return say("a sink in memory failed");
            if (bytes.size() != piece_bytes(*cache_, id, {from, end})) return say("a piece has another size than was said");
            from = end;
        }
        ++counts_.saved;
        saved_[slot % 3] = std::move(saved);
    }

    void load(const Op& op) {
        const auto at = saved_.find(op.c % 3);
        if (at == saved_.end() || model_.size() == static_cast<size_t>(cache_->limits().max_seqs)) return;
        const Saved& saved = at->second;
        const SeqId id = *cache_->open();
        for (size_t i = 0; i < saved.pieces.size(); ++i) {
            const auto piece = parse_piece(saved.pieces[i], "piece", spec_);
            if (!piece) return say(piece.error().message);
            if (converts(*piece, spec_)) return say("a piece converts into its own format");
            const auto appended = append_piece(*cache_, id, *piece, saved.ends[i]);
            if (appended) continue;
            if (appended.error().kind != ErrorKind::Full) say("not full but: " + appended.error().message);
            return cache_->close(id);
        }
        ++counts_.loaded;
        cache_->colour(id, saved.seq.pure);
        model_[id] = saved.seq;
    }

    CacheSpec spec_;
    size_t every_;
    std::unique_ptr<Cache> cache_;
    std::unique_ptr<Index> index_;
    std::map<SeqId, ModelSeq> model_;
    std::map<std::string, KeptModel> kept_;
    std::map<uint32_t, Saved> saved_;
    std::vector<std::unique_ptr<OpenStep>> steps_;
    std::vector<std::unique_ptr<OpenBake>> bakes_;
    std::set<SeqId> busy_;
    uint64_t salt_ = 0;
    double now_ = 0;
    std::string wrong_;
    RunCounts counts_;
};

std::string run(const Scenario& scenario, const Program& program, RunCounts* counts) {
    return Runner(scenario).run(program, counts);
}

size_t resident_bytes() {
    std::ifstream in("/proc/self/statm");
    size_t pages = 0;
    in >> pages >> pages;
    return pages * 4096;
}

Soak soak(const Scenario& scenario, int64_t operations, uint64_t seed) {
    constexpr int64_t kRound = 10'000;
    Soak out;
    Runner runner(scenario, 100);
    for (int64_t done = 0; done < operations && out.wrong.empty(); done += kRound) {
        // The allocator keeps some of what a thread has freed until that thread ends, so that what the models had would hide what the cache has.
        std::thread([&] {
            out.wrong = runner.run(random_program(seed++, static_cast<size_t>(std::min(kRound, operations - done))), nullptr);
            runner.cache().compact();
        }).join();
        malloc_trim(0);
        out.resident.push_back(resident_bytes());
        out.heap.push_back(mallinfo2().uordblks);
    }
    return out;
}

}  // namespace cellar::kv
