#pragma once
// How the model of cache_model.h works. For one file of a program: the tests' or the fuzzer's.
#include <algorithm>
#include <cstring>
#include <map>

#include "kv/cache_model.h"
#include "kv/verify.h"

namespace cellar::kv {

std::vector<RowSpec> model_rows() {
    return {{"k", 2, 5, RowFormat::F32}, {"v", 1, 40, RowFormat::Q8_0}, {"x", 1, 6, RowFormat::BF16}};
}

CacheSpec model_spec(const std::vector<Keep>& keeps) {
    CacheSpec spec;
    for (const Keep& keep : keeps) spec.groups.push_back({keep, 2, model_rows()});
    return spec;
}

// 64 bits of row content at a time; no byte has its highest bit set, so none is poison.
inline uint64_t row_word(uint64_t tag, size_t group, size_t row, int plane, int head, size_t word) {
    uint64_t x = tag * 0x9e3779b97f4a7c15U +
                 (group * 131 + row * 31 + static_cast<uint64_t>(plane) * 7 + static_cast<uint64_t>(head)) * 0xbf58476d1ce4e5b9U + word;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return (x ^ (x >> 31)) & 0x7f7f7f7f7f7f7f7fU;
}

// Calls f(offset, expected bytes, how many) over a row.
template <class F>
void for_row_words(uint64_t tag, size_t group, size_t row, int plane, int head, size_t bytes, F f) {
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        const uint64_t word = row_word(tag, group, row, plane, head, at);
        f(at, &word, std::min(sizeof(uint64_t), bytes - at));
    }
}

std::vector<std::byte> row_bytes_of(uint64_t tag, size_t group, size_t row, int plane, int head, size_t bytes) {
    std::vector<std::byte> out(bytes);
    for_row_words(tag, group, row, plane, head, bytes, [&](size_t at, const void* word, size_t n) { std::memcpy(&out[at], word, n); });
    return out;
}

template <class F>
void for_each_row(const RowTable& table, int planes, F f) {
    for (int plane = 0; plane < planes; ++plane) {
        for (int head = 0; head < table.heads; ++head) f(plane, head);
    }
}

constexpr int model_planes = 2;

void write_row(std::span<const RowTable> rows, size_t g, int32_t cell, uint64_t tag) {
    for (size_t r = 0; r < rows.size(); ++r) {
        for_each_row(rows[r], model_planes, [&](int plane, int head) {
            std::byte* row = rows[r].at(plane, head, cell);
            for_row_words(tag, g, r, plane, head, rows[r].row_bytes, [&](size_t at, const void* word, size_t n) { std::memcpy(row + at, word, n); });
        });
    }
}

void write_rows(const View& view, int32_t token, uint64_t tag) {
    for (size_t g = 0; g < view.groups.size(); ++g) write_row(view.groups[g].rows, g, view.groups[g].write_cells[static_cast<size_t>(token)], tag);
}

inline bool has_rows(std::span<const RowTable> rows, size_t g, int32_t cell, uint64_t tag) {
    bool equal = true;
    for (size_t r = 0; r < rows.size(); ++r) {
        for_each_row(rows[r], model_planes, [&](int plane, int head) {
            const std::byte* row = rows[r].at(plane, head, cell);
            for_row_words(tag, g, r, plane, head, rows[r].row_bytes,
                          [&](size_t at, const void* word, size_t n) { equal = equal && std::memcmp(row + at, word, n) == 0; });
        });
    }
    return equal;
}

bool sees(const Keep& keep, int32_t pos, int32_t p) {
    if (p > pos) return false;
    switch (keep.kind) {
        case Keep::Kind::All:
            return true;
        case Keep::Kind::Window:
            return p < keep.sinks || pos - p < keep.size;
        case Keep::Kind::Chunk:
            return p / keep.size == pos / keep.size;
        case Keep::Kind::State:
            return false;
    }
    return false;
}

int32_t model_restorable(const CacheSpec& spec, const ModelSeq& seq, int32_t n) {
    for (int32_t m = std::clamp(n, 0, seq.length()); m > 0; --m) {
        bool all = true;
        for (size_t g = 0; g < spec.groups.size(); ++g) {
            for (int32_t p = 0; p < m; ++p) {
                const bool gone = seq.groups[g][static_cast<size_t>(p)].state == ModelRow::State::LetGo;
                all = all && !(gone && sees(spec.groups[g].keep, m, p));
            }
        }
        if (all) return m;
    }
    return 0;
}

