#pragma once
// Plain rows for a sequence whose runs are turned: they are written anew by whoever owns kernels.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kv/holding.h"
#include "kv/run.h"
#include "kv/seq.h"

namespace cellar::kv {

class Cache;

//   Bake bake;
//   cache.begin_bake(id, bake);            // Full before the first row moves, if there is no room for all of them
//   ... carry out bake.moves(), in any order: no target is a source ...
//   cache.commit_bake(bake);               // now the sequence reads the new rows
// Destroyed without commit, the sequence is as it was. Must not outlive its cache.
class Bake {
  public:
    Bake() = default;
    ~Bake();
    Bake(const Bake&) = delete;
    Bake& operator=(const Bake&) = delete;

    [[nodiscard]] bool is_open() const { return cache_ != nullptr; }
    [[nodiscard]] std::span<const TurnedMove> moves() const { return moves_; }

  private:
    friend class Cache;

    Cache* cache_ = nullptr;
    SeqId id_{};
    std::unique_ptr<Holding> fresh_;  // the new cells, until commit
    std::vector<TurnedMove> moves_;
};

}  // namespace cellar::kv
