// What moves rows: compact and bake.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "kv/cache.h"

namespace cellar::kv {
namespace {

// Blocks of one store in the order in which their readers meet them.
std::vector<int32_t> reading_order(const Store& store, std::span<const RunList* const> lists) {
    std::vector<int32_t> order;
    std::vector<bool> placed(static_cast<size_t>(store.pool().blocks()));
    for (const RunList* list : lists) {
        for (const Run& run : list->runs()) {
            for (int32_t b = run.cell / store.block_cells(); b * store.block_cells() < run.cell + run.len; ++b) {
                if (!placed[static_cast<size_t>(b)]) order.push_back(b);
                placed[static_cast<size_t>(b)] = true;
            }
        }
    }
    return order;
}

// Brings block order[t] to place t, one after another, each move into a free block. Returns where each block is in the end.
class Packing {
  public:
    Packing(Store& store, int group, int64_t& cells_left, std::vector<Move>& moves)
        : store_(store),
          group_(group),
          cells_left_(cells_left),
          moves_(moves),
          place_(static_cast<size_t>(store.pool().blocks())),
          block_(place_.size()) {
        std::iota(place_.begin(), place_.end(), 0);
        std::iota(block_.begin(), block_.end(), 0);
    }

    const std::vector<int32_t>& pack(const std::vector<int32_t>& order) {
        for (int32_t t = 0; t < static_cast<int32_t>(order.size()); ++t) {
            const int32_t wanted = order[static_cast<size_t>(t)];
            if (place(wanted) == t) continue;
            if (!store_.pool().is_free(t)) {
                const int32_t aside = store_.pool().next_free(t + 1);
                // With no free block nothing can move, and no pages could go back.
                if (aside == store_.pool().blocks() || !move(t, aside)) break;
            }
            if (!move(place(wanted), t)) break;
        }
        return place_;
    }

  private:
    [[nodiscard]] int32_t place(int32_t block) const { return place_[static_cast<size_t>(block)]; }

    bool move(int32_t from, int32_t to) {
        const int32_t cells = store_.pool().fill(from);
        if (cells > cells_left_) return false;
        cells_left_ -= cells;
        store_.move(from, to);
        moves_.push_back({group_, from * store_.block_cells(), to * store_.block_cells(), cells});
        // A free block has a name too, which now stands where the moved one was.
        std::swap(block_[static_cast<size_t>(from)], block_[static_cast<size_t>(to)]);
        place_[static_cast<size_t>(block_[static_cast<size_t>(from)])] = from;
        place_[static_cast<size_t>(block_[static_cast<size_t>(to)])] = to;
        return true;
    }

    Store& store_;
    int group_;
    int64_t& cells_left_;
    std::vector<Move>& moves_;
    std::vector<int32_t> place_;  // [blocks] where a block is now
    std::vector<int32_t> block_;  // [blocks] which block is here now
};

}  // namespace

std::vector<Move> Cache::compact(int64_t max_cells) {
    CHECK_EQ(open_steps_, 0);
    CHECK_EQ(open_bakes_, 0);
    std::vector<Move> moves;
    for (size_t g = 0; g < stores_.size(); ++g) {
        std::vector<RunList*> lists;
        for (Seq& s : seqs_) {
            if (s.id != SeqId{}) lists.push_back(&s.groups[g]);
        }
        for (Holding* holding : holdings_) lists.push_back(&holding->groups[g]);
        const size_t before = moves.size();
        Packing packing(*stores_[g], static_cast<int>(g), max_cells, moves);
        const auto& places = packing.pack(reading_order(*stores_[g], lists));
        if (moves.size() == before) continue;
        for (RunList* list : lists) list->rename(*stores_[g], places);
    }
    release_pages();
    // Lists that sequences since closed have grown.
    for (Seq& s : seqs_)
        if (s.id == SeqId{}) s = Seq{};
    return moves;
}

// --- bake

Result<void> Cache::begin_bake(SeqId id, Bake& bake) {
    CHECK(!bake.is_open());
    Seq& s = idle_seq(id);
    bake.fresh_ = std::make_unique<Holding>(*this);
    bake.moves_.clear();
    for (size_t g = 0; g < stores_.size(); ++g) {
        RunList& fresh = bake.fresh_->groups[g];
        for (const Run& run : s.groups[g].runs()) {
            if (run.turn == 0) continue;
            const auto len = static_cast<size_t>(run.len);
            while (!fresh.append(*stores_[g], run.pos, run.len, nullptr)) {
                if (reclaim_ && reclaim_(bytes_of(len)) > 0) continue;
                bake.fresh_.reset();
                return full(len, 1, *stores_[g]);
            }
        }
        for (const Run& run : s.groups[g].runs()) {
            if (run.turn == 0) continue;
            for (auto f = static_cast<size_t>(fresh.find(run.pos)); f < fresh.runs().size() && fresh.runs()[f].pos < run.end(); ++f) {
                const Run& to = fresh.runs()[f];
                const int32_t lo = std::max(run.pos, to.pos);
                const int32_t hi = std::min(run.end(), to.end());
                bake.moves_.push_back({static_cast<int>(g), run.cell + lo - run.pos, to.cell + lo - to.pos, hi - lo, run.turn});
            }
        }
    }
    bake.cache_ = this;
    bake.id_ = id;
    s.baking = true;
    ++open_bakes_;
    return {};
}

void Cache::commit_bake(Bake& bake) {
    CHECK(bake.cache_ == this);
    Seq& s = seq(bake.id_);
    for (size_t g = 0; g < stores_.size(); ++g) {
        std::vector<Run> runs(bake.fresh_->groups[g].runs().begin(), bake.fresh_->groups[g].runs().end());
        std::copy_if(s.groups[g].runs().begin(), s.groups[g].runs().end(), std::back_inserter(runs), [](const Run& run) { return run.turn == 0; });
        std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.pos < b.pos; });
        RunList baked;
        baked.share(*stores_[g], runs, INT32_MAX);
        s.groups[g].clear(*stores_[g]);
        s.groups[g].share(*stores_[g], baked.runs(), INT32_MAX);
        baked.clear(*stores_[g]);
    }
    abandon_bake(bake);
}

void Cache::abandon_bake(Bake& bake) {
    CHECK(bake.cache_ == this);
    bake.fresh_.reset();
    seq(bake.id_).baking = false;
    --open_bakes_;
    bake.cache_ = nullptr;
}

// --- holdings

Holding::Holding(Cache& cache) : groups(cache.stores_.size()), cache_(&cache), slot_(cache.holdings_.size()) {
    cache.holdings_.push_back(this);
}

Holding::~Holding() {
    log.clear(*cache_->log_);
    for (size_t g = 0; g < groups.size(); ++g) groups[g].clear(*cache_->stores_[g]);
    cache_->holdings_[slot_] = cache_->holdings_.back();
    cache_->holdings_[slot_]->slot_ = slot_;
    cache_->holdings_.pop_back();
}

Bake::~Bake() {
    if (cache_ != nullptr) cache_->abandon_bake(*this);
}

}  // namespace cellar::kv
