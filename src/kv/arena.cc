#include "kv/arena.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace cellar::kv {
namespace {

size_t pages(size_t bytes) {
    return (bytes + Mapping::page - 1) / Mapping::page;
}

}  // namespace

Result<Arena> Arena::make(int planes, std::span<const RowSpec> rows, int32_t cells) {
    Arena arena;
    arena.planes_ = planes;
    arena.cells_ = cells;
    size_t bytes = 0;
    for (const RowSpec& row : rows) {
        RowTable table;
        table.row_bytes = head_row_bytes(row.format, row.width);
        // An odd number of pages, so that the heads of one cell do not all meet in the same sets of the processor's caches.
        table.head_stride = (pages(static_cast<size_t>(cells) * table.row_bytes) | 1U) * Mapping::page;
        table.plane_stride = static_cast<size_t>(row.heads) * table.head_stride;
        table.format = row.format;
        table.heads = row.heads;
        table.width = row.width;
        bytes += static_cast<size_t>(planes) * table.plane_stride;
        arena.rows_.push_back(table);
    }
    CELLAR_TRY(arena.memory_, Mapping::make(bytes));
    std::byte* base = arena.memory_.data();
    for (RowTable& table : arena.rows_) {
        table.base = base;
        base += static_cast<size_t>(planes) * table.plane_stride;
    }
    return arena;
}

// Calls f(first byte of the cell, bytes of one row) for each head of each plane of each row.
template <class F>
static void for_each_head(std::span<const RowTable> rows, int planes, int32_t cell, F f) {
    for (const RowTable& row : rows) {
        for (int plane = 0; plane < planes; ++plane) {
            for (int head = 0; head < row.heads; ++head) f(row.at(plane, head, cell), row.row_bytes);
        }
    }
}

void Arena::copy(int32_t from, int32_t to, int32_t len) {
    const auto n = static_cast<size_t>(len);
    const auto distance = static_cast<ptrdiff_t>(to) - from;
    for_each_head(rows_, planes_, from, [&](std::byte* source, size_t row_bytes) {
        std::memmove(source + distance * static_cast<ptrdiff_t>(row_bytes), source, n * row_bytes);
    });
}

void Arena::discard(int32_t cell, int32_t len) {
    for_each_head(rows_, planes_, cell, [&](const std::byte* first, size_t row_bytes) {
        memory_.discard(static_cast<size_t>(first - memory_.data()), static_cast<size_t>(len) * row_bytes);
    });
}

void Arena::poison(int32_t cell, int32_t len) {
    for_each_head(rows_, planes_, cell, [&](std::byte* first, size_t row_bytes) { std::memset(first, 0xff, static_cast<size_t>(len) * row_bytes); });
}

bool Arena::is_poisoned(int32_t cell, int32_t len) const {
    bool poisoned = true;
    for_each_head(rows_, planes_, cell, [&](const std::byte* first, size_t row_bytes) {
        poisoned = poisoned && std::all_of(first, first + static_cast<size_t>(len) * row_bytes, [](std::byte b) { return b == std::byte{0xff}; });
    });
    return poisoned;
}

}  // namespace cellar::kv
