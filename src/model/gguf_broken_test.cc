// Broken files, each made from a good one by changing one thing. Every one must be refused in one line that says why.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "model/gguf.h"

namespace cellar::gguf {
namespace {

enum class Role { Magic, Version, Count, Length, Text, Type, Value, Dims, Dim, Offset, Data };

struct Field {
    std::string name;
    Role role;
    size_t offset;
    size_t bytes;
};

// The bytes of a file with the place of each field.
struct Image {
    std::vector<std::byte> bytes;
    std::vector<Field> fields;

    template <class T>
    void put(const std::string& name, Role role, T value) {
        fields.push_back({name, role, bytes.size(), sizeof(T)});
        const auto raw = std::as_bytes(std::span<const T>(&value, 1));
        bytes.insert(bytes.end(), raw.begin(), raw.end());
    }
    void put_string(const std::string& name, std::string_view text) {
        put(name + ".length", Role::Length, static_cast<uint64_t>(text.size()));
        fields.push_back({name + ".text", Role::Text, bytes.size(), text.size()});
        const auto raw = std::as_bytes(std::span(text));
        bytes.insert(bytes.end(), raw.begin(), raw.end());
    }
    void put_data(const std::string& name, size_t count, size_t padding) {
        fields.push_back({name, Role::Data, bytes.size(), count});
        bytes.resize(bytes.size() + count + padding, std::byte{0x11});
    }