void model_let_go(const CacheSpec& spec, ModelSeq& seq) {
    for (size_t g = 0; g < spec.groups.size(); ++g) {
        for (int32_t p = 0; p < seq.length(); ++p) {
            // What the next query does not see, no later one sees.
            if (!sees(spec.groups[g].keep, seq.length(), p)) seq.groups[g][static_cast<size_t>(p)].state = ModelRow::State::LetGo;
        }
    }
}

void model_trim(ModelSeq& seq, int32_t n) {
    seq.log.resize(static_cast<size_t>(n));
    for (auto& rows : seq.groups) rows.resize(static_cast<size_t>(n));
    seq.pure = std::min(seq.pure, n);
}

void model_remove(ModelSeq& seq, Interval range) {
    for (auto& rows : seq.groups) {
        for (int32_t p = range.lo; p < range.hi; ++p) {
            ModelRow& row = rows[static_cast<size_t>(p)];
            if (row.state == ModelRow::State::Held) row.state = ModelRow::State::Removed;
        }
    }
    seq.pure = std::min(seq.pure, range.lo);
}

bool model_shift(const CacheSpec& spec, ModelSeq& seq, Interval range) {
    ModelSeq after = seq;
    const bool tail = range.hi < seq.length();
    const int32_t turn = tail ? seq.log[static_cast<size_t>(range.lo)].rotary - seq.log[static_cast<size_t>(range.hi)].rotary : 0;
    after.log.erase(after.log.begin() + range.lo, after.log.begin() + range.hi);
    for (auto t = after.log.begin() + range.lo; t != after.log.end(); ++t) t->rotary += turn;
    for (auto& rows : after.groups) {
        rows.erase(rows.begin() + range.lo, rows.begin() + range.hi);
        for (auto r = rows.begin() + range.lo; r != rows.end(); ++r) r->turn += turn;
    }
    after.pure = std::min(seq.pure, range.lo);
    if (model_restorable(spec, after, after.length()) != after.length()) return false;
    model_let_go(spec, after);
    seq = std::move(after);
    return true;
}

std::string compare_seq(const Cache& cache, SeqId id, const ModelSeq& seq) {
    if (cache.length(id) != seq.length()) return fmt::format("length {} is not {}", cache.length(id), seq.length());
    if (cache.pure(id) != seq.pure) return fmt::format("pure {} is not {}", cache.pure(id), seq.pure);
    std::vector<Token> log(seq.log.size());
    cache.copy_tokens(id, {0, seq.length()}, log);
    if (log != seq.log) return "another log";
    for (size_t g = 0; g < seq.groups.size(); ++g) {
        std::vector<int32_t> cells(seq.log.size(), -1);
        std::vector<int32_t> turns(seq.log.size());
        for (const Run& run : cache.runs(id, static_cast<int>(g))) {
            for (int32_t i = 0; i < run.len; ++i) {
                cells[static_cast<size_t>(run.pos + i)] = run.cell + i;
                turns[static_cast<size_t>(run.pos + i)] = run.turn;
            }
        }
        for (size_t p = 0; p < cells.size(); ++p) {
            const ModelRow& row = seq.groups[g][p];
            if ((cells[p] >= 0) != (row.state == ModelRow::State::Held)) return fmt::format("group {}: position {} held: {}", g, p, cells[p] >= 0);
            if (cells[p] < 0) continue;
            if (turns[p] != row.turn) return fmt::format("group {}: position {} turned by {}, not {}", g, p, turns[p], row.turn);
            if (!has_rows(cache.rows(static_cast<int>(g)), g, cells[p], row.tag)) return fmt::format("group {}: position {} has other bytes", g, p);
        }
    }
    return {};
}

std::string compare(const Cache& cache, const std::map<SeqId, ModelSeq>& model) {
    if (static_cast<size_t>(cache.open_seqs()) != model.size()) return "another number of sequences";
    for (const auto& [id, seq] : model) {
        if (auto wrong = compare_seq(cache, id, seq); !wrong.empty()) return fmt::format("sequence {:#x}: {}", static_cast<uint64_t>(id), wrong);
    }
    return {};
}

