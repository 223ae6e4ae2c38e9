#pragma once
// The bytes of rows in cache_model.h: they follow from a tag. For one file of a program.
#include <cstring>
#include <type_traits>

#include "kv/cache_model.h"

namespace cellar::kv {

std::vector<RowSpec> model_rows() {
    return {{"k", 2, 5, RowFormat::F32}, {"v", 1, 40, RowFormat::Q8_0}, {"x", 1, 6, RowFormat::BF16}};
}

CacheSpec model_spec(const std::vector<Keep>& keeps) {
    CacheSpec spec;
    for (const Keep& keep : keeps) spec.groups.push_back({keep, 2, model_rows()});
    return spec;
}

// 64 bits of row content at a time; no byte has its highest bit set, so none is poison.
inline uint64_t row_word(uint64_t tag, size_t group, size_t row, int plane, int head, size_t word) {
    uint64_t x = tag * 0x9e3779b97f4a7c15U +
                 (group * 131 + row * 31 + static_cast<uint64_t>(plane) * 7 + static_cast<uint64_t>(head)) * 0xbf58476d1ce4e5b9U + word;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return (x ^ (x >> 31)) & 0x7f7f7f7f7f7f7f7fU;
}

// Calls f(offset, expected bytes, how many) over a row.
template <class F>
void for_row_words(uint64_t tag, size_t group, size_t row, int plane, int head, size_t bytes, F f) {
    size_t at = 0;
    for (; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        const uint64_t word = row_word(tag, group, row, plane, head, at);
        f(at, &word, std::integral_constant<size_t, sizeof word>());  // a size that the compiler knows: this is most of the time of a long run
    }
    if (at == bytes) return;
    const uint64_t word = row_word(tag, group, row, plane, head, at);
    f(at, &word, bytes - at);
}

std::vector<std::byte> row_bytes_of(uint64_t tag, size_t group, size_t row, int plane, int head, size_t bytes) {
    std::vector<std::byte> out(bytes);
    for_row_words(tag, group, row, plane, head, bytes, [&](size_t at, const void* word, auto n) { std::memcpy(&out[at], word, n); });
    return out;
}

template <class F>
void for_each_row(const RowTable& table, int planes, F f) {
    for (int plane = 0; plane < planes; ++plane) {
        for (int head = 0; head < table.heads; ++head) f(plane, head);
    }
}

constexpr int model_planes = 2;

void write_row(std::span<const RowTable> rows, size_t g, int32_t cell, uint64_t tag) {
    for (size_t r = 0; r < rows.size(); ++r) {
        for_each_row(rows[r], model_planes, [&](int plane, int head) {
            std::byte* row = rows[r].at(plane, head, cell);
            for_row_words(tag, g, r, plane, head, rows[r].row_bytes, [&](size_t at, const void* word, auto n) { std::memcpy(row + at, word, n); });
        });
    }
}

void write_rows(const View& view, int32_t token, uint64_t tag) {
    for (size_t g = 0; g < view.groups.size(); ++g) write_row(view.groups[g].rows, g, view.groups[g].write_cells[static_cast<size_t>(token)], tag);
}

inline bool has_rows(std::span<const RowTable> rows, size_t g, int32_t cell, uint64_t tag) {
    bool equal = true;
    for (size_t r = 0; r < rows.size(); ++r) {
        for_each_row(rows[r], model_planes, [&](int plane, int head) {
            const std::byte* row = rows[r].at(plane, head, cell);
            for_row_words(tag, g, r, plane, head, rows[r].row_bytes,
                          [&](size_t at, const void* word, auto n) { equal = equal && std::memcmp(row + at, word, n) == 0; });
        });
    }
    return equal;
}

}  // namespace cellar::kv
