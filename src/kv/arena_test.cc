#include "kv/arena.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "kv/cache_model.h"
#include "tensor/row_codec.h"

namespace cellar::kv {
namespace {

TEST(Arena, EveryRowHasItsOwnBytes) {
    const std::vector<RowSpec> rows = model_rows();
    const Arena arena = *Arena::make(3, rows, 48);
    std::set<std::pair<const std::byte*, const std::byte*>> ranges;
    for (size_t r = 0; r < rows.size(); ++r) {
        const RowTable& table = arena.rows()[r];
        EXPECT_EQ(table.row_bytes, head_row_bytes(rows[r].format, rows[r].width));
        EXPECT_EQ(table.heads, rows[r].heads);
        EXPECT_EQ(table.width, rows[r].width);
        for (int plane = 0; plane < 3; ++plane) {
            for (int head = 0; head < table.heads; ++head) {
                EXPECT_EQ(reinterpret_cast<uintptr_t>(table.at(plane, head, 0)) % Mapping::page, 0U);
                for (int32_t cell = 0; cell < 48; ++cell) ranges.emplace(table.at(plane, head, cell), table.at(plane, head, cell) + table.row_bytes);
            }
        }
    }
    EXPECT_EQ(ranges.size(), 48U * 3 * 4);
    const std::byte* end = nullptr;
    for (const auto& [first, last] : ranges) {
        EXPECT_GE(first, end);
        end = last;
    }
}

TEST(Arena, PoisonIsNaNInEveryFormat) {
    const std::vector<RowSpec> rows = {
        {"a", 1, 40, RowFormat::F32}, {"b", 1, 40, RowFormat::F16}, {"c", 1, 40, RowFormat::BF16}, {"d", 1, 40, RowFormat::Q8_0}};
    Arena arena = *Arena::make(1, rows, 32);
    EXPECT_FALSE(arena.is_poisoned(0, 1));
    arena.poison(3, 2);
    EXPECT_FALSE(arena.is_poisoned(2, 1));
    EXPECT_TRUE(arena.is_poisoned(3, 2));
    EXPECT_FALSE(arena.is_poisoned(5, 1));
    const DType types[] = {DType::F32, DType::F16, DType::BF16, DType::Q8_0};
    for (size_t r = 0; r < rows.size(); ++r) {
        float values[32];
        decode_row(types[r], arena.rows()[r].at(0, 0, 4), 32, values);
        for (const float value : values) EXPECT_TRUE(std::isnan(value)) << name(rows[r].format);
    }
}

TEST(Arena, CopiesOverlappingRangesBothWays) {
    for (const int32_t to : {0, 3, 5, 10, 13, 20}) {
        Arena arena = *Arena::make(2, model_rows(), 48);
        const auto fill = [&](int32_t cell, uint64_t tag) {
            for (size_t r = 0; r < arena.rows().size(); ++r) {
                for (int plane = 0; plane < 2; ++plane) {
                    for (int head = 0; head < arena.rows()[r].heads; ++head) {
                        const auto bytes = row_bytes_of(tag, 0, r, plane, head, arena.rows()[r].row_bytes);
                        std::memcpy(arena.rows()[r].at(plane, head, cell), bytes.data(), bytes.size());
                    }
                }
            }
        };
        for (int32_t cell = 0; cell < 48; ++cell) fill(cell, static_cast<uint64_t>(cell));
        Arena expected = *Arena::make(2, model_rows(), 48);
        std::swap(arena, expected);
        for (int32_t cell = 0; cell < 48; ++cell) fill(cell, static_cast<uint64_t>(cell >= to && cell < to + 12 ? cell - to + 7 : cell));
        std::swap(arena, expected);
        arena.copy(7, to, 12);
        for (size_t r = 0; r < arena.rows().size(); ++r) {
            for (int plane = 0; plane < 2; ++plane) {
                for (int head = 0; head < arena.rows()[r].heads; ++head) {
                    EXPECT_EQ(std::memcmp(arena.rows()[r].at(plane, head, 0), expected.rows()[r].at(plane, head, 0), 48 * arena.rows()[r].row_bytes),
                              0)
                        << to;
                }
            }
        }
    }
}

TEST(Arena, DiscardKeepsWhatSharesAPage) {
    const std::vector<RowSpec> rows = {{"k", 1, 64, RowFormat::F16}};  // 32 cells a page
    Arena arena = *Arena::make(1, rows, 256);
    arena.poison(0, 256);
    arena.discard(40, 100);  // cells 64 to 127 are whole pages of it
    EXPECT_TRUE(arena.is_poisoned(0, 64));
    for (int32_t cell = 64; cell < 128; ++cell) EXPECT_FALSE(arena.is_poisoned(cell, 1));
    EXPECT_TRUE(arena.is_poisoned(128, 128));
}

}  // namespace
}  // namespace cellar::kv
