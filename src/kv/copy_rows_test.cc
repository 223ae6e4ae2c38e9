#include "kv/copy_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kv/arena.h"
#include "tensor/row_codec.h"

namespace cellar::kv {
namespace {

constexpr RowFormat formats[] = {RowFormat::F32, RowFormat::F16, RowFormat::BF16, RowFormat::Q8_0};
constexpr DType types[] = {DType::F32, DType::F16, DType::BF16, DType::Q8_0};

std::vector<float> values_of(const RowTable& table, size_t format, int plane, int head, int32_t cell) {
    std::vector<float> values(static_cast<size_t>(table.width + 31) / 32 * 32);
    decode_row(types[format], table.at(plane, head, cell), table.format == RowFormat::Q8_0 ? static_cast<int64_t>(values.size()) : table.width,
               values.data());
    return values;
}

TEST(CopyRows, EveryFormatToEveryOther) {
    for (const int width : {1, 31, 32, 64, 80, 128}) {
        for (size_t f = 0; f < 4; ++f) {
            for (size_t t = 0; t < 4; ++t) {
                const std::vector<RowSpec> from_rows = {{"k", 3, width, formats[f]}};
                const std::vector<RowSpec> to_rows = {{"k", 3, width, formats[t]}};
                Arena from = *Arena::make(2, from_rows, 64);
                Arena to = *Arena::make(4, to_rows, 96);
                to.poison(0, 96);
                std::mt19937 random(static_cast<uint32_t>(width));
                std::normal_distribution<float> normal;
                for (int head = 0; head < 3; ++head) {
                    for (int32_t cell = 10; cell < 20; ++cell) {
                        std::vector<float> values(static_cast<size_t>(width + 31) / 32 * 32);
                        for (int i = 0; i < width; ++i) values[static_cast<size_t>(i)] = normal(random);
                        const bool packed = formats[f] == RowFormat::Q8_0;
                        encode_row(types[f], values.data(), packed ? static_cast<int64_t>(values.size()) : width, from.rows()[0].at(1, head, cell));
                    }
                }
                copy_rows(from.rows()[0], 1, 10, to.rows()[0], 3, 50, 10);
                EXPECT_TRUE(to.is_poisoned(0, 50) && to.is_poisoned(60, 36));
                for (int head = 0; head < 3; ++head) {
                    for (int32_t i = 0; i < 10; ++i) {
                        const auto expected = values_of(from.rows()[0], f, 1, head, 10 + i);
                        const auto got = values_of(to.rows()[0], t, 3, head, 50 + i);
                        float largest = 0;
                        for (int v = 0; v < width; ++v) largest = std::max(largest, std::abs(expected[static_cast<size_t>(v)]));
                        // Half a step of the target format, and the rounding of a scale to f16.
                        const float bound = formats[t] == RowFormat::F32 || f == t ? 0.0F
                                                                                   : largest * (formats[t] == RowFormat::F16    ? 0x1p-11F
                                                                                                : formats[t] == RowFormat::BF16 ? 0x1p-8F
                                                                                                                                : 0.6F / 127);
                        for (int v = 0; v < width; ++v) {
                            EXPECT_LE(std::abs(expected[static_cast<size_t>(v)] - got[static_cast<size_t>(v)]), bound)
                                << width << " " << name(formats[f]) << " to " << name(formats[t]);
                        }
                        if (f != t) continue;
                        EXPECT_EQ(std::memcmp(from.rows()[0].at(1, head, 10 + i), to.rows()[0].at(3, head, 50 + i), to.rows()[0].row_bytes), 0);
                    }
                }
            }
        }
    }
}

// The bytes behind the last block of a packed row are zero, so that rows compare bytewise.
TEST(CopyRows, PaddingOfPackedRowsIsZero) {
    const std::vector<RowSpec> from_rows = {{"k", 1, 80, RowFormat::F32}};
    const std::vector<RowSpec> to_rows = {{"k", 1, 80, RowFormat::Q8_0}};
    Arena from = *Arena::make(1, from_rows, 32);
    Arena to = *Arena::make(1, to_rows, 32);
    to.poison(0, 32);
    const std::vector<float> ones(80, 1.0F);
    std::memcpy(from.rows()[0].at(0, 0, 5), ones.data(), 80 * sizeof(float));
    copy_rows(from.rows()[0], 0, 5, to.rows()[0], 0, 7, 1);
    const std::byte* row = to.rows()[0].at(0, 0, 7);
    ASSERT_EQ(to.rows()[0].row_bytes, 104U);
    for (size_t i = 2 * 34 + 2 + 16; i < 104; ++i) EXPECT_EQ(row[i], std::byte{0}) << i;
}

}  // namespace
}  // namespace cellar::kv