std::string compare_view(const View& view, const std::vector<const ModelSeq*>& seqs) {
    for (size_t g = 0; g < view.groups.size(); ++g) {
        const GroupView& group = view.groups[g];
        if (group.seqs.size() != seqs.size()) return "another number of parts";
        int32_t token = 0;
        for (size_t i = 0; i < seqs.size(); ++i) {
            const SeqView& part = group.seqs[i];
            if (part.first_token != token) return "tokens of a part are missing";
            token += part.tokens;
            for (int32_t t = part.first_token; t < token; ++t) {
                const int32_t pos = part.first_pos + t - part.first_token;
                if (view.pos[static_cast<size_t>(t)] != pos) return fmt::format("token {} has position {}", t, view.pos[static_cast<size_t>(t)]);
                if (view.rotary[static_cast<size_t>(t)] != seqs[i]->log[static_cast<size_t>(pos)].rotary) return fmt::format("token {}: rotary", t);
                const Visible seen = group.visible[static_cast<size_t>(t)];
                if (seen.sinks.length() > 0 && seen.sinks.hi > seen.recent.lo) return "intervals overlap";
                for (int32_t p = 0; p < seqs[i]->length(); ++p) {
                    const bool in = (p >= seen.sinks.lo && p < seen.sinks.hi) || (p >= seen.recent.lo && p < seen.recent.hi);
                    if (in != sees(group.keep, pos, p)) return fmt::format("group {}: the query at {} sees {}: {}", g, pos, p, in);
                    if (!in) continue;
                    const ModelRow& row = seqs[i]->groups[g][static_cast<size_t>(p)];
                    if (row.state == ModelRow::State::LetGo) return fmt::format("group {}: the query at {} sees {}, which is gone", g, pos, p);
                    const auto run = std::find_if(part.runs.begin(), part.runs.end(), [&](const Run& r) { return r.pos <= p && p < r.end(); });
                    if ((run != part.runs.end()) != (row.state == ModelRow::State::Held))
                        return fmt::format("group {}: position {} in the view", g, p);
                    if (run == part.runs.end()) continue;
                    if (!has_rows(group.rows, g, run->cell + p - run->pos, row.tag))
                        return fmt::format("group {}: the view of {} has other bytes", g, p);
                }
            }
        }
        if (token != view.tokens) return "tokens without a part";
    }
    return {};
}

class Runner {
  public:
    Runner(const Scenario& scenario, const std::vector<uint32_t>& choices) : choices_(choices), spec_(model_spec(scenario.keeps)) {
        auto made = Cache::make(spec_, scenario.limits);
        if (!made) {
            wrong_ = made.error().message;
            return;
        }
        cache_ = std::move(*made);
    }

    std::string run(ScenarioCounts* counts) {
        while (wrong_.empty() && next_ < choices_.size()) {
            operate(0);
            check("operation");
        }
        // In any order.
        while (wrong_.empty() && !model_.empty()) {
            close(pick());
            check("close");
        }
        if (wrong_.empty()) {
            for (const GroupStats& g : cache_->stats().groups) {
                if (g.blocks_used != 0) wrong_ = fmt::format("{} blocks are left", g.blocks_used);
            }
            if (cache_->stats().log.blocks_used != 0) wrong_ = "the log is not empty";
            if (cache_->ledger_bytes() != cache_->stats().table_bytes) wrong_ = "the ledger is not empty";
        }
        if (counts != nullptr) *counts = counts_;
        return wrong_;
    }

  private:
    uint32_t choose(uint32_t n) { return next_ < choices_.size() ? choices_[next_++] % n : 0; }

    SeqId pick() {
        auto at = model_.begin();
        std::advance(at, choose(static_cast<uint32_t>(model_.size())));
        return at->first;
    }

    void check(const char* what) {
        ++counts_.operations;
        if (wrong_.empty()) wrong_ = verify(*cache_);
        if (wrong_.empty() && busy_.empty()) wrong_ = compare(*cache_, model_);
        if (!wrong_.empty() && wrong_.find(" at choice ") == std::string::npos) {
            wrong_ += fmt::format(" (after {}, {} at choice {} of {})", what, op_, next_, choices_.size());
        }
    }

