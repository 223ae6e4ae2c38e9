#pragma once
// A pool with the arena behind it and the ledger that its blocks are booked in.
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kv/arena.h"
#include "kv/pool.h"

namespace cellar::kv {

// Bytes of blocks handed out and of tables; what may not grow beyond `limit` (0: no limit).
struct Budget {
    size_t limit = 0;
    size_t used = 0;
    size_t tables = 0;   // of these, tables
    size_t touched = 0;  // bytes of blocks whose pages have not gone back since they were last used
};

struct StoreShape {
    int planes = 0;
    std::vector<RowSpec> rows;
    int32_t blocks = 0;
    int32_t block_cells = 0;
    bool poison = false;  // cells that no run sees hold NaN

    [[nodiscard]] size_t block_bytes() const;
};

class Store {
  public:
    // Books its tables in the budget, which must outlive it.
    static Result<std::unique_ptr<Store>> make(const StoreShape& shape, Budget& budget);

    [[nodiscard]] const Pool& pool() const { return pool_; }
    Pool& pool() { return pool_; }
    Arena& arena() { return arena_; }
    [[nodiscard]] const Arena& arena() const { return arena_; }
    [[nodiscard]] size_t block_bytes() const { return block_bytes_; }
    [[nodiscard]] int32_t block_cells() const { return pool_.block_cells(); }

    // A free block with one holder, or -1: no block left, or the budget does not allow one.
    int32_t take(int32_t wish);
    void release(int32_t b);
    // Why the last take() answered -1.
    [[nodiscard]] bool refused_by_budget() const { return refused_by_budget_; }

    // Cells became part of, or left, one run list. Only kept account of when poison is on.
    void see(int32_t cell, int32_t len);
    void unsee(int32_t cell, int32_t len);
    [[nodiscard]] bool poisons() const { return !seen_.empty(); }
    [[nodiscard]] int32_t seen(int32_t cell) const { return seen_[static_cast<size_t>(cell)]; }

    // Moves a block's rows to a free block, which is held in its place from now on.
    void move(int32_t from, int32_t to);
    // Pages of free blocks go back to the operating system.
    void release_pages();

  private:
    Pool pool_;
    Arena arena_;
    Budget* budget_ = nullptr;
    size_t block_bytes_ = 0;
    bool refused_by_budget_ = false;
    std::vector<uint16_t> seen_;  // [cells] run lists that see it; empty without poison
};

}  // namespace cellar::kv
