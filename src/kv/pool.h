#pragma once
// Which blocks are held, by how many, and how far their cells were handed out.
//
// Invariants
//  1. refs(b) is the number of holders of b; b is free exactly when it is 0.
//  2. 0 <= fill(b) <= block_cells(); no holder has a cell of b at or behind fill(b); fill of a free block is 0.
#include <cstdint>

#include "base/result.h"
#include "kv/mapping.h"

namespace cellar::kv {

class Pool {
  public:
    // Requires: blocks > 0, block_cells a power of two.
    static Result<Pool> make(int32_t blocks, int32_t block_cells);
    static size_t table_bytes(int32_t blocks);

    [[nodiscard]] int32_t blocks() const { return blocks_; }
    [[nodiscard]] int32_t block_cells() const { return block_cells_; }
    [[nodiscard]] int32_t used() const { return used_; }
    [[nodiscard]] int32_t free() const { return blocks_ - used_; }

    // Takes a free block: `wish` if it is free (so that a run goes on), else the lowest. -1 when none is left.
    int32_t take(int32_t wish);
    void hold(int32_t b);     // one more holder of a held block
    bool release(int32_t b);  // one fewer; true when it became free

    [[nodiscard]] int32_t refs(int32_t b) const { return entry(b).refs; }
    [[nodiscard]] int32_t fill(int32_t b) const { return entry(b).fill; }
    void set_fill(int32_t b, int32_t fill);
    [[nodiscard]] bool is_free(int32_t b) const;

    // A block is touched from its first use until its pages went back.
    [[nodiscard]] bool touched(int32_t b) const { return entry(b).touched != 0; }
    [[nodiscard]] int32_t touched_blocks() const { return touched_; }
    void set_untouched(int32_t b);

    // The lowest free block from `from` on, or blocks().
    [[nodiscard]] int32_t next_free(int32_t from) const;
    // Exchanges the entries of two blocks, one of which is free: what was held as `from` is held as `to`.
    void move(int32_t from, int32_t to);

  private:
    struct Entry {
        int32_t refs;
        int16_t fill;
        int16_t touched;
    };
    [[nodiscard]] const Entry& entry(int32_t b) const;
    Entry& entry(int32_t b);
    void set_free(int32_t b, bool free);

    Mapping entries_;    // Entry [blocks]
    Mapping used_bits_;  // uint64_t [blocks / 64]; a set bit is a held block, so that fresh pages need no touch
    int32_t blocks_ = 0;
    int32_t block_cells_ = 0;
    int32_t used_ = 0;
    int32_t touched_ = 0;
    int32_t lowest_ = 0;  // no free block below this one
};

}  // namespace cellar::kv
