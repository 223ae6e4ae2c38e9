#pragma once
// Runs: how a sequence names the cells that hold its rows. Moves: where rows go when they get other cells.
#include <cstdint>

namespace cellar::kv {

// Neighbouring cells holding neighbouring positions: position pos + i lies in cell + i, for 0 <= i < len.
// `turn` is added to the rotary position that the rows were written with; attention applies it by turning the query back.
struct Run {
    int32_t pos = 0;
    int32_t cell = 0;
    int32_t len = 0;
    int32_t turn = 0;

    [[nodiscard]] int32_t end() const { return pos + len; }
    friend bool operator==(const Run&, const Run&) = default;
};

// Half-open range of positions.
struct Interval {
    int32_t lo = 0;
    int32_t hi = 0;

    [[nodiscard]] int32_t length() const { return hi > lo ? hi - lo : 0; }
    friend bool operator==(const Interval&, const Interval&) = default;
};

// What one query may see: at most two intervals, in position order, disjoint. `sinks` is empty unless the group keeps sinks.
struct Visible {
    Interval sinks;
    Interval recent;

    friend bool operator==(const Visible&, const Visible&) = default;
};

// Where rows went: `len` cells from cell `from` to cell `to`, verbatim, in all planes of the group.
struct Move {
    int group = 0;
    int32_t from = 0;
    int32_t to = 0;
    int32_t len = 0;
    friend bool operator==(const Move&, const Move&) = default;
};

// The rows of `len` cells from cell `from`, rotated by `turn` where they carry a rotary position, belong at cell `to`.
struct TurnedMove {
    int group = 0;
    int32_t from = 0;
    int32_t to = 0;
    int32_t len = 0;
    int32_t turn = 0;
    friend bool operator==(const TurnedMove&, const TurnedMove&) = default;
};

}  // namespace cellar::kv
