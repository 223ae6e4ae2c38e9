#pragma once
// How work on rows of activations is cut into pieces for a team.
#include <algorithm>
#include <cstdint>

#include "base/thread_team.h"

namespace cellar::ops {

// Below this many elements a team costs more than it saves; a piece has about as many as a near cache holds.
inline constexpr int64_t kAlone = 16384;
inline constexpr int64_t kPieceElements = 8192;

// Calls body(first, count, member) so that all rows in [0, rows) of `cols` elements are covered once, by the caller alone where that
// pays; it is member 0.
template <class Body>
void for_row_pieces(int64_t rows, int64_t cols, ThreadTeam& team, Body&& body) {
    if (rows < 2 || rows * cols < kAlone || team.size() == 1) return body(int64_t{0}, rows, 0);
    const int64_t each = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(cols, 1));
    team.run((rows + each - 1) / each, [&](int64_t piece, int member) { body(piece * each, std::min(each, rows - piece * each), member); });
}

}  // namespace cellar::ops