    void operate(int depth) {
        const uint32_t op = choose(22);
        op_ = op;
        if (model_.empty() || op == 0) return open();
        const SeqId id = pick();
        if (busy_.contains(id)) return;
        ModelSeq& seq = model_[id];
        const int32_t length = seq.length();
        if (op < 9) return depth < 2 ? step(depth) : void();
        if (op == 9) return close(id);
        if (op < 13) return fork(id);
        if (op < 16) {
            const auto n = static_cast<int32_t>(choose(2) == 0 ? choose(static_cast<uint32_t>(length) + 3)
                                                               : std::max(0, length - static_cast<int32_t>(choose(6))));
            const int32_t want = model_restorable(spec_, seq, n);
            if (cache_->restorable(id, n) != want) return say(fmt::format("restorable({}) is {}, not {}", n, cache_->restorable(id, n), want));
            if (cache_->trim(id, n) != want) return say("trim reached another length");
            return model_trim(seq, want);
        }
        const auto lo = static_cast<int32_t>(choose(static_cast<uint32_t>(length) + 1));
        const int32_t hi = std::min(length, lo + static_cast<int32_t>(choose(40)));
        if (op == 16) {
            ++counts_.removes;
            if (cache_->remove(id, {lo, hi}) != hi - lo) return say("remove counts otherwise");
            if (hi > lo) model_remove(seq, {lo, hi});
        } else if (op < 19) {
            if (hi == lo) return;
            const auto done = cache_->remove_and_shift(id, {lo, hi});
            if (done.has_value() != model_shift(spec_, seq, {lo, hi}))
                return say(fmt::format("shift {} to {} of {}: {}", lo, hi, length, done.has_value()));
            ++(done ? counts_.shifts : counts_.refused_shifts);
        } else if (op == 19) {
            bake(id, depth);
        } else if (op == 20 && busy_.empty()) {
            compact();
        } else {
            cache_->release_pages();
        }
    }

    // Rotation is not the cache's business: here a rotated row is one of another tag.
    static uint64_t rotated(uint64_t tag, int32_t turn) { return tag * 1'000'003 + static_cast<uint32_t>(turn); }

    void bake(SeqId id, int depth) {
        Bake bake;
        const auto begun = cache_->begin_bake(id, bake);
        if (!begun) return begun.error().kind == ErrorKind::Full ? void() : say("not full but: " + begun.error().message);
        busy_[id] = true;
        ModelSeq baked = model_[id];
        for (const TurnedMove& move : bake.moves()) {
            const auto g = static_cast<size_t>(move.group);
            for (int32_t i = 0; i < move.len; ++i) {
                for (const Run& run : cache_->runs(id, move.group)) {
                    if (move.from + i < run.cell || move.from + i >= run.cell + run.len) continue;
                    ModelRow& row = baked.groups[g][static_cast<size_t>(run.pos + move.from + i - run.cell)];
                    if (row.turn != move.turn) return say("a bake turns otherwise");
                    row = {ModelRow::State::Held, rotated(row.tag, row.turn), 0};
                    write_row(cache_->rows(move.group), g, move.to + i, row.tag);
                }
            }
        }
        for (uint32_t n = choose(3); n > 0 && depth < 2 && wrong_.empty() && next_ < choices_.size(); --n) {
            operate(depth + 1);
            check("operation during a bake");
        }
        busy_.erase(id);
        if (choose(4) == 0) return cache_->abandon_bake(bake);
        ++counts_.bakes;
        cache_->commit_bake(bake);
        model_[id] = baked;
        for (size_t g = 0; g < spec_.groups.size(); ++g) {
            for (const Run& run : cache_->runs(id, static_cast<int>(g))) {
                if (run.turn != 0) return say("a baked sequence is turned");
            }
        }
    }

