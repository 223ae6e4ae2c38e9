#pragma once
// How work on rows of activations is cut for a team where every row, or every element, stands by itself.
#include <algorithm>
#include <cstdint>

#include "ops/row_pieces.h"

namespace cellar::ops::cpu_impl {

inline constexpr int64_t kSpan = 4096;  // a multiple of every lane count, so a cut does not move an element to another lane

// Calls body(row) for each row in [0, rows).
template <class Body>
void for_rows(int64_t rows, int64_t cols, ThreadTeam& team, Body&& body) {
    for_row_pieces(rows, cols, team, [&](int64_t first, int64_t count, int /*member*/) {
        for (int64_t r = first; r < first + count; ++r) body(r);
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
