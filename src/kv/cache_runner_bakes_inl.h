#pragma once
// Bakes of cache_runner_inl.h. Rotation is not the cache's business: here a rotated row is one of another tag.
#include <memory>
#include <vector>

#include "kv/cache_runner_world_inl.h"

namespace cellar::kv {

class OpenBakes {
  public:
    explicit OpenBakes(World& world) : world_(world) {}
    [[nodiscard]] bool empty() const { return bakes_.empty(); }

    void begin(SeqId id) {
        auto open = std::make_unique<OpenBake>();
        open->id = id;
        open->baked = world_.model[id];
        const auto begun = world_.cache->begin_bake(id, open->bake);
        if (!begun) return begun.error().kind == ErrorKind::Full ? void() : world_.say("not full but: " + begun.error().message);
        world_.busy.insert(id);
        for (const TurnedMove& move : open->bake.moves()) {
            const auto g = static_cast<size_t>(move.group);
            for (const Run& run : world_.cache->runs(id, move.group)) {
                for (int32_t cell = std::max(move.from, run.cell); cell < std::min(move.from + move.len, run.cell + run.len); ++cell) {
                    ModelRow& row = open->baked.groups[g][static_cast<size_t>(run.pos + cell - run.cell)];
                    if (row.turn != move.turn) return world_.say("a bake turns otherwise");
                    row = {ModelRow::State::Held, rotated(row.tag, row.turn), 0};
                    write_row(world_.cache->rows(move.group), g, move.to + cell - move.from, row.tag);
                }
            }
        }
        bakes_.push_back(std::move(open));
    }

    void end(const Op& op) {
        if (bakes_.empty()) return;
        const size_t at = op.a % bakes_.size();
        const std::unique_ptr<OpenBake> open = std::move(bakes_[at]);
        bakes_.erase(bakes_.begin() + static_cast<ptrdiff_t>(at));
        world_.busy.erase(open->id);
        if (op.b % 4 == 0) return world_.cache->abandon_bake(open->bake);
        ++world_.counts.bakes;
        world_.cache->commit_bake(open->bake);
        world_.model[open->id] = std::move(open->baked);
        for (size_t g = 0; g < world_.spec.groups.size(); ++g)
            for (const Run& run : world_.cache->runs(open->id, static_cast<int>(g)))
                if (run.turn != 0) world_.say("a baked sequence is turned");
    }

  private:
    struct OpenBake {
        Bake bake;
        SeqId id{};
        ModelSeq baked;
    };

    static uint64_t rotated(uint64_t tag, int32_t turn) { return tag * 1'000'003 + static_cast<uint32_t>(turn); }

    World& world_;
    std::vector<std::unique_ptr<OpenBake>> bakes_;
};

}  // namespace cellar::kv
