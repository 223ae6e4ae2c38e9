#pragma once
// Steps of cache_runner_inl.h: begun, left open, committed whole or in part, abandoned; their views are compared with the model.
#include <memory>
#include <vector>

#include "kv/cache_runner_world_inl.h"

namespace cellar::kv {

class OpenSteps {
  public:
    explicit OpenSteps(World& world) : world_(world) {}
    [[nodiscard]] bool empty() const { return steps_.empty(); }

    bool begin(SeqId first, int32_t n, uint32_t which) {
        if (steps_.size() >= 3) return false;
        auto open = std::make_unique<OpenStep>();
        open->ids.push_back(first);
        for (const auto& [id, seq] : world_.model)
            if (id != first && !world_.busy.contains(id) && which % 8 == 1) open->ids.push_back(id);
        if (which % 4 == 1) std::reverse(open->ids.begin(), open->ids.end());
        const int32_t most = world_.cache->limits().max_step_tokens / static_cast<int32_t>(open->ids.size());
        std::vector<Append> appends;
        for (const SeqId id : open->ids) open->tokens.push_back(some_tokens(world_.model[id], id == first ? std::min(n, most) : 1, which));
        for (size_t i = 0; i < open->ids.size(); ++i) appends.push_back({open->ids[i], open->tokens[i]});
        const bool fits = surely_fits(appends);
        const auto begun = world_.cache->begin(appends, open->step);
        if (!begun) {
            ++world_.counts.full;
            if (fits) world_.say("full, though all would have fit");
            if (begun.error().kind != ErrorKind::Full) world_.say("not full but: " + begun.error().message);
            if (world_.reclaim && within_context(appends) && world_.reclaim(SIZE_MAX) > 0) world_.say("full, though kept prefixes may go");
            return false;
        }
        for (size_t i = 0; i < open->ids.size(); ++i) {
            world_.busy.insert(open->ids[i]);
            ModelSeq seq = world_.model[open->ids[i]];
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
        if (auto wrong = compare_view(open.step.view(), seqs); !wrong.empty()) world_.say(wrong);
        world_.cache->commit(open.step, kept);
        for (size_t i = 0; i < open.ids.size(); ++i) {
            world_.busy.erase(open.ids[i]);
            ModelSeq& seq = world_.model[open.ids[i]];
            const int32_t before = seq.length();
            const bool pure = seq.pure == before;
            seq = std::move(open.grown[i]);
            if (!kept.empty()) model_trim(seq, before + kept[i]);
            if (pure) seq.pure = seq.length();
            world_.counts.tokens += seq.length() - before;
            model_let_go(world_.spec, seq);
        }
        steps_.erase(steps_.begin() + static_cast<ptrdiff_t>(at));
    }

    void abandon(const Op& op) {
        if (steps_.empty()) return;
        ++world_.counts.abandoned;
        const size_t at = op.a % steps_.size();
        world_.cache->abandon(steps_[at]->step);
        for (const SeqId id : steps_[at]->ids) world_.busy.erase(id);
        steps_.erase(steps_.begin() + static_cast<ptrdiff_t>(at));
    }

    void commit_last() { commit_at(steps_.size() - 1, {}); }

  private:
    struct OpenStep {
        Step step;
        std::vector<SeqId> ids;
        std::vector<std::vector<Token>> tokens;
        std::vector<ModelSeq> grown;
    };

    [[nodiscard]] bool within_context(const std::vector<Append>& appends) const {
        return std::all_of(appends.begin(), appends.end(), [&](const Append& append) {
            return world_.cache->length(append.id) + static_cast<int64_t>(append.tokens.size()) <= world_.cache->limits().context;
        });
    }

    // Whether each append opening as many blocks as it can find use for would still fit.
    [[nodiscard]] bool surely_fits(const std::vector<Append>& appends) const {
        const CacheStats stats = world_.cache->stats();
        const auto blocks = [&](int64_t per_block) {
            int64_t n = 0;
            for (const Append& append : appends) n += (static_cast<int64_t>(append.tokens.size()) + per_block - 1) / per_block;
            return n;
        };
        size_t bytes = stats.ledger_bytes + static_cast<size_t>(blocks(256)) * stats.log.block_bytes;
        bool fits = stats.log.blocks - stats.log.blocks_used >= blocks(256);
        for (const GroupStats& g : stats.groups) {
            fits = fits && g.blocks - g.blocks_used >= blocks(world_.cache->limits().block);
            bytes += static_cast<size_t>(blocks(world_.cache->limits().block)) * g.block_bytes;
        }
        fits = fits && within_context(appends);
        return fits && (world_.cache->limits().budget_bytes == 0 || bytes <= world_.cache->limits().budget_bytes);
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

    World& world_;
    std::vector<std::unique_ptr<OpenStep>> steps_;
    uint64_t salt_ = 0;
};

}  // namespace cellar::kv
