#include "kv/spec.h"

#include <gtest/gtest.h>

#include "kv/cache_model.h"

namespace cellar::kv {
namespace {

TEST(Spec, FormatsAreSpelledExactly) {
    for (const RowFormat format : {RowFormat::F32, RowFormat::F16, RowFormat::BF16, RowFormat::Q8_0})
        EXPECT_EQ(parse_row_format(name(format)), format);
    for (const char* text : {"", "F16", "f16 ", " f16", "Q8_0", "q8", "q4_0", "fp16", "auto"}) EXPECT_FALSE(parse_row_format(text)) << text;
}

// A packed row is whole blocks of 34 bytes for 32 values, rounded up to 4 bytes, so that no block spans heads or cells.
TEST(Spec, PackedRowsAreWholeBlocks) {
    EXPECT_EQ(head_row_bytes(RowFormat::Q8_0, 64), 68U);
    EXPECT_EQ(head_row_bytes(RowFormat::Q8_0, 96), 104U);
    EXPECT_EQ(head_row_bytes(RowFormat::Q8_0, 128), 136U);
    EXPECT_EQ(head_row_bytes(RowFormat::Q8_0, 80), 104U);
    EXPECT_EQ(head_row_bytes(RowFormat::Q8_0, 1), 36U);
    for (int width = 1; width <= 600; ++width) {
        const size_t bytes = head_row_bytes(RowFormat::Q8_0, width);
        EXPECT_EQ(bytes % 4, 0U);
        EXPECT_GE(bytes, (static_cast<size_t>(width) + 31) / 32 * 34);
        EXPECT_LT(bytes, (static_cast<size_t>(width) + 31) / 32 * 34 + 4);
        EXPECT_EQ(head_row_bytes(RowFormat::F32, width), static_cast<size_t>(width) * 4);
        EXPECT_EQ(head_row_bytes(RowFormat::F16, width), static_cast<size_t>(width) * 2);
        EXPECT_EQ(head_row_bytes(RowFormat::BF16, width), static_cast<size_t>(width) * 2);
    }
}

TEST(Spec, BytesCountKvHeadsOfAllRowsAndPlanes) {
    GroupSpec group{Keep::all(), 24, {{"k", 2, 64, RowFormat::F16}, {"v", 2, 64, RowFormat::Q8_0}}};
    EXPECT_EQ(group.cell_bytes(), 24U * (2 * 128 + 2 * 68));
    const CacheSpec spec{{group, {Keep::window(16), 4, group.rows}}, {}};
    EXPECT_EQ(spec.bytes_per_token(), group.cell_bytes());
}

TEST(Spec, VisibleIsWhatTheWordsSay) {
    std::vector<Keep> keeps = {Keep::all()};
    for (const int size : {1, 2, 7, 8, 9, 32}) {
        keeps.push_back(Keep::chunk(size));
        for (const int sinks : {0, 1, 4, 9, 40}) keeps.push_back(Keep::window(size, sinks));
    }
    for (const Keep& keep : keeps) {
        for (int32_t pos = 0; pos < 90; ++pos) {
            const Visible seen = visible(keep, pos);
            EXPECT_LE(seen.sinks.hi, seen.recent.lo) << "disjoint and in order";
            EXPECT_TRUE(keep.sinks > 0 || seen.sinks.length() == 0);
            EXPECT_EQ(seen.recent.hi, pos + 1);
            for (int32_t p = 0; p < 100; ++p) {
                const bool in = (p >= seen.sinks.lo && p < seen.sinks.hi) || (p >= seen.recent.lo && p < seen.recent.hi);
                EXPECT_EQ(in, sees(keep, pos, p)) << "size " << keep.size << " sinks " << keep.sinks << " pos " << pos << " p " << p;
            }
        }
    }
}

TEST(Spec, WhatOneQueryCannotSeeNoLaterOneSees) {
    for (const Keep& keep : {Keep::all(), Keep::window(1), Keep::window(8), Keep::window(8, 3), Keep::chunk(8)}) {
        for (int32_t pos = 1; pos < 60; ++pos) {
            for (int32_t p = 0; p < pos; ++p) {
                EXPECT_TRUE(sees(keep, pos, p) || !sees(keep, pos + 1, p));
            }
            const int32_t first = first_needed(keep, pos);
            EXPECT_LE(first, pos);
            for (int32_t p = keep.sinks; p < pos; ++p) EXPECT_EQ(sees(keep, pos, p), p >= first);
        }
    }
}

}  // namespace
}  // namespace cellar::kv