    void compact() {
        ++counts_.compacts;
        const CacheStats before = cache_->stats();
        const int64_t most = choose(2) == 0 ? INT64_MAX : choose(300);
        int64_t cells = 0;
        for (const Move& move : cache_->compact(most)) cells += move.len;
        if (cells > most) return say("compact moved more than it may");
        for (size_t g = 0; g < spec_.groups.size() && most == INT64_MAX; ++g) {
            const GroupStats& stats = before.groups[g];
            if (stats.blocks_used == stats.blocks) continue;
            for (const auto& [id, seq] : model_) {
                for (const Run& run : cache_->runs(id, static_cast<int>(g))) {
                    if (run.cell + run.len > stats.blocks_used * cache_->limits().block) return say("compact left a hole");
                }
            }
        }
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

    void fork(SeqId id) {
        ModelSeq child = model_[id];
        const auto at =
            static_cast<int32_t>(choose(2) == 0 ? static_cast<uint32_t>(child.length()) : choose(static_cast<uint32_t>(child.length()) + 2));
        const size_t ledger = cache_->ledger_bytes();
        const auto made = cache_->fork(id, at);
        if (made.has_value() != (model_.size() < static_cast<size_t>(cache_->limits().max_seqs))) return say("fork");
        if (!made) return;
        ++counts_.forks;
        if (cache_->ledger_bytes() != ledger) return say("a fork took memory");
        model_trim(child, model_restorable(spec_, child, at));
        model_[*made] = std::move(child);
    }

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

    void step(int depth) {
        std::vector<SeqId> ids;
        for (const auto& [id, seq] : model_) {
            if (!busy_.contains(id) && (ids.empty() || choose(3) == 0)) ids.push_back(id);
        }
        if (ids.empty()) return;
        if (choose(2) == 0) std::reverse(ids.begin(), ids.end());
        const int32_t most = cache_->limits().max_step_tokens / static_cast<int32_t>(ids.size());
        std::vector<std::vector<Token>> tokens;
        std::vector<Append> appends;
        for (const SeqId id : ids) {
            const uint32_t size = choose(4);
            const auto n = static_cast<int32_t>(size < 2 ? 1 : 1 + choose(static_cast<uint32_t>(size == 2 ? std::min(most, 40) : most)));
            const ModelSeq& seq = model_[id];
            std::vector<Token> list;
            const int32_t rotary = seq.length() == 0 ? 0 : seq.log.back().rotary + 1;
            const bool image = choose(8) == 0;
            for (int32_t i = 0; i < n; ++i)
                list.push_back({static_cast<int32_t>(tag_ + static_cast<uint64_t>(i)) % 1000, image ? rotary : rotary + i, image ? 7U : 0U});
            tokens.push_back(std::move(list));
        }
        for (size_t i = 0; i < ids.size(); ++i) appends.push_back({ids[i], tokens[i]});
        const bool fits = surely_fits(appends);
        Step step;
        const auto begun = cache_->begin(appends, step);
        if (!begun) {
            ++counts_.full;
            if (fits) return say("full, though all would have fit");
            if (begun.error().kind != ErrorKind::Full) return say("not full but: " + begun.error().message);
            return;
        }
        std::vector<ModelSeq> grown;
        for (size_t i = 0; i < ids.size(); ++i) {
            busy_[ids[i]] = true;
            ModelSeq seq = model_[ids[i]];
            for (const Token& token : tokens[i]) {
                write_rows(step.view(), step.view().groups[0].seqs[i].first_token + seq.length() - model_[ids[i]].length(), ++tag_);
                seq.log.push_back(token);
                for (auto& rows : seq.groups) rows.push_back({ModelRow::State::Held, tag_, 0});
            }
            grown.push_back(std::move(seq));
        }
        // Others go on meanwhile.
        for (uint32_t n = choose(4); n > 0 && wrong_.empty() && next_ < choices_.size(); --n) {
            ++counts_.inner;
            operate(depth + 1);
            check("operation during a step");
        }
        if (!wrong_.empty()) return;
        std::vector<const ModelSeq*> seqs;
        for (const ModelSeq& seq : grown) seqs.push_back(&seq);
        if (auto wrong = compare_view(step.view(), seqs); !wrong.empty()) return say(wrong);
        finish(step, ids, grown, tokens);
    }

    void finish(Step& step, const std::vector<SeqId>& ids, std::vector<ModelSeq>& grown, const std::vector<std::vector<Token>>& tokens) {
        const uint32_t end = choose(8);
        std::vector<int32_t> kept;
        if (end == 0) {
            ++counts_.abandoned;
            cache_->abandon(step);
        } else if (end < 4) {
            for (const auto& list : tokens) kept.push_back(static_cast<int32_t>(choose(static_cast<uint32_t>(list.size()) + 1)));
            cache_->commit(step, kept);
        } else {
            cache_->commit(step);
        }
        for (size_t i = 0; i < ids.size(); ++i) {
            busy_.erase(ids[i]);
            if (end == 0) continue;
            ModelSeq& seq = model_[ids[i]];
            const int32_t before = seq.length();
            const bool pure = seq.pure == before;
            seq = std::move(grown[i]);
            if (!kept.empty()) model_trim(seq, before + kept[i]);
            if (pure) seq.pure = seq.length();
            counts_.tokens += seq.length() - before;
            model_let_go(spec_, seq);
        }
    }

    void say(const std::string& wrong) {
        if (wrong_.empty()) wrong_ = wrong;
    }

    const std::vector<uint32_t>& choices_;
    size_t next_ = 0;
    CacheSpec spec_;
    std::unique_ptr<Cache> cache_;
    std::map<SeqId, ModelSeq> model_;
    std::map<SeqId, bool> busy_;
    uint64_t tag_ = 0;
    uint32_t op_ = 0;
    std::string wrong_;
    ScenarioCounts counts_;
};

std::string run_scenario(const Scenario& scenario, const std::vector<uint32_t>& choices, ScenarioCounts* counts) {
    return Runner(scenario, choices).run(counts);
}

}  // namespace cellar::kv
