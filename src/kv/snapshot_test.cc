#include "kv/snapshot.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kv/cache_fixture.h"

namespace cellar::kv {
namespace {

// Turns of two runs may differ by twice the most of one, and that is still a turn.
TEST(Snapshot, NothingIsTurnedFurtherThanTurnsCanDiffer) {
    CacheFixture fixture({Keep::all()}, 64, 64);
    const SeqId id = fixture.open();
    fixture.grow(id, 20);
    fixture.cache().remove(id, {8, 9});
    std::vector<std::byte> bytes;
    ASSERT_TRUE(write_piece(fixture.cache(), id, {0, 20}, [&](std::span<const std::byte> part) -> Result<void> {
        bytes.insert(bytes.end(), part.begin(), part.end());
        return {};
    }));
    const CacheSpec& spec = fixture.cache().spec();
    // Of each run: position, length, turn. They stand behind the head, the ids of the tokens and what the rows are.
    const size_t runs = 16 + 20 * 4 + 8 + spec.groups[0].rows.size() * 12 + 4;
    const auto turned = [&](int32_t first, int32_t second) {
        std::vector<std::byte> changed = bytes;
        std::memcpy(changed.data() + runs + 8, &first, 4);
        std::memcpy(changed.data() + runs + 20, &second, 4);
        return changed;
    };
    constexpr int32_t kMost = 1 << 29;
    const std::vector<std::byte> most = turned(-kMost, kMost);
    const auto piece = parse_piece(most, "piece", spec);
    ASSERT_TRUE(piece) << piece.error().message;
    ASSERT_EQ(piece->groups[0].runs.size(), 2U);
    const SeqId other = fixture.open();
    ASSERT_TRUE(append_piece(fixture.cache(), other, *piece, 20));
    const auto taken = fixture.cache().runs(other, 0);
    ASSERT_EQ(taken.size(), 2U);
    EXPECT_EQ(taken[0].turn, -kMost);
    EXPECT_EQ(taken[1].turn, kMost);
    EXPECT_EQ(fixture.verify(), "");
    for (const auto& [first, second] : {std::pair{-kMost - 1, 0}, std::pair{0, kMost + 1}}) {
        const std::vector<std::byte> wrong = turned(first, second);
        const auto refused = parse_piece(wrong, "piece", spec);
        ASSERT_FALSE(refused) << first << ", " << second;
        EXPECT_NE(refused.error().message.find("turned by"), std::string::npos) << refused.error().message;
    }
}

TEST(Snapshot, RotaryPositionsAreBoundToo) {
    CacheFixture fixture({Keep::all()}, 64, 64);
    for (const int32_t rotary : {1 << 29, (1 << 29) + 1}) {
        const SeqId id = fixture.open();
        fixture.grow_with(id, {{1, rotary, 0}});
        std::vector<std::byte> bytes;
        ASSERT_TRUE(write_piece(fixture.cache(), id, {0, 1}, [&](std::span<const std::byte> part) -> Result<void> {
            bytes.insert(bytes.end(), part.begin(), part.end());
            return {};
        }));
        EXPECT_EQ(parse_piece(bytes, "piece", fixture.cache().spec()).has_value(), rotary == 1 << 29);
    }
}

}  // namespace
}  // namespace cellar::kv
