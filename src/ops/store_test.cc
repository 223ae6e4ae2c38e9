#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/thread_team.h"
#include "ops/cpu/each_target.h"
#include "ops/ops.h"
#include "ops/row_store.h"

namespace cellar::ops {
namespace {

constexpr kv::RowFormat kFormats[] = {kv::RowFormat::F32, kv::RowFormat::F16, kv::RowFormat::BF16, kv::RowFormat::Q8_0};

std::vector<std::byte> packed(const std::vector<float>& values) {
    const size_t bytes = kv::head_row_bytes(kv::RowFormat::Q8_0, static_cast<int>(values.size()));
    std::vector<std::byte> row(bytes, std::byte{0xAB});
    encode_head_row(kv::RowFormat::Q8_0, values.data(), static_cast<int>(values.size()), row.data(), bytes);
    return row;
}

TEST(StoreRows, PackedBytesAreThoseOfTheFormat) {
    // amax 127 / 64: the scale is 1 / 64 = 0x2400 as f16; halves go to the even neighbour.
    std::vector<float> values(40, 0.0F);
    values[0] = -127.0F / 64;
    values[1] = 0.5F / 64;
    values[2] = 1.5F / 64;
    values[3] = -2.5F / 64;
    values[4] = 126.5F / 64;
    values[33] = 3.0F * 127.0F;
    values[39] = -3.0F;
    const auto row = packed(values);
    ASSERT_EQ(row.size(), 68U);
    const auto at = [&](size_t i) { return static_cast<int>(static_cast<int8_t>(row[i])); };
    EXPECT_EQ(at(0), 0x00);
    EXPECT_EQ(at(1), 0x24);
    EXPECT_EQ(at(2), -127);
    EXPECT_EQ(at(3), 0);
    EXPECT_EQ(at(4), 2);
    EXPECT_EQ(at(5), -2);
    EXPECT_EQ(at(6), 126);
    for (size_t i = 7; i < 34; ++i) EXPECT_EQ(at(i), 0);
    EXPECT_EQ(at(34), 0x00);
    EXPECT_EQ(at(35), 0x42);
    EXPECT_EQ(at(36), 0);
    EXPECT_EQ(at(37), 127);
    EXPECT_EQ(at(36 + 7), -1);
    for (size_t i = 36 + 8; i < 68; ++i) EXPECT_EQ(at(i), 0) << i;
    // 3 blocks are 102 bytes, rounded up to 104: the rest is zero.
    const auto wide = packed(std::vector<float>(80, 1.0F));
    ASSERT_EQ(wide.size(), 104U);
    EXPECT_EQ(wide[102], std::byte{0});
    EXPECT_EQ(wide[103], std::byte{0});
}

TEST(StoreRows, PackedBlocksThatCannotBeScaled) {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), 1e30F}) {
        std::vector<float> values(64, 1.0F);
        values[5] = bad;
        const auto row = packed(values);
        std::vector<float> back(64);
        decode_head_row(kv::RowFormat::Q8_0, row.data(), 64, back.data());
        for (size_t i = 0; i < 32; ++i) EXPECT_TRUE(std::isnan(back[i])) << bad;
        for (size_t i = 32; i < 64; ++i) EXPECT_NEAR(back[i], 1.0F, 1e-3);
    }
    for (const float tiny : {0.0F, 1e-40F, 1e-9F}) {
        const auto row = packed(std::vector<float>(32, tiny));
        for (const std::byte b : row) EXPECT_EQ(b, std::byte{0}) << tiny;
    }
}

TEST(StoreRows, DecodingGivesBackWhatTheFormatHolds) {
    std::mt19937 random(3);
    std::vector<float> values(100);
    for (float& v : values) v = std::normal_distribution<float>(0.0F, 2.0F)(random);
    for (const kv::RowFormat format : kFormats) {
        const size_t bytes = kv::head_row_bytes(format, 100);
        std::vector<std::byte> row(bytes);
        encode_head_row(format, values.data(), 100, row.data(), bytes);
        std::vector<float> back(100);
        decode_head_row(format, row.data(), 100, back.data());
        const double step = format == kv::RowFormat::F32    ? 0.0
                            : format == kv::RowFormat::F16  ? 0x1p-11
                            : format == kv::RowFormat::BF16 ? 0x1p-8
                                                            : 0.0;
        for (size_t i = 0; i < 100; ++i) {
            const double allowed = format == kv::RowFormat::Q8_0 ? 8.0 / 127 : step * std::fabs(values[i]);
            EXPECT_NEAR(back[i], values[i], allowed) << kv::name(format);
        }
    }
}

// Random bit patterns: every kind of float there is.
TEST(StoreRows, EveryTargetWritesTheBytesOfTheSlowCodec) {
    std::mt19937 random(7);
    ThreadTeam team(2);
    for (const kv::RowFormat format : kFormats) {
        for (int width = 1; width <= 200; width += width < 70 ? 1 : 13) {
            const int heads = 3;
            const int cells = 5;
            const int tokens = 4;
            std::vector<float> x(static_cast<size_t>(tokens * heads * width));
            for (size_t i = 0; i < x.size(); ++i) {
                const bool wild = width % 2 == 0 && i / static_cast<size_t>(width) % 2 == 0;
                x[i] = wild ? std::bit_cast<float>(static_cast<uint32_t>(random())) : std::normal_distribution<float>()(random);
            }
            const size_t row_bytes = kv::head_row_bytes(format, width);
            const auto fresh = [&] { return std::vector<std::byte>(row_bytes * heads * cells * 2, std::byte{0x5A}); };
            const auto table = [&](std::vector<std::byte>& memory) {
                return kv::RowTable{memory.data(), row_bytes * heads * cells, row_bytes * cells, row_bytes, format, heads, width};
            };
            const std::vector<int32_t> write{4, 0, 2, 1};
            const auto store = [&](const Ops& ops) {
                auto memory = fresh();
                ops.store_rows({x.data(), tokens, static_cast<int64_t>(heads) * width, static_cast<int64_t>(heads) * width}, table(memory), 1,
                               write.data(), team);
                return memory;
            };
            const auto wanted = store(reference());
            auto untouched = fresh();
            EXPECT_TRUE(std::equal(wanted.begin(), wanted.begin() + static_cast<ptrdiff_t>(row_bytes * heads * cells), untouched.begin()));
            for_each_target(
                [&](std::string_view target) { EXPECT_EQ(store(cpu()), wanted) << fmt::format("{} {} width {}", target, kv::name(format), width); });
        }
    }
}

}  // namespace
}  // namespace cellar::ops
