#pragma once
// How work on rows of activations is cut into pieces for a team.
#include <algorithm>
#include <cstdint>

#include "base/thread_team.h"

namespace cellar::ops::cpu_impl {

// Below this many elements a team costs more than it saves.
inline constexpr int64_t kAlone = 16384;
inline constexpr int64_t kPieceElements = 8192;
inline constexpr int64_t kSpan = 4096;  // a multiple of every lane count, so a cut does not move an element to another lane

// Calls body(row) for each row in [0, rows).
template <class Body>
void for_rows(int64_t rows, int64_t cols, ThreadTeam& team, Body&& body) {
    if (rows * cols < kAlone || rows < 2 || team.size() == 1) {
        for (int64_t r = 0; r < rows; ++r) body(r);
        return;
    }
    const int64_t each = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(cols, 1));
    team.run((rows + each - 1) / each, [&](int64_t piece, int /*member*/) {
        for (int64_t r = piece * each; r < std::min(rows, (piece + 1) * each); ++r) body(r);
    });
}

// Calls body(row, first, count) so that spans of columns cover all rows. For functions of single elements.
template <class Body>
void for_spans(int64_t rows, int64_t cols, ThreadTeam& team, Body&& body) {
    const int64_t spans = (cols + kSpan - 1) / kSpan;
    for_rows(rows * spans, std::min(cols, kSpan), team, [&](int64_t i) {
        const int64_t first = i % spans * kSpan;
        body(i / spans, first, std::min(kSpan, cols - first));
    });
}

}  // namespace cellar::ops::cpu_impl
