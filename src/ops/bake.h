#pragma once
// Rows into other cells, turned on the way: what a bake asks for (kv/moves.h).
#include <span>

#include "base/thread_team.h"
#include "kv/view.h"
#include "ops/types.h"

namespace cellar::ops {

// One row of one plane. Every row of a move is decoded, its first rope.dims values of each head are rotated by move.turn, and it is encoded
// anew in the same format. With rope.dims 0 rows carry no rotary position, and bytes are copied.
//
// Rotations are those of `rope` without its magnitude, which is in the rows already. f32, f16 and bf16 are rounded once more by this, q8_0 also
// gets new scales: docs/kv.md says what that costs.
struct BakeArgs {
    const kv::RowTable* rows = nullptr;
    int plane = 0;
    RopeSpec rope;
    RopePairing pairing = RopePairing::Halves;
    std::span<const kv::TurnedMove> moves;  // of the group that the row belongs to; no target is a source
};

}  // namespace cellar::ops
