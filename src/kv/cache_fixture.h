#pragma once
// A cache beside its model, for tests that tell a story: every step writes rows, is compared and verified.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kv/cache_model.h"
#include "kv/verify.h"

namespace cellar::kv {

// Text that counts from `first`.
inline std::vector<Token> text(int32_t first, int32_t n) {
    std::vector<Token> tokens;
    for (int32_t i = first; i < first + n; ++i) tokens.push_back({i * 7 % 1000, i, 0});
    return tokens;
}

class CacheFixture {
  public:
    CacheFixture(const std::vector<Keep>& keeps, int64_t context, int64_t cells) {
        CacheLimits limits;
        limits.context = context;
        limits.cells = cells;
        limits.poison = true;
        limits.max_step_tokens = static_cast<int>(context);
        auto made = Cache::make(model_spec(keeps), limits);
        CHECK(made.has_value());
        cache_ = std::move(*made);
    }

    Cache& cache() { return *cache_; }
    [[nodiscard]] std::string verify() const { return kv::verify(*cache_); }

    SeqId open() {
        const auto id = cache_->open();
        CHECK(id.has_value());
        return *id;
    }
    SeqId fork(SeqId id, int32_t at) {
        const auto fork = cache_->fork(id, at);
        CHECK(fork.has_value());
        CHECK_EQ(verify(), "");
        return *fork;
    }

    // Rows follow from the token and its position, so equal logs hold equal bytes.
    void grow(SeqId id, int32_t n) { grow_together({{id, n}}); }
    void grow_with(SeqId id, const std::vector<Token>& tokens) { step({{id, tokens}}); }
    void grow_together(const std::vector<std::pair<SeqId, int32_t>>& parts) {
        std::vector<std::pair<SeqId, std::vector<Token>>> lists;
        for (const auto& [id, n] : parts) lists.emplace_back(id, text(cache_->length(id), n));
        step(lists);
    }

    [[nodiscard]] int32_t held(SeqId id, int group) const {
        int32_t n = 0;
        for (const Run& run : cache_->runs(id, group)) n += run.len;
        return n;
    }
    // The most cells of group 0 that a sequence of the last step held before its window slid.
    [[nodiscard]] int32_t most_held() const { return most_held_; }

    // All bytes of all rows that the sequence holds, in position order.
    [[nodiscard]] std::vector<std::byte> bytes(SeqId id) const {
        std::vector<std::byte> out;
        for (size_t g = 0; g < cache_->spec().groups.size(); ++g) {
            for (const RowTable& row : cache_->rows(static_cast<int>(g))) {
                for (int plane = 0; plane < cache_->spec().groups[g].planes; ++plane) {
                    for (int head = 0; head < row.heads; ++head) {
                        for (const Run& run : cache_->runs(id, static_cast<int>(g))) {
                            const std::byte* first = row.at(plane, head, run.cell);
                            out.insert(out.end(), first, first + static_cast<size_t>(run.len) * row.row_bytes);
                        }
                    }
                }
            }
        }
        return out;
    }

  private:
    void step(const std::vector<std::pair<SeqId, std::vector<Token>>>& parts) {
        std::vector<Append> appends;
        for (const auto& [id, tokens] : parts) appends.push_back({id, tokens});
        Step step;
        const auto begun = cache_->begin(appends, step);
        if (!begun) check_failed(__FILE__, __LINE__, "begin", begun.error().message);
        int32_t t = 0;
        most_held_ = 0;
        for (size_t i = 0; i < parts.size(); ++i) {
            int32_t n = 0;
            for (const Run& run : step.view().groups[0].seqs[i].runs) n += run.len;
            most_held_ = std::max(most_held_, n);
            for (const Token& token : parts[i].second) {
                write_rows(step.view(), t,
                           static_cast<uint64_t>(token.id) * 100'000 + static_cast<uint64_t>(step.view().pos[static_cast<size_t>(t)]));
                ++t;
            }
        }
        for (const GroupView& group : step.view().groups) check_reads(group, step.view());
        cache_->commit(step);
        CHECK_EQ(verify(), "");
    }

    // Whatever a query sees lies in a run, unless it was removed; nothing was removed in these stories below the first gap.
    static void check_reads(const GroupView& group, const View& view) {
        for (const SeqView& seq : group.seqs) {
            for (int32_t t = seq.first_token; t < seq.first_token + seq.tokens; ++t) {
                const Visible seen = group.visible[static_cast<size_t>(t)];
                CHECK_EQ(seen.recent.hi, view.pos[static_cast<size_t>(t)] + 1);
                const bool self = std::any_of(seq.runs.begin(), seq.runs.end(), [&](const Run& run) {
                    const int32_t pos = seen.recent.hi - 1;
                    return run.pos <= pos && pos < run.end() && run.cell + pos - run.pos == group.write_cells[static_cast<size_t>(t)];
                });
                CHECK(self);
            }
        }
    }

    std::unique_ptr<Cache> cache_;
    int32_t most_held_ = 0;
};

}  // namespace cellar::kv
