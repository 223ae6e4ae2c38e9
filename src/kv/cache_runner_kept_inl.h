#pragma once
// Kept prefixes of cache_runner_inl.h, and what an index may say of them.
#include <map>
#include <string>
#include <vector>

#include "kv/cache_runner_world_inl.h"

namespace cellar::kv {

// What an index may say: what was kept is found, and must be found if nothing was evicted since. It knows no edges.
class KeptModel {
  public:
    explicit KeptModel(const CacheSpec& spec) : spec_(spec) {}

    // Marked: with what windows and chunks need at the end.
    void keep(std::span<const Token> tokens, bool marked) {
        ever_.push_back({{tokens.begin(), tokens.end()}, marked});
        since_.push_back(ever_.back());
    }
    void evicted() { since_.clear(); }

    // Empty where `matched` of these tokens may be found, and `length` of them, n at most, reached.
    [[nodiscard]] std::string compare(std::span<const Token> tokens, int32_t n, int32_t matched, int32_t length) const {
        int32_t most = 0;
        bool can = length == 0;
        for (const Kept& kept : ever_) {
            const int32_t common = common_part(kept, tokens);
            most = std::max(most, common);
            can = can || (common >= length && reach(kept, length) == length);
        }
        if (matched > most) return fmt::format("{} tokens match, but at most {} were kept", matched, most);
        if (!can) return fmt::format("{} tokens are reached, for which nothing was kept", length);
        for (const Kept& kept : since_) {
            const int32_t common = common_part(kept, tokens);
            if (matched < common) return fmt::format("{} tokens match, but {} were kept", matched, common);
            if (std::min(common, n) <= length) continue;
            if (const int32_t more = reach(kept, std::min(common, n)); more > length)
                return fmt::format("{} tokens are reached, not {}", length, more);
        }
        return {};
    }

  private:
    struct Kept {
        std::vector<Token> tokens;
        bool marked = false;
    };
    static int32_t common_part(const Kept& kept, std::span<const Token> tokens) {
        return static_cast<int32_t>(std::mismatch(kept.tokens.begin(), kept.tokens.end(), tokens.begin(), tokens.end()).first - kept.tokens.begin());
    }
    // The longest length of at most n that this alone serves.
    [[nodiscard]] int32_t reach(const Kept& kept, int32_t n) const {
        ModelSeq seq = model_fresh(spec_, kept.tokens);
        for (size_t g = 0; g < seq.groups.size() && !kept.marked; ++g) {
            if (spec_.groups[g].keep.kind == Keep::Kind::All) continue;
            for (ModelRow& row : seq.groups[g]) row.state = ModelRow::State::LetGo;
        }
        return model_restorable(spec_, seq, n);
    }

    const CacheSpec& spec_;
    std::vector<Kept> ever_;
    std::vector<Kept> since_;
};

class KeptPrefixes {
  public:
    explicit KeptPrefixes(World& world) : world_(world) {}

    void keep(SeqId id, int32_t n, uint32_t c) {
        ++world_.counts.kept;
        const ModelSeq& seq = world_.model[id];
        const int32_t kept = std::min(n, seq.pure);
        const int32_t reached = world_.index->keep(root(c), id, n);
        if (reached < 0 || reached > kept) return world_.say(fmt::format("keep({}) of {} pure tokens reaches {}", n, seq.pure, reached));
        const std::span<const Token> tokens(seq.log.data(), static_cast<size_t>(kept));
        const bool marked = model_restorable(world_.spec, seq, kept) == kept;
        kept_.try_emplace(root(c), world_.spec).first->second.keep(tokens, marked);
        if (marked && reached != kept) return world_.say("keep reaches less than it was given");
        std::vector<Token> asked(tokens.begin(), tokens.begin() + reached);
        asked.push_back({12345, 0, 9});
        if (world_.index->find(root(c), asked).length < reached)
            world_.say(fmt::format("keep says {}, but a hit reaches {}", reached, world_.index->find(root(c), asked).length));
    }

    void ask(SeqId id, int32_t n, const Op& op) {
        std::vector<Token> tokens(world_.model[id].log.begin(), world_.model[id].log.begin() + n);
        tokens.push_back({static_cast<int32_t>(op.a % 3), static_cast<int32_t>(op.c % 2), 0});
        if (op.kind == OpKind::Pin) return world_.index->pin(root(op.c), tokens, now_ + op.b % 8);
        const bool room = world_.room();
        const size_t ledger = world_.cache->ledger_bytes();
        auto hit = world_.index->take(root(op.c), tokens);
        if (hit.has_value() != room) return world_.say("take");
        // Without room for one more, now and then one goes for it.
        if (!hit && op.a % 4 != 0) hit = world_.index->take_into(root(op.c), tokens, world_.pick(op.c / 4));
        if (!hit) return;
        if (world_.cache->ledger_bytes() > ledger) return world_.say("a hit took memory");
        const auto kept = kept_.try_emplace(root(op.c), world_.spec).first;
        world_.say(kept->second.compare(tokens, n, hit->matched, hit->length));
        ++world_.counts.hits;
        world_.counts.reused += hit->length;
        world_.model[hit->id] = model_fresh(world_.spec, std::span<const Token>(tokens).first(static_cast<size_t>(hit->length)));
    }

    void evict_now(const Op& op) {
        const size_t ledger = world_.cache->ledger_bytes();
        now_ += 1;
        const size_t sank = evict(op.a * size_t{1024});
        if (ledger - world_.cache->ledger_bytes() != sank) world_.say("evict counts otherwise");
    }
    size_t evict(size_t bytes) {
        const size_t sank = world_.index->evict(bytes, now_);
        world_.counts.evicted += sank > 0 ? 1 : 0;
        for (auto& [root, kept] : kept_) kept.evicted();
        return sank;
    }

    void clear() {
        world_.index->clear();
        kept_.clear();
    }

  private:
    static std::string root(uint32_t c) { return c % 4 == 0 ? "other" : "root"; }

    World& world_;
    std::map<std::string, KeptModel> kept_;
    double now_ = 0;
};

}  // namespace cellar::kv