    [[nodiscard]] const Field& field(std::string_view name) const {
        const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
        if (found == fields.end()) throw std::runtime_error("no field " + std::string(name));
        return *found;
    }
    template <class T>
    void set(std::string_view name, T value) {
        const Field& f = field(name);
        if (sizeof(T) != f.bytes) throw std::runtime_error("field " + f.name + " has another size");
        std::memcpy(bytes.data() + f.offset, &value, sizeof(T));
    }
    void set_text(std::string_view name, std::string_view text) {
        const Field& f = field(name);
        if (text.size() != f.bytes) throw std::runtime_error("field " + f.name + " has another size");
        std::memcpy(bytes.data() + f.offset, text.data(), text.size());
    }
    // Cuts the file `keep` bytes into the field.
    void cut(std::string_view name, size_t keep = 0) { bytes.resize(field(name).offset + keep); }
    // Bytes from the end of the field to the end of the file.
    [[nodiscard]] uint64_t behind(std::string_view name) const { return bytes.size() - field(name).offset - field(name).bytes; }
};

void put_key(Image& image, const std::string& key, ValueType type) {
    image.put_string(key, key);
    image.put(key + ".type", Role::Type, type);
}

void put_array(Image& image, const std::string& name, ValueType element, uint64_t count) {
    image.put(name + ".element", Role::Type, element);
    image.put(name + ".count", Role::Count, count);
}

void put_tensor(Image& image, const std::string& tensor, const std::vector<int64_t>& dims, DType type, uint64_t offset) {
    image.put_string(tensor, tensor);
    image.put(tensor + ".dims", Role::Dims, static_cast<uint32_t>(dims.size()));
    for (size_t i = 0; i < dims.size(); ++i) image.put(tensor + ".dim" + std::to_string(i), Role::Dim, dims[i]);
    image.put(tensor + ".type", Role::Type, type);
    image.put(tensor + ".offset", Role::Offset, offset);
}

Image good() {
    Image image;
    image.put("magic", Role::Magic, std::array<char, 4>{'G', 'G', 'U', 'F'});
    image.put("version", Role::Version, uint32_t{3});
    image.put("tensors", Role::Count, uint64_t{3});
    image.put("keys", Role::Count, uint64_t{9});
    put_key(image, "general.architecture", ValueType::String);
    image.put_string("architecture", "llama");
    put_key(image, "general.alignment", ValueType::U32);
    image.put("alignment", Role::Value, uint32_t{32});
    put_key(image, "key.bool", ValueType::Bool);
    image.put("bool", Role::Value, uint8_t{1});
    put_key(image, "key.f64", ValueType::F64);
    image.put("f64", Role::Value, 0.5);
    put_key(image, "key.ints", ValueType::Array);
    put_array(image, "ints", ValueType::I32, 3);
    for (int i = 0; i < 3; ++i) image.put("ints." + std::to_string(i), Role::Value, int32_t{i});
    put_key(image, "key.bools", ValueType::Array);
    put_array(image, "bools", ValueType::Bool, 2);
    for (int i = 0; i < 2; ++i) image.put("bools." + std::to_string(i), Role::Value, uint8_t{0});
    put_key(image, "key.texts", ValueType::Array);
    put_array(image, "texts", ValueType::String, 3);
    for (int i = 0; i < 3; ++i) image.put_string("texts." + std::to_string(i), std::string(static_cast<size_t>(i), 'x'));
    put_key(image, "key.nested", ValueType::Array);
    put_array(image, "nested", ValueType::Array, 1);
    put_array(image, "inner", ValueType::U16, 2);
    for (int i = 0; i < 2; ++i) image.put("inner." + std::to_string(i), Role::Value, uint16_t{7});
    put_key(image, "split.count", ValueType::U16);
    image.put("parts", Role::Value, uint16_t{1});
    put_tensor(image, "alpha", {4, 2}, DType::F32, 0);          // 32 bytes
    put_tensor(image, "bravo", {32, 3}, DType::Q8_0, 32);       // 102 bytes
    put_tensor(image, "delta", {5, 1, 1, 2}, DType::F16, 160);  // 20 bytes
    image.bytes.resize((image.bytes.size() + 31) / 32 * 32);
    image.put_data("alpha.data", 32, 0);
    image.put_data("bravo.data", 102, 26);
    image.put_data("delta.data", 20, 0);
    return image;
}

// Touches everything that a user of the file could.
size_t walk(const File& file) {
    size_t sum = 0;
    for (const Key& key : file.keys()) {
        sum += file.value_text(key.name, 1000).size();
        if (const auto v = file.integers(key.name)) sum += v->size();
        if (const auto v = file.numbers(key.name)) sum += v->size();
        if (const auto v = file.booleans(key.name)) sum += v->size();
        if (const auto v = file.strings(key.name)) {
            for (const std::string_view text : *v) sum += static_cast<size_t>(std::count(text.begin(), text.end(), 'x'));
        }
    }
    for (const TensorInfo& tensor : file.tensors()) {
        if (file.tensor(tensor.name) != &tensor) ADD_FAILURE() << "tensor " << tensor.name << " is not found";
        for (size_t i = 0; i < tensor.bytes; ++i) sum += std::to_integer<size_t>(tensor.data[i]);
    }
    return sum;
}

// Parses a copy that ends where the file ends, so that a sanitizer sees every byte that is read behind it.
Result<size_t> parse_and_walk(const std::vector<std::byte>& bytes) {
    const auto exact = std::make_unique<std::byte[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), exact.get());
    CELLAR_TRY(const File file, File::parse({exact.get(), bytes.size()}, "broken.gguf"));
    return walk(file);
}

void expect_one_line(const std::string& message) {
    EXPECT_EQ(message.rfind("broken.gguf: ", 0), 0U) << message;
    for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << message;
    EXPECT_LT(message.size(), 600U) << message;
}

struct Case {
    std::string what;
    std::function<void(Image&)> breaks;
    std::string says;
};

// A u64 that, multiplied by 8 or 32, becomes small again.
constexpr uint64_t kWraps = (uint64_t{1} << 61) + 1;

std::vector<Case> header_cases() {
    return {
        {"nothing at all", [](Image& i) { i.bytes.clear(); }, "not a GGUF file"},
        {"another magic", [](Image& i) { i.set_text("magic", "GGML"); }, "not a GGUF file: begins with 'GGML'"},
        {"control characters", [](Image& i) { i.set_text("magic", "\x1b[1m"); }, "'\\x1b[1m'"},
        {"an older format", [](Image& i) { i.set_text("magic", "tjgg"); }, "older GGML file"},
        {"a zip", [](Image& i) { i.set_text("magic", "PK\x03\x04"); }, "zip archive"},
        {"a web page", [](Image& i) { i.set_text("magic", "<htm"); }, "web page"},
        {"an LFS pointer", [](Image& i) { std::memcpy(i.bytes.data(), "version https://git-lfs.github.com/spec/v1", 42); }, "git lfs pull"},
        {"safetensors", [](Image& i) { std::memcpy(i.bytes.data(), "\x20\x01\0\0\0\0\0\0{\"", 10); }, "safetensors"},
        {"only a magic", [](Image& i) { i.cut("version"); }, "truncated: the version at byte 4"},
        {"version 0", [](Image& i) { i.set("version", uint32_t{0}); }, "version 0 is not supported"},
        {"version 1", [](Image& i) { i.set("version", uint32_t{1}); }, "version 1 is not supported"},
        {"version 4", [](Image& i) { i.set("version", uint32_t{4}); }, "version 4 is not supported, only 2 and 3"},
        {"a giant version", [](Image& i) { i.set("version", UINT32_MAX); }, "version 4294967295"},
        {"big-endian 3", [](Image& i) { i.set("version", uint32_t{0x03000000}); }, "big-endian"},
        {"big-endian magic", [](Image& i) { i.set_text("magic", "FUGG"); }, "big-endian"},
        {"cut in the counts", [](Image& i) { i.cut("keys", 5); }, "truncated: the number of keys"},
        {"too many keys", [](Image& i) { i.set("keys", uint64_t{10}); }, "broken.gguf"},
        {"too few keys", [](Image& i) { i.set("keys", uint64_t{8}); }, "broken.gguf"},
        {"more keys than bytes", [](Image& i) { i.set("keys", i.behind("keys") / 14 + 1); }, "keys, but the"},
        {"2^61 keys", [](Image& i) { i.set("keys", kWraps); }, "cannot hold that many"},
        {"2^64 - 1 keys", [](Image& i) { i.set("keys", UINT64_MAX); }, "cannot hold that many"},
        {"more tensors than bytes", [](Image& i) { i.set("tensors", i.behind("keys") / 33 + 1); }, "tensors, but the"},
        {"2^64 - 1 tensors", [](Image& i) { i.set("tensors", UINT64_MAX); }, "cannot hold that many"},
        {"a tensor too many", [](Image& i) { i.set("tensors", uint64_t{4}); }, "broken.gguf"},
    };
}

std::vector<Case> key_cases() {
    return {
        {"a key without a name", [](Image& i) { i.set("general.architecture.length", uint64_t{0}); }, "key 0 has an empty name"},
        {"a key's name behind the end", [](Image& i) { i.set("key.bool.length", i.behind("key.bool.length") + 1); }, "truncated: the name of key 2"},
        {"a giant key's name", [](Image& i) { i.set("key.bool.length", UINT64_MAX); }, "says it has 18446744073709551615 bytes"},
        {"a key's name beyond the format",
         [](Image& i) {
             i.bytes.resize(100'000);
             i.set("key.bool.length", uint64_t{65536});
         },
         "too long: 65536 bytes, at most 65535"},
        {"type 13", [](Image& i) { i.set("key.bool.type", uint32_t{13}); }, "type of key 'key.bool' is 13"},
        {"a giant type", [](Image& i) { i.set("key.f64.type", UINT32_MAX); }, "is 4294967295, which is no type of value"},
        {"element type 13", [](Image& i) { i.set("ints.element", uint32_t{13}); }, "element type of key 'key.ints' is 13"},
        {"inner element type 99", [](Image& i) { i.set("inner.element", uint32_t{99}); }, "element type of key 'key.nested' is 99"},
        {"bool 2", [](Image& i) { i.set("bool", uint8_t{2}); }, "key 'key.bool' has the bool 2"},
        {"bool 255 in an array", [](Image& i) { i.set("bools.1", uint8_t{255}); }, "key 'key.bools' has the bool 255"},
        {"an array behind the end", [](Image& i) { i.set("ints.count", i.behind("ints.count") / 4 + 1); }, "'key.ints' says it has"},
        {"an array whose bytes wrap", [](Image& i) { i.set("ints.count", (uint64_t{1} << 62) + 3); }, "cannot hold that many"},
        {"a giant array", [](Image& i) { i.set("bools.count", UINT64_MAX); }, "elements of type bool"},
        {"too many strings", [](Image& i) { i.set("texts.count", i.behind("texts.count") / 8 + 1); }, "elements of type string"},
        {"strings whose bytes wrap", [](Image& i) { i.set("texts.count", kWraps); }, "cannot hold that many"},
        {"strings that run into the next key", [](Image& i) { i.set("texts.count", uint64_t{40}); }, "truncated: a string of key 'key.texts'"},
        {"a string behind the end", [](Image& i) { i.set("texts.2.length", i.behind("texts.2.length") + 1); }, "a string of key 'key.texts'"},
        {"a giant string", [](Image& i) { i.set("architecture.length", UINT64_MAX); }, "key 'general.architecture' at byte"},
        {"a string whose end wraps", [](Image& i) { i.set("texts.0.length", UINT64_MAX - 7); }, "truncated: a string"},
        {"too many inner arrays", [](Image& i) { i.set("nested.count", uint64_t{1} << 60); }, "elements of type array"},
        {"a giant inner array", [](Image& i) { i.set("inner.count", UINT64_MAX / 2); }, "elements of type u16"},
        {"the same key twice", [](Image& i) { i.set_text("key.bools.text", "key.texts"); }, "duplicate key 'key.texts'"},
        {"a key with a line break, twice",
         [](Image& i) {
             i.set_text("key.bools.text", "key\n.\x1b[1m");
             i.set_text("key.texts.text", "key\n.\x1b[1m");
         },
         "duplicate key 'key\\n.\\x1b[1m'"},
        {"alignment 0", [](Image& i) { i.set("alignment", uint32_t{0}); }, "alignment is 0, which is not a power of two"},
        {"alignment 48", [](Image& i) { i.set("alignment", uint32_t{48}); }, "alignment is 48, which is not a power of two"},
        {"alignment 4", [](Image& i) { i.set("alignment", uint32_t{4}); }, "must be a multiple of 8"},
        {"alignment 2^31", [](Image& i) { i.set("alignment", uint32_t{1} << 31); }, "truncated: the data of 3 tensors should begin"},
        {"alignment of type f32", [](Image& i) { i.set("general.alignment.type", ValueType::F32); }, "alignment has type f32"},
        {"a part of a split file", [](Image& i) { i.set("parts", uint16_t{2}); }, "one of 2 split parts"},
        {"a split count of type bool",
         [](Image& i) {
             i.set("parts", uint16_t{0});
             i.set("split.count.type", ValueType::F32);
         },
         "broken.gguf"},
    };
}

std::vector<Case> tensor_cases() {
    return {
        {"a tensor without a name", [](Image& i) { i.set("alpha.length", uint64_t{0}); }, "tensor 0 has an empty name"},
        {"a tensor's name behind the end", [](Image& i) { i.set("bravo.length", UINT64_MAX); }, "truncated: the name of tensor 1"},
        {"a long tensor's name",
         [](Image& i) {
             i.bytes.resize(i.bytes.size() + 5000);
             i.set("bravo.length", uint64_t{1025});
         },
         "name of tensor 1 at byte"},
        {"the same tensor twice", [](Image& i) { i.set_text("bravo.text", "alpha"); }, "duplicate tensor 'alpha'"},
        {"no dimensions", [](Image& i) { i.set("alpha.dims", uint32_t{0}); }, "tensor 'alpha' has 0 dimensions"},
        {"five dimensions", [](Image& i) { i.set("alpha.dims", uint32_t{5}); }, "has 5 dimensions, it must have 1 to 4"},
        {"2^32 - 1 dimensions", [](Image& i) { i.set("delta.dims", UINT32_MAX); }, "has 4294967295 dimensions"},
        {"a dimension of 0", [](Image& i) { i.set("alpha.dim1", int64_t{0}); }, "'alpha' has dimension 1 of size 0"},
        {"a first dimension of 0", [](Image& i) { i.set("delta.dim0", int64_t{0}); }, "'delta' has dimension 0 of size 0"},
        {"a negative dimension", [](Image& i) { i.set("alpha.dim0", int64_t{-4}); }, "which overflows"},
        {"a product that overflows", [](Image& i) { i.set("alpha.dim0", INT64_MAX); }, "product overflows"},
        {"a product that wraps to a small one",
         [](Image& i) {
             i.set("delta.dim1", int64_t{1} << 32);
             i.set("delta.dim2", int64_t{1} << 32);
         },
         "product overflows: 5 x 4294967296 x 4294967296 x 2"},
        {"bytes that overflow",
         [](Image& i) {
             i.set("alpha.dim0", int64_t{1} << 61);
             i.set("alpha.dim1", int64_t{2});
         },
         "size in bytes that overflows"},
        {"a row that is no whole block", [](Image& i) { i.set("bravo.dim0", int64_t{33}); }, "not a multiple of the block of Q8_0: 32"},
        {"a row less than a block", [](Image& i) { i.set("alpha.type", DType::Q4_K); }, "rows of 4 elements"},
        {"an unknown type", [](Image& i) { i.set("alpha.type", uint32_t{31}); }, "unknown type 31; known are 0 F32, 1 F16"},
        {"a giant type", [](Image& i) { i.set("alpha.type", UINT32_MAX); }, "unknown type 4294967295"},
        {"a misaligned offset", [](Image& i) { i.set("bravo.offset", uint64_t{33}); }, "offset 33, which is not aligned to 32"},
        {"an offset behind the end", [](Image& i) { i.set("delta.offset", uint64_t{1} << 20); }, "'delta' lies outside the file"},
        {"an offset that wraps", [](Image& i) { i.set("delta.offset", UINT64_MAX - 31); }, "outside the file"},
        {"an offset into the last bytes", [](Image& i) { i.set("bravo.offset", uint64_t{96}); }, "'bravo' lies outside the file"},
        {"a row more than there is", [](Image& i) { i.set("delta.dim3", int64_t{3}); }, "outside the file: 30 bytes at offset 160 of 180"},
        {"tensors that overlap", [](Image& i) { i.set("bravo.offset", uint64_t{0}); }, "tensors 'alpha' and 'bravo' overlap"},
        {"a tensor inside another", [](Image& i) { i.set("delta.offset", uint64_t{64}); }, "tensors 'bravo' and 'delta' overlap"},
        {"a tensor that grew into the next", [](Image& i) { i.set("alpha.dim1", int64_t{3}); }, "tensors 'alpha' and 'bravo' overlap"},
        {"cut in the last tensor", [](Image& i) { i.cut("delta.data", 19); }, "may be truncated"},
        {"cut before the data", [](Image& i) { i.cut("alpha.data"); }, "outside the file"},
        {"cut in the last offset", [](Image& i) { i.cut("delta.offset", 7); }, "truncated: the offset of tensor 'delta'"},
    };
}

TEST(GgufBroken, TheGoodFileIsGood) {
    const auto result = parse_and_walk(good().bytes);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_GT(*result, 0U);
}

TEST(GgufBroken, EachIsRefusedWithTheReason) {
    size_t count = 0;
    for (const auto& cases : {header_cases(), key_cases(), tensor_cases()}) {
        for (const Case& broken : cases) {
            SCOPED_TRACE(broken.what);
            Image image = good();
            broken.breaks(image);
            const auto result = parse_and_walk(image.bytes);
            ASSERT_FALSE(result);
            expect_one_line(result.error().message);
            EXPECT_NE(result.error().message.find(broken.says), std::string::npos) << result.error().message;
            ++count;
        }
    }
    EXPECT_GE(count, 60U);
}

TEST(GgufBroken, EveryTruncationIsRefused) {
    const Image whole = good();
    for (size_t length = 0; length < whole.bytes.size(); ++length) {
        Image image = whole;
        image.bytes.resize(length);
        const auto result = parse_and_walk(image.bytes);
        ASSERT_FALSE(result) << length;
        expect_one_line(result.error().message);
        if (length >= 4) {
            const bool named = result.error().message.find("truncated") != std::string::npos ||
                               result.error().message.find("cannot hold that many") != std::string::npos;
            EXPECT_TRUE(named) << length << ": " << result.error().message;
        }
    }
}

// Whatever a length or a count claims to be, only the true one is taken.
TEST(GgufBroken, EveryLengthAndCountIsChecked) {
    const Image whole = good();
    for (const Field& field : whole.fields) {
        if (field.role != Role::Length && field.role != Role::Count) continue;
        uint64_t truth = 0;
        std::memcpy(&truth, whole.bytes.data() + field.offset, 8);
        for (const uint64_t claim : {truth + 1'000'000, whole.behind(field.name) + 1, uint64_t{1} << 31, uint64_t{1} << 32, kWraps, kWraps * 2,
                                     kWraps * 4, uint64_t{1} << 63, UINT64_MAX - 7, UINT64_MAX}) {
            Image image = whole;
            image.set(field.name, claim);
            const auto result = parse_and_walk(image.bytes);
            ASSERT_FALSE(result) << field.name << " = " << claim;
            expect_one_line(result.error().message);
        }
    }
}

// Another type in the place of each: refused, or another reading of the same bytes that still ends inside the file.
TEST(GgufBroken, EveryTypeInEveryPlaceIsSurvived) {
    const Image whole = good();
    size_t refused = 0;
    for (const Field& field : whole.fields) {
        if (field.role != Role::Type && field.role != Role::Dims) continue;
        for (uint32_t type = 0; type < 64; ++type) {
            Image image = whole;
            image.set(field.name, type);
            const auto result = parse_and_walk(image.bytes);
            if (result) continue;
            expect_one_line(result.error().message);
            ++refused;
        }
    }
    EXPECT_GT(refused, 1000U);
}

TEST(GgufBroken, ArraysNestedTooDeep) {
    for (const int depth : {2, 4, 5, 100, 20'000}) {
        Image image;
        image.put("magic", Role::Magic, std::array<char, 4>{'G', 'G', 'U', 'F'});
        image.put("version", Role::Version, uint32_t{3});
        image.put("tensors", Role::Count, uint64_t{0});
        image.put("keys", Role::Count, uint64_t{1});
        put_key(image, "deep", ValueType::Array);
        for (int level = 1; level < depth; ++level) put_array(image, "level", ValueType::Array, 1);
        put_array(image, "last", ValueType::U8, 1);
        image.put("value", Role::Value, uint8_t{1});
        const auto result = parse_and_walk(image.bytes);
        if (depth <= 4) {
            EXPECT_TRUE(result) << depth << ": " << result.error().message;
        } else {
            ASSERT_FALSE(result) << depth;
            EXPECT_NE(result.error().message.find("key 'deep' nests arrays too deep"), std::string::npos) << result.error().message;
        }
    }
}

TEST(GgufBroken, RandomChangesAreSurvived) {
#ifdef CELLAR_REDUCED_TESTS
    constexpr int kRounds = 5'000;
#else
    constexpr int kRounds = 50'000;
#endif
    const Image whole = good();
    std::mt19937_64 random(17);
    int accepted = 0;
    for (int round = 0; round < kRounds; ++round) {
        std::vector<std::byte> bytes = whole.bytes;
        for (uint64_t changes = random() % 4 + 1; changes > 0; --changes) {
            const size_t at = random() % (bytes.size() - 8);
            const uint64_t value = random() >> (random() % 64);
            std::memcpy(bytes.data() + at, &value, size_t{1} << (random() % 4));
        }
        if (random() % 4 == 0) bytes.resize(random() % bytes.size());
        const auto result = parse_and_walk(bytes);
        if (result) {
            ++accepted;
        } else {
            expect_one_line(result.error().message);
        }
    }
    EXPECT_GT(accepted, kRounds / 100) << "changes that only meet data or values are fine";
    EXPECT_LT(accepted, kRounds * 9 / 10);
}

}  // namespace
}  // namespace cellar::gguf
