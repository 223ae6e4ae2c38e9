#include "base/bytes.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace cellar {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
    std::vector<std::byte> bytes;
    for (int value : values) bytes.push_back(static_cast<std::byte>(value));
    return bytes;
}

TEST(ByteReader, ReadsLittleEndian) {
    const std::vector<std::byte> bytes = bytes_of({0x01, 0x02, 0x03, 0xff, 0xfe, 0xff, 0x00, 0x00, 0x80, 0x3f, 'h', 'i'});
    ByteReader reader(bytes, "message");
    EXPECT_EQ(reader.read<uint8_t>("a").value(), 1);
    EXPECT_EQ(reader.read<uint16_t>("b").value(), 0x0302);
    EXPECT_EQ(reader.read<int8_t>("c").value(), -1);
    EXPECT_EQ(reader.read<int16_t>("d").value(), -2);
    EXPECT_EQ(reader.read<float>("e").value(), 1.0f);
    EXPECT_EQ(reader.take_text(2, "f").value(), "hi");
    EXPECT_EQ(reader.remaining(), 0u);
    EXPECT_EQ(reader.take(0, "nothing").value().size(), 0u);
}

TEST(ByteReader, AReadThatDoesNotFitMovesNothing) {
    const std::vector<std::byte> bytes = bytes_of({1, 2, 3});
    ByteReader reader(bytes, "model.bin");
    ASSERT_TRUE(reader.read<uint8_t>("first"));
    const Result<uint32_t> value = reader.read<uint32_t>("length");
    ASSERT_FALSE(value);
    EXPECT_EQ(value.error().message, "model.bin: length at byte 1 needs 4 bytes, but only 2 are left");
    EXPECT_EQ(reader.position(), 1u);
    EXPECT_FALSE(reader.take(UINT64_MAX, "blob"));
    EXPECT_FALSE(reader.take_text(3, "text"));
    const auto records = reader.take_records(UINT64_MAX / 2, 4, "table");
    ASSERT_FALSE(records);
    EXPECT_NE(records.error().message.find("table"), std::string::npos);
    EXPECT_FALSE(reader.take_records(3, 1, "table"));
    EXPECT_TRUE(reader.take_records(2, 1, "table"));
    EXPECT_FALSE(reader.seek(4, "end"));
    EXPECT_EQ(reader.position(), 3u);
    EXPECT_TRUE(reader.seek(0, "start"));
    EXPECT_EQ(reader.remaining(), 3u);
}

// Random reads against a plain position.
RC_GTEST_PROP(ByteReaderProperty, StaysInside, (const std::vector<uint8_t>& data, const std::vector<uint8_t>& steps)) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data.data()), data.size());
    ByteReader reader(bytes, "x");
    uint64_t position = 0;
    for (const uint8_t step : steps) {
        const uint64_t count = step % 17;
        const auto taken = reader.take(count, "part");
        RC_ASSERT(taken.has_value() == (position + count <= data.size()));
        if (taken) {
            RC_ASSERT(taken->data() == bytes.data() + position);
            position += count;
        }
        RC_ASSERT(reader.position() == position);
    }
}

TEST(ByteWriter, WritesWhatTheReaderReads) {
    ByteWriter writer;
    writer.add(uint8_t{0x01});
    writer.add(uint32_t{0x05040302});
    writer.add(int16_t{-2});
    writer.add(1.0F);
    writer.add_text("hi");
    EXPECT_EQ(writer.take(), bytes_of({1, 2, 3, 4, 5, 0xfe, 0xff, 0, 0, 0x80, 0x3f, 2, 0, 0, 0, 'h', 'i'}));
}

TEST(ByteWriter, AlignsWithZeros) {
    ByteWriter writer;
    writer.align(8);
    EXPECT_TRUE(writer.view().empty());
    writer.add_bytes(bytes_of({7, 7, 7}));
    writer.align(4);
    writer.align(4);
    EXPECT_EQ(writer.take(), bytes_of({7, 7, 7, 0}));
}

}  // namespace
}  // namespace cellar
