#pragma once
// The immutable picture that one step reads and writes. Kernels see this and nothing else of the cache.
//
// Thread rule: built by the thread that owns the cache, then read by any number of kernel threads until the step commits.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/run.h"
#include "kv/spec.h"

namespace cellar::kv {

// Where one row of a group's cells lies: [plane][kv_head][cell][row_bytes].
struct RowTable {
    std::byte* base = nullptr;
    size_t plane_stride = 0;  // bytes
    size_t head_stride = 0;   // bytes
    size_t row_bytes = 0;
    RowFormat format = RowFormat::F16;
    int heads = 0;
    int width = 0;

    [[nodiscard]] std::byte* at(int plane, int head, int32_t cell) const {
        return base + static_cast<size_t>(plane) * plane_stride + static_cast<size_t>(head) * head_stride + static_cast<size_t>(cell) * row_bytes;
    }
};

// One sequence's part of the step: tokens [first_token, first_token + tokens) of the batch, and every run they may read,
// in position order, the runs that this step writes included. Runs do not overlap; positions between them are removed.
struct SeqView {
    int32_t first_token = 0;
    int32_t tokens = 0;
    int32_t first_pos = 0;  // position of the first of these tokens; the others follow without a gap
    std::span<const Run> runs;
};

struct GroupView {
    Keep keep;
    std::span<const RowTable> rows;        // as GroupSpec::rows
    std::span<const SeqView> seqs;         // every token of the batch belongs to exactly one
    std::span<const Visible> visible;      // [tokens]
    std::span<const int32_t> write_cells;  // [tokens]; the cell that the token's rows go to
};

struct View {
    int32_t tokens = 0;
    std::span<const int32_t> pos;     // [tokens] ordinal in the sequence
    std::span<const int32_t> rotary;  // [tokens] rotary position
    std::span<const GroupView> groups;
};

}  // namespace cellar::kv
