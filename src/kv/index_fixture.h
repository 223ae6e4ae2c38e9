#pragma once
// Conversations as tokens, and an index that keeps them, with rows whose bytes follow from the tokens before them.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "kv/cache_fixture.h"
#include "kv/index.h"

namespace cellar::kv {

using Tokens = std::vector<Token>;

inline Tokens words(std::initializer_list<int> ids) {
    Tokens tokens;
    for (const int id : ids) tokens.push_back({id, static_cast<int32_t>(tokens.size()), 0});
    return tokens;
}

inline Tokens join(Tokens a, const Tokens& b) {
    for (Token token : b) {
        token.rotary = static_cast<int32_t>(a.size());
        a.push_back(token);
    }
    return a;
}

inline Tokens repeat(int id, int n) {
    Tokens tokens;
    for (int i = 0; i < n; ++i) tokens.push_back({id, i, 0});
    return tokens;
}

// Rows as a model would compute them: they depend on the whole prefix, so equal prefixes have equal bytes and no others do.
class Conversations {
  public:
    Conversations(const std::vector<Keep>& keeps, int64_t context, int64_t cells, int max_seqs = 8) {
        CacheLimits limits;
        limits.context = context;
        limits.cells = cells;
        limits.max_seqs = max_seqs;
        limits.poison = true;
        limits.max_step_tokens = static_cast<int>(context);
        auto made = Cache::make(model_spec(keeps), limits);
        CHECK(made.has_value());
        cache = std::move(*made);
        index = std::make_unique<Index>(*cache);
    }

    static std::vector<uint64_t> tags(const Tokens& tokens) {
        std::vector<uint64_t> tags;
        uint64_t tag = 1469598103934665603U;
        for (const Token& token : tokens) {
            for (const uint64_t part : {static_cast<uint64_t>(token.id), static_cast<uint64_t>(token.rotary), token.media})
                tag = (tag ^ part) * 1099511628211U;
            tags.push_back(tag);
        }
        return tags;
    }

    // Appends what is missing of the tokens; false when the cache is full.
    bool prefill(SeqId id, const Tokens& tokens, int32_t to = INT32_MAX) {
        const int32_t from = cache->length(id);
        const int32_t end = std::min(to, static_cast<int32_t>(tokens.size()));
        if (from >= end) return true;
        const Append append{id, std::span(tokens).subspan(static_cast<size_t>(from), static_cast<size_t>(end - from))};
        Step step;
        if (!cache->begin({&append, 1}, step)) return false;
        const auto all = tags(tokens);
        for (int32_t i = 0; i < end - from; ++i) write_rows(step.view(), i, all[static_cast<size_t>(from + i)]);
        cache->commit(step);
        check();
        return true;
    }

    void check() const {
        CHECK_EQ(verify(*cache), "");
        CHECK_EQ(verify(*index), "");
    }

    // The sequence holds, of its tokens, exactly what a fresh run would hold.
    void check_rows(SeqId id, const Tokens& tokens) const {
        const auto all = tags(tokens);
        ModelSeq seq;
        const auto n = static_cast<size_t>(cache->length(id));
        seq.log.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n));
        seq.pure = static_cast<int32_t>(n);
        for (size_t g = 0; g < cache->spec().groups.size(); ++g) {
            seq.groups.emplace_back();
            for (size_t p = 0; p < n; ++p) {
                seq.groups.back().push_back(
                    {sees(cache->spec().groups[g].keep, seq.pure, static_cast<int32_t>(p)) ? ModelRow::State::Held : ModelRow::State::LetGo, all[p],
                     0});
            }
        }
        ASSERT_EQ(compare_seq(*cache, id, seq), "");
    }

    // One request: takes what is kept, computes the rest, keeps the state one before the end, closes. Returns what was reused.
    int32_t request(const std::string& root, const Tokens& tokens) {
        auto hit = index->take(root, tokens);
        CHECK(hit.has_value());
        check();
        check_rows(hit->id, tokens);
        const auto n = static_cast<int32_t>(tokens.size());
        while (!prefill(hit->id, tokens, n - 1)) CHECK_GT(index->evict(1, 0), 0U);
        index->keep(root, hit->id, n - 1);
        check();
        while (!prefill(hit->id, tokens)) CHECK_GT(index->evict(1, 0), 0U);
        index->keep(root, hit->id, n);
        check();
        cache->close(hit->id);
        check();
        return hit->length;
    }

    std::unique_ptr<Cache> cache;
    std::unique_ptr<Index> index;
};

}  // namespace cellar::kv
