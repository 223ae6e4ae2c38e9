#pragma once
// The rows of a group's cells, in address space for the worst case whose pages are touched only by use.
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/mapping.h"
#include "kv/spec.h"
#include "kv/view.h"

namespace cellar::kv {

// Layout of each row: [plane][kv_head][cell][row_bytes]. The cells of a head begin on a page.
class Arena {
  public:
    static Result<Arena> make(int planes, std::span<const RowSpec> rows, int32_t cells);

    [[nodiscard]] std::span<const RowTable> rows() const { return rows_; }
    [[nodiscard]] int planes() const { return planes_; }
    [[nodiscard]] int32_t cells() const { return cells_; }

    // Moves rows verbatim, as if through a buffer: the ranges may overlap.
    void copy(int32_t from, int32_t to, int32_t len);
    // Gives the whole pages of these cells back; their rows are lost.
    void discard(int32_t cell, int32_t len);

    // Every byte 0xff: NaN as f32, f16, bf16 and as the scale of q8_0.
    void poison(int32_t cell, int32_t len);
    [[nodiscard]] bool is_poisoned(int32_t cell, int32_t len) const;

  private:
    Mapping memory_;
    std::vector<RowTable> rows_;
    int planes_ = 0;
    int32_t cells_ = 0;
};

}  // namespace cellar::kv
