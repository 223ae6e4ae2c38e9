#pragma once
// How the model of cache_model.h works. For one file of a program: a test or a fuzzer.
#include <algorithm>

#include "kv/cache_model_compare_inl.h"
#include "kv/cache_model_rows_inl.h"

namespace cellar::kv {

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

}  // namespace cellar::kv
