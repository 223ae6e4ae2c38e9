#include "model/gguf.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <variant>

#include "model/gguf_writer.h"

namespace cellar::gguf {
namespace {

namespace fs = std::filesystem;

template <class T>
std::string message(const Result<T>& result) {
    return result ? "no error" : result.error().message;
}

#define EXPECT_SAYS(result, words) EXPECT_NE(message(result).find(words), std::string::npos) << message(result)

// Owns the bytes that a File looks into.
struct Parsed {
    std::vector<std::byte> bytes;
    Result<File> file;

    explicit Parsed(const Writer& writer) : bytes(writer.to_bytes().value()), file(File::parse(bytes, "test.gguf")) {}
    const File* operator->() const { return &file.value(); }
};

Writer sample(uint32_t version = 3, uint32_t alignment = 32) {
    Writer writer(version, alignment);
    writer.add("general.architecture", "llama");
    writer.add("a.u8", uint8_t{200});
    writer.add("a.i8", int8_t{-3});
    writer.add("a.u16", uint16_t{65535});
    writer.add("a.i16", int16_t{-300});
    writer.add("a.u32", uint32_t{4'000'000'000});
    writer.add("a.i32", int32_t{-70'000});
    writer.add("a.u64", UINT64_MAX);
    writer.add("a.i64", INT64_MIN);
    writer.add("a.f32", 1e-5F);
    writer.add("a.f64", 0.25);
    writer.add("a.huge", 1e300);
    writer.add("a.nan", std::nanf(""));
    writer.add("a.true", true);
    writer.add("a.false", false);
    writer.add("a.empty", "");
    writer.add_array("b.i32", std::vector<int32_t>{1, -2, 3});
    writer.add_array("b.u64", std::vector<uint64_t>{1, UINT64_MAX});
    writer.add_array("b.f32", std::vector<float>{0.5F, -1.5F});
    writer.add_array("b.f64", std::vector<double>{0.5, -1e300});
    writer.add_array("b.bool", std::vector<bool>{true, false, true});
    writer.add_array("b.none", std::vector<uint32_t>{});
    writer.add_strings("b.strings", {"<s>", "", "\xff\n", "last"});
    writer.add_tensor("one.weight", DType::F32, {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
    writer.add_tensor("two.weight", DType::Q8_0, {32, 1, 2, 3}, std::vector<std::byte>(34 * 6, std::byte{7}));
    writer.add_tensor("three", DType::F16, {1}, std::vector<std::byte>{std::byte{1}, std::byte{2}});
    return writer;
}

TEST(Gguf, ReadsEveryTypeInBothVersions) {
    for (const uint32_t version : {2U, 3U}) {
        for (const uint32_t alignment : {8U, 32U, 4096U}) {
            const Parsed parsed(sample(version, alignment));
            ASSERT_TRUE(parsed.file) << message(parsed.file);
            EXPECT_EQ(parsed->version(), version);
            EXPECT_EQ(parsed->alignment(), alignment);
            EXPECT_EQ(parsed->path(), "test.gguf");
            EXPECT_EQ(parsed->file_bytes(), parsed.bytes.size());
            EXPECT_EQ(parsed->string("general.architecture").value(), "llama");
            EXPECT_EQ(parsed->integer("a.u8").value(), 200);
            EXPECT_EQ(parsed->integer("a.i8").value(), -3);
            EXPECT_EQ(parsed->integer("a.u16").value(), 65535);
            EXPECT_EQ(parsed->integer("a.i16").value(), -300);
            EXPECT_EQ(parsed->integer("a.u32").value(), 4'000'000'000);
            EXPECT_EQ(parsed->integer("a.i32").value(), -70'000);
            EXPECT_EQ(parsed->integer("a.i64").value(), INT64_MIN);
            EXPECT_EQ(parsed->number("a.f32").value(), 1e-5F);
            EXPECT_EQ(parsed->number("a.f64").value(), 0.25F);
            EXPECT_EQ(parsed->number("a.i16").value(), -300.0F);
            EXPECT_EQ(parsed->number("a.u64").value(), 18446744073709551616.0F);
            EXPECT_TRUE(parsed->boolean("a.true").value());
            EXPECT_FALSE(parsed->boolean("a.false").value());
            EXPECT_EQ(parsed->string("a.empty").value(), "");
        }
    }
}

TEST(Gguf, ReadsArraysAndScalarsAsArrays) {
    const Parsed parsed(sample());
    EXPECT_EQ(parsed->integers("b.i32").value(), (std::vector<int64_t>{1, -2, 3}));
    EXPECT_EQ(parsed->integers("a.i8").value(), (std::vector<int64_t>{-3}));
    EXPECT_EQ(parsed->integers("b.none").value(), (std::vector<int64_t>{}));
    EXPECT_EQ(parsed->numbers("b.f32").value(), (std::vector<float>{0.5F, -1.5F}));
    EXPECT_EQ(parsed->numbers("b.f64").value(), (std::vector<float>{0.5F, -std::numeric_limits<float>::infinity()}));
    EXPECT_EQ(parsed->numbers("b.i32").value(), (std::vector<float>{1, -2, 3}));
    EXPECT_EQ(parsed->numbers("a.f32").value(), (std::vector<float>{1e-5F}));
    EXPECT_EQ(parsed->numbers("b.none").value(), (std::vector<float>{}));
    EXPECT_EQ(parsed->booleans("b.bool").value(), (std::vector<bool>{true, false, true}));
    EXPECT_EQ(parsed->booleans("a.true").value(), (std::vector<bool>{true}));
    const StringArray strings = parsed->strings("b.strings").value();
    EXPECT_EQ(strings.size(), 4U);
    EXPECT_EQ(strings[2], "\xff\n");
    EXPECT_EQ(std::vector<std::string>(strings.begin(), strings.end()), (std::vector<std::string>{"<s>", "", "\xff\n", "last"}));
    const StringArray one = parsed->strings("general.architecture").value();
    ASSERT_EQ(one.size(), 1U);
    EXPECT_EQ(one[0], "llama");
}

TEST(Gguf, TellsMissingFromWrong) {
    const Parsed parsed(sample());
    EXPECT_EQ(parsed->integer_or("none", 7).value(), 7);
    EXPECT_EQ(parsed->number_or("none", 0.5F).value(), 0.5F);
    EXPECT_TRUE(parsed->boolean_or("none", true).value());
    EXPECT_EQ(parsed->string_or("none", "x").value(), "x");
    EXPECT_EQ(parsed->integer_or("a.u8", 7).value(), 200);
    EXPECT_EQ(parsed->number_or("a.f64", 1).value(), 0.25F);
    EXPECT_FALSE(parsed->boolean_or("a.false", true).value());
    EXPECT_EQ(parsed->string_or("a.empty", "x").value(), "");

    EXPECT_SAYS(parsed->integer("none"), "test.gguf: key 'none' is missing");
    EXPECT_SAYS(parsed->strings("none"), "missing");
    EXPECT_SAYS(parsed->integer("a.f32"), "test.gguf: key 'a.f32' should be an integer, but it is f32");
    EXPECT_SAYS(parsed->integer("a.true"), "but it is bool");
    EXPECT_SAYS(parsed->integer("b.i32"), "but it is an array of 3 i32");
    EXPECT_SAYS(parsed->integer_or("a.empty", 7), "but it is string");
    EXPECT_SAYS(parsed->number("general.architecture"), "should be a number, but it is string");
    EXPECT_SAYS(parsed->number("b.f32"), "should be a number, but it is an array of 2 f32");
    EXPECT_SAYS(parsed->number("a.true"), "but it is bool");
    EXPECT_SAYS(parsed->number("a.nan"), "not a finite float");
    EXPECT_SAYS(parsed->number("a.huge"), "1e+300");
    EXPECT_SAYS(parsed->number_or("a.nan", 1), "not a finite float");
    EXPECT_SAYS(parsed->boolean("a.u8"), "should be a bool, but it is u8");
    EXPECT_SAYS(parsed->boolean_or("b.bool", true), "an array of 3 bool");
    EXPECT_SAYS(parsed->string("a.u8"), "should be a string, but it is u8");
    EXPECT_SAYS(parsed->string_or("b.strings", ""), "an array of 4 string");
    EXPECT_SAYS(parsed->integers("b.f32"), "should be an integer or an array of them, but it is an array of 2 f32");
    EXPECT_SAYS(parsed->integers("a.f32"), "but it is f32");
    EXPECT_SAYS(parsed->numbers("b.strings"), "should be a number or an array of them");
    EXPECT_SAYS(parsed->booleans("b.i32"), "should be a bool or an array of them");
    EXPECT_SAYS(parsed->strings("b.i32"), "should be a string or an array of them");
}

TEST(Gguf, ChecksRanges) {
    const Parsed parsed(sample());
    EXPECT_EQ(parsed->integer("a.u8", 200, 200).value(), 200);
    EXPECT_SAYS(parsed->integer("a.u8", 201, 300), "key 'a.u8' is 200, but must be from 201 to 300");
    EXPECT_SAYS(parsed->integer("a.i8", 0), "key 'a.i8' is -3, but must be at least 0");
    EXPECT_SAYS(parsed->integer("a.u16", INT64_MIN, 9), "key 'a.u16' is 65535, but may be at most 9");
    EXPECT_SAYS(parsed->integer("a.u64"), "18446744073709551615, which is too large");
    EXPECT_SAYS(parsed->integer_or("a.i8", 4, 0), "at least 0");
    EXPECT_SAYS(parsed->integers("b.i32", 0), "key 'b.i32', element 1, is -2");
    EXPECT_SAYS(parsed->integers("b.u64"), "element 1, is 18446744073709551615");
    EXPECT_EQ(parsed->integers("b.i32", -2, 3).value().size(), 3U);
}

TEST(Gguf, GivesTensorsInPlace) {
    const Parsed parsed(sample());
    ASSERT_EQ(parsed->tensors().size(), 3U);
    EXPECT_EQ(parsed->tensors()[0].name, "one.weight");
    const TensorInfo* one = parsed->tensor("one.weight");
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(one->n_dims, 2);
    EXPECT_EQ(one->dims, (std::array<int64_t, 4>{3, 2, 1, 1}));
    EXPECT_EQ(one->bytes, 24U);
    std::array<float, 6> values{};
    std::memcpy(values.data(), one->data, sizeof(values));
    EXPECT_EQ(values, (std::array<float, 6>{1, 2, 3, 4, 5, 6}));
    const TensorInfo* two = parsed->tensor("two.weight");
    ASSERT_NE(two, nullptr);
    EXPECT_EQ(two->type, DType::Q8_0);
    EXPECT_EQ(two->dims, (std::array<int64_t, 4>{32, 1, 2, 3}));
    EXPECT_EQ(two->bytes, 34U * 6);
    EXPECT_EQ(two->data[34 * 6 - 1], std::byte{7});
    EXPECT_EQ(parsed->tensor("one"), nullptr);
    EXPECT_EQ(parsed->tensor(""), nullptr);
}

TEST(Gguf, ListsKeysAndShowsValues) {
    const Parsed parsed(sample());
    ASSERT_EQ(parsed->keys().size(), 23U);
    EXPECT_EQ(parsed->keys()[0].name, "general.architecture");
    const Key* array = parsed->find("b.bool");
    ASSERT_NE(array, nullptr);
    EXPECT_EQ(array->type, ValueType::Array);
    EXPECT_EQ(array->element, ValueType::Bool);
    EXPECT_EQ(array->count, 3U);
    EXPECT_TRUE(parsed->has("a.empty"));
    EXPECT_FALSE(parsed->has("a"));
    EXPECT_EQ(parsed->value_text("none"), "");
    EXPECT_EQ(parsed->value_text("general.architecture"), "'llama'");
    EXPECT_EQ(parsed->value_text("general.architecture", 8, 2), "'ll...'");
    EXPECT_EQ(parsed->value_text("a.u64"), "18446744073709551615");
    EXPECT_EQ(parsed->value_text("a.i64"), "-9223372036854775808");
    EXPECT_EQ(parsed->value_text("a.f32"), "1e-05");
    EXPECT_EQ(parsed->value_text("a.true"), "true");
    EXPECT_EQ(parsed->value_text("b.i32"), "[1, -2, 3]");
    EXPECT_EQ(parsed->value_text("b.i32", 2), "[1, -2, ... 3 in all]");
    EXPECT_EQ(parsed->value_text("b.i32", 0), "[... 3 in all]");
    EXPECT_EQ(parsed->value_text("b.none"), "[]");
    EXPECT_EQ(parsed->value_text("b.strings"), "['<s>', '', '\\xff\\n', 'last']");
}

TEST(Gguf, NestedArraysAreKeptAndRefusedByTheGetters) {
    std::vector<std::byte> value;
    const auto put = [&](auto v) {
        const auto bytes = std::as_bytes(std::span(&v, 1));
        value.insert(value.end(), bytes.begin(), bytes.end());
    };
    put(ValueType::Array);
    put(uint64_t{2});
    put(ValueType::U8);
    put(uint64_t{3});
    for (const uint8_t v : {1, 2, 3}) put(v);
    put(ValueType::String);
    put(uint64_t{1});
    put(uint64_t{2});
    put('h');
    put('i');
    Writer writer;
    writer.add_raw("nested", ValueType::Array, value);
    writer.add("behind", true);
    const Parsed parsed(writer);
    ASSERT_TRUE(parsed.file) << message(parsed.file);
    EXPECT_TRUE(parsed->boolean("behind").value());
    EXPECT_EQ(parsed->value_text("nested"), "[2 arrays]");
    EXPECT_SAYS(parsed->integers("nested"), "an array of 2 array");
    EXPECT_SAYS(parsed->numbers("nested"), "an array of 2 array");
    EXPECT_SAYS(parsed->booleans("nested"), "an array of 2 array");
    EXPECT_SAYS(parsed->strings("nested"), "an array of 2 array");
}

TEST(Gguf, AFileMayHaveNoTensorsOrNothingAtAll) {
    Writer writer;
    EXPECT_EQ(Parsed(writer)->tensors().size(), 0U);
    EXPECT_EQ(Parsed(writer)->keys().size(), 0U);
    writer.add("only", "key");
    EXPECT_EQ(Parsed(writer)->string("only").value(), "key");
}

TEST(Gguf, MillionsOfStrings) {
#ifdef CELLAR_REDUCED_TESTS
    constexpr size_t kCount = 50'000;
#else
    constexpr size_t kCount = 2'000'000;
#endif
    std::vector<std::string> texts(kCount);
    for (size_t i = 0; i < kCount; ++i) texts[i] = std::string(i % 9, static_cast<char>('a' + i % 26));
    Writer writer;
    writer.add_strings("tokens", texts);
    writer.add("behind", uint32_t{5});
    const Parsed parsed(writer);
    const StringArray strings = parsed->strings("tokens").value();
    ASSERT_EQ(strings.size(), kCount);
    EXPECT_TRUE(std::equal(strings.begin(), strings.end(), texts.begin()));
    EXPECT_EQ(strings[kCount - 1], texts[kCount - 1]);
    EXPECT_EQ(parsed->integer("behind").value(), 5);
}

TEST(Gguf, OpensAFileAndSurvivesAMove) {
    const std::string path = (fs::temp_directory_path() / fmt::format("cellar-gguf-{}.gguf", ::getpid())).string();
    // One tensor is streamed in pieces.
    Writer writer = sample();
    writer.add_tensor("streamed", DType::F32, {256, 1024}, [](const Writer::Sink& sink) -> Result<void> {
        for (int row = 0; row < 1024; ++row) {
            const std::vector<float> values(256, static_cast<float>(row));
            CELLAR_TRY_VOID(sink(std::as_bytes(std::span(values))));
        }
        return {};
    });
    ASSERT_TRUE(writer.write(path));
    auto opened = File::open(path);
    ASSERT_TRUE(opened) << message(opened);
    const std::string_view text = opened->string("general.architecture").value();
    const File file = std::move(*opened);
    EXPECT_EQ(text.data(), file.string("general.architecture").value().data());
    EXPECT_EQ(file.path(), path);
    EXPECT_EQ(file.file_bytes(), fs::file_size(path));
    const TensorInfo* streamed = file.tensor("streamed");
    ASSERT_NE(streamed, nullptr);
    for (const TensorInfo& tensor : file.tensors()) EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % 8, 0U);
    for (int pass = 0; pass < 2; ++pass) {
        float last = 0;
        std::memcpy(&last, streamed->data + streamed->bytes - 4, 4);
        EXPECT_EQ(last, 1023.0F);
        file.drop(*streamed);
    }
    fs::remove(path);
    EXPECT_SAYS(File::open(path), "no such file");
}

TEST(Gguf, AWriterSaysWhenASourceIsWrong) {
    Writer writer;
    writer.add_tensor("short", DType::F32, {4}, [](const Writer::Sink& sink) { return sink(std::vector<std::byte>(12)); });
    EXPECT_SAYS(writer.to_bytes(), "tensor 'short': its source sent 12 bytes, but it has 16");
    Writer failing;
    failing.add_tensor("bad", DType::F32, {4}, [](const Writer::Sink&) -> Result<void> { return fail("no weights today"); });
    EXPECT_SAYS(failing.to_bytes(), "no weights today");
}

// A plain model of a file's keys.
using Value = std::variant<int64_t, float, bool, std::string, std::vector<int64_t>, std::vector<float>, std::vector<bool>, std::vector<std::string>>;

template <class T>
void put_integers(Writer& writer, const std::string& key, Value& value) {
    const auto any = *rc::gen::container<std::vector<T>>(rc::gen::arbitrary<T>());
    if (any.size() == 1) {
        writer.add(key, any[0]);
        value = static_cast<int64_t>(any[0]);
    } else {
        writer.add_array(key, any);
        value = std::vector<int64_t>(any.begin(), any.end());
    }
}

Value put_random(Writer& writer, const std::string& key) {
    Value value;
    switch (*rc::gen::inRange(0, 13)) {
        case 0:
            put_integers<uint8_t>(writer, key, value);
            break;
        case 1:
            put_integers<int8_t>(writer, key, value);
            break;
        case 2:
            put_integers<uint16_t>(writer, key, value);
            break;
        case 3:
            put_integers<int16_t>(writer, key, value);
            break;
        case 4:
            put_integers<uint32_t>(writer, key, value);
            break;
        case 5:
            put_integers<int32_t>(writer, key, value);
            break;
        case 6:
            put_integers<int64_t>(writer, key, value);
            break;
        case 7:
            writer.add(key, std::get<float>(value = *rc::gen::arbitrary<float>()));
            break;
        case 8:
            writer.add(key, std::get<bool>(value = *rc::gen::arbitrary<bool>()));
            break;
        case 9:
            writer.add(key, std::get<std::string>(value = *rc::gen::arbitrary<std::string>()));
            break;
        case 10:
            writer.add_array(key, std::get<std::vector<float>>(value = *rc::gen::arbitrary<std::vector<float>>()));
            break;
        case 11:
            writer.add_array(key, std::get<std::vector<bool>>(value = *rc::gen::arbitrary<std::vector<bool>>()));
            break;
        default:
            writer.add_strings(key, std::get<std::vector<std::string>>(value = *rc::gen::arbitrary<std::vector<std::string>>()));
            break;
    }
    return value;
}

void expect_same(const File& file, const std::string& key, const Value& value) {
    if (const auto* v = std::get_if<int64_t>(&value)) RC_ASSERT(file.integer(key).value() == *v);
    if (const auto* v = std::get_if<float>(&value)) RC_ASSERT(file.number(key).value() == *v);
    if (const auto* v = std::get_if<bool>(&value)) RC_ASSERT(file.boolean(key).value() == *v);
    if (const auto* v = std::get_if<std::string>(&value)) RC_ASSERT(file.string(key).value() == *v);
    if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) RC_ASSERT(file.integers(key).value() == *v);
    if (const auto* v = std::get_if<std::vector<float>>(&value)) RC_ASSERT(file.numbers(key).value() == *v);
    if (const auto* v = std::get_if<std::vector<bool>>(&value)) RC_ASSERT(file.booleans(key).value() == *v);
    if (const auto* v = std::get_if<std::vector<std::string>>(&value)) {
        const StringArray strings = file.strings(key).value();
        RC_ASSERT(std::vector<std::string>(strings.begin(), strings.end()) == *v);
    }
    RC_ASSERT(!file.value_text(key).empty());
}

RC_GTEST_PROP(GgufProperty, WhatIsWrittenIsRead, ()) {
    Writer writer(*rc::gen::element(2U, 3U), *rc::gen::element(8U, 16U, 32U, 64U, 1024U));
    std::map<std::string, Value> keys;
    std::map<std::string, std::vector<std::byte>> tensors;
    std::vector<std::string> order;
    for (int i = *rc::gen::inRange(0, 12); i > 0; --i) {
        const auto key = *rc::gen::nonEmpty<std::string>();
        if (key == "general.alignment" || keys.count(key) != 0) continue;
        keys[key] = put_random(writer, key);
        order.push_back(key);
    }
    for (int i = *rc::gen::inRange(0, 8); i > 0; --i) {
        const auto tensor = *rc::gen::nonEmpty<std::string>();
        if (tensors.count(tensor) != 0) continue;
        const DType type = *rc::gen::element(DType::F32, DType::BF16, DType::Q4_0, DType::Q8_0, DType::Q6_K);
        std::vector<int64_t> dims(*rc::gen::inRange<size_t>(1, 5));
        for (int64_t& dim : dims) dim = *rc::gen::inRange(1, 4);
        dims[0] *= info(type).block;
        int64_t rows = 1;
        for (size_t d = 1; d < dims.size(); ++d) rows *= dims[d];
        std::vector<std::byte> data(row_bytes(type, dims[0]) * static_cast<size_t>(rows));
        const auto start = *rc::gen::arbitrary<uint8_t>();
        for (size_t b = 0; b < data.size(); ++b) data[b] = static_cast<std::byte>(start + b * 13);
        tensors[tensor] = data;
        writer.add_tensor(tensor, type, dims, std::move(data));
    }
    const Parsed parsed(writer);
    RC_ASSERT(parsed.file.has_value());
    for (const std::string& key : order) expect_same(*parsed.file, key, keys[key]);
    std::vector<std::string> found;
    for (const Key& key : parsed->keys()) {
        if (key.name != "general.alignment") found.emplace_back(key.name);
    }
    RC_ASSERT(found == order);
    RC_ASSERT(parsed->tensors().size() == tensors.size());
    for (const auto& [tensor, data] : tensors) {
        const TensorInfo* info = parsed->tensor(tensor);
        RC_ASSERT(info != nullptr);
        RC_ASSERT(info->bytes == data.size());
        RC_ASSERT(std::memcmp(info->data, data.data(), data.size()) == 0);
    }
}

// The files of the golden set and the shipped model come from another writer.
TEST(Gguf, ReadsFilesOfAnotherWriter) {
    const fs::path shared = CELLAR_SOURCE_DIR "/../shared";
    if (!fs::is_directory(shared / "golden/quantized")) GTEST_SKIP() << "no folder " << shared;
    size_t files = 0;
    for (const char* folder : {"golden/quantized", "default-model", "tokenizers"}) {
        if (!fs::is_directory(shared / folder)) continue;
        for (const auto& entry : fs::recursive_directory_iterator(shared / folder)) {
            if (entry.path().extension() != ".gguf") continue;
            const auto file = File::open(entry.path().string());
            ASSERT_TRUE(file) << message(file);
            EXPECT_TRUE(file->string("general.architecture")) << entry.path();
            for (const Key& key : file->keys()) EXPECT_NE(file->value_text(key.name), "") << key.name;
            ++files;
        }
    }
    EXPECT_GE(files, 15U);
}

}  // namespace
}  // namespace cellar::gguf
