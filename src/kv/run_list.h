#pragma once
// The runs that one holder has of one store, and its share in their blocks.
//
// Invariants
//  1. Runs are sorted by position, disjoint and coalesced: neighbours that could be one run are one.
//  2. No two runs share a cell.
//  3. A block is held, once, exactly while some run has a cell in it.
#include <cstdint>
#include <span>
#include <vector>

#include "kv/run.h"

namespace cellar::kv {

class Store;

// What of the runs lies in [positions.lo, positions.hi).
std::vector<Run> runs_within(std::span<const Run> runs, Interval positions);

class RunList {
  public:
    // Room for this many without allocating.
    void reserve(size_t runs, size_t blocks);

    [[nodiscard]] std::span<const Run> runs() const { return runs_; }
    [[nodiscard]] bool empty() const { return runs_.empty(); }

    // Hands out cells for positions [pos, pos + n), behind all others, and writes them to cells [n] unless null. False, with
    // nothing changed, when the store is full. Grows in place where the last run ends at the fill of its block, or nobody else
    // holds that block; else opens a block.
    bool append(Store& store, int32_t pos, int32_t n, int32_t* cells);
    // Takes back the positions from `pos` on. Requires: append handed them out and nobody else has seen them.
    void retract(Store& store, int32_t pos);

    void trim(Store& store, int32_t n);  // drops positions from n on
    void remove(Store& store, Interval positions);
    // Adds `by` to the position and `turn` to the turn of all runs from position `from` on. Requires: no run reaches over `from`.
    void shift(int32_t from, int32_t by, int32_t turn);
    // Adds `by` to the turn of all positions from `from` on, also within a run.
    void turn(int32_t from, int32_t by);
    // Shares what `runs` have of positions [0, n). Requires: empty(); the runs are of this store, in order, and held by somebody.
    void share(Store& store, std::span<const Run> runs, int32_t n);
    void clear(Store& store) { remove(store, {0, INT32_MAX}); }

    // Index of the run that holds pos, or -1.
    [[nodiscard]] int64_t find(int32_t pos) const;
    // Renames blocks after their rows moved: block b is now at moved[b]. Holders of a block must all be told.
    void rename(Store& store, std::span<const int32_t> moved);

    struct Held {
        int32_t block = 0;
        int32_t cells = 0;  // of this holder in it
    };
    [[nodiscard]] std::span<const Held> held() const { return held_; }  // sorted by block

  private:
    void hold(Store& store, int32_t cell, int32_t n);
    void drop(Store& store, int32_t cell, int32_t n);
    void release_empty(Store& store);
    void push(Run run);
    [[nodiscard]] size_t held_at(int32_t block, size_t hint) const;
    [[nodiscard]] int32_t highest_end(int32_t block, int32_t block_cells) const;
    void lower_fill(Store& store);

    std::vector<Run> runs_;
    std::vector<Held> held_;
    size_t hint_ = 0;      // where drop looks first
    int32_t emptied_ = 0;  // entries of held_ without cells
};

}  // namespace cellar::kv
