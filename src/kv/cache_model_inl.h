#pragma once
// How the model of cache_model.h works. For one file of a program: a test or a fuzzer.
#include <algorithm>
#include <cstring>
#include <map>
#include <type_traits>

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
    size_t at = 0;
    for (; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        const uint64_t word = row_word(tag, group, row, plane, head, at);
        f(at, &word, std::integral_constant<size_t, sizeof word>());  // a size that the compiler knows: this is most of the time of a long run
    }
    if (at == bytes) return;
    const uint64_t word = row_word(tag, group, row, plane, head, at);
    f(at, &word, bytes - at);
}

std::vector<std::byte> row_bytes_of(uint64_t tag, size_t group, size_t row, int plane, int head, size_t bytes) {
    std::vector<std::byte> out(bytes);
    for_row_words(tag, group, row, plane, head, bytes, [&](size_t at, const void* word, auto n) { std::memcpy(&out[at], word, n); });
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
            for_row_words(tag, g, r, plane, head, rows[r].row_bytes, [&](size_t at, const void* word, auto n) { std::memcpy(row + at, word, n); });
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
                          [&](size_t at, const void* word, auto n) { equal = equal && std::memcmp(row + at, word, n) == 0; });
        });
    }
    return equal;
}

uint64_t chain_next(uint64_t before, const Token& token) {
    uint64_t x = before * 0x9e3779b97f4a7c15U + static_cast<uint32_t>(token.id) + (static_cast<uint64_t>(static_cast<uint32_t>(token.rotary)) << 20) +
                 token.media * 0xbf58476d1ce4e5b9U + 1;
    x = (x ^ (x >> 29)) * 0x94d049bb133111ebU;
    return x ^ (x >> 32);
}

void model_append(ModelSeq& seq, const Token& token, uint64_t salt) {
    const uint64_t before = seq.chain.empty() ? 0 : seq.chain.back();
    const uint64_t tag = chain_next(before, token) + salt * 0xd6e8feb86659fd93U;
    seq.log.push_back(token);
    seq.chain.push_back(tag);
    for (auto& rows : seq.groups) rows.push_back({ModelRow::State::Held, tag, 0});
}

ModelSeq model_fresh(const CacheSpec& spec, std::span<const Token> tokens) {
    ModelSeq seq;
    seq.groups.resize(spec.groups.size());
    for (const Token& token : tokens) model_append(seq, token, 0);
    seq.pure = seq.length();
    model_let_go(spec, seq);
    return seq;
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
    seq.chain.resize(static_cast<size_t>(n));
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
    after.chain.erase(after.chain.begin() + range.lo, after.chain.begin() + range.hi);
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

}  // namespace cellar::kv
