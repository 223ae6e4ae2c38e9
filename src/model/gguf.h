#pragma once
// GGUF files, versions 2 and 3, little endian: typed keys and named tensors, read in place from a map.
//
// A GGUF file is untrusted input. open() and parse() check every length, count and offset against the bytes that are
// there before they are used, and allocate no more than a small multiple of the file's size, so that a File that exists
// can be walked without further checks:
//   1. keys and tensor names are unique and not empty;
//   2. dimensions are >= 1, their product and the tensor's bytes fit in 63 bits, rows are whole blocks of the type;
//   3. tensors lie inside their file, at a multiple of its alignment, and do not overlap.
// What keys and shapes mean is not checked here.
//
// All views (names, strings, tensor data) live as long as the File; moving it does not move them.
// Thread rule: const functions may be called from many threads.
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace cellar::gguf {

// The numbers are those of the file format.
enum class ValueType : uint32_t { U8 = 0, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

// "u8", "f32", "bool", "string", "array"; "?" for a number that is no type.
std::string_view name(ValueType type);

struct Key {
    std::string_view name;
    ValueType type;         // Array for arrays
    ValueType element;      // of an array; the same as type for a scalar
    uint64_t count;         // elements of an array; 1 for a scalar
    const std::byte* data;  // the value, or the array's first element; as in the file, not aligned
    size_t bytes;
};

struct TensorInfo {
    std::string_view name;
    DType type;
    int n_dims;                   // 1..4
    std::array<int64_t, 4> dims;  // fastest first, unused = 1
    const std::byte* data;        // rows one after the other; aligned to 8 in an opened file
    size_t bytes;
};

// Strings of an array, as views into the file: one offset of 8 bytes for each, no allocation for each.
class StringArray {
  public:
    class Iterator {
      public:
        using value_type = std::string_view;
        using difference_type = std::ptrdiff_t;
        Iterator() = default;
        Iterator(const StringArray* array, size_t index) : array_(array), index_(index) {}
        std::string_view operator*() const { return (*array_)[index_]; }
        Iterator& operator++() { return ++index_, *this; }
        Iterator operator++(int) { return {array_, index_++}; }
        bool operator==(const Iterator& other) const { return index_ == other.index_; }

      private:
        const StringArray* array_ = nullptr;
        size_t index_ = 0;
    };

    [[nodiscard]] size_t size() const { return offsets_.size(); }
    [[nodiscard]] bool empty() const { return offsets_.empty(); }
    // Requires: i < size().
    [[nodiscard]] std::string_view operator[](size_t i) const;
    [[nodiscard]] Iterator begin() const { return {this, 0}; }
    [[nodiscard]] Iterator end() const { return {this, size()}; }

  private:
    friend class File;
    const std::byte* data_ = nullptr;
    std::vector<uint64_t> offsets_;  // [strings], of the length in front of each, from data_
};

class File {
  public:
    // Maps the file. For NAME-00001-of-000NN.gguf also all other parts, whose tensors follow in the order of the parts;
    // the keys are those of the first part. Opening another part than the first is refused.
    [[nodiscard]] static Result<File> open(const std::string& path);

    // Reads bytes that the caller keeps alive. `name` stands in messages. A part of a split file is refused.
    [[nodiscard]] static Result<File> parse(std::span<const std::byte> bytes, std::string name);

    [[nodiscard]] uint32_t version() const { return version_; }
    [[nodiscard]] uint32_t alignment() const { return alignment_; }                    // of the first part
    [[nodiscard]] const std::string& path() const { return path_; }                    // as given to open() or parse()
    [[nodiscard]] uint64_t file_bytes() const { return file_bytes_; }                  // of all parts
    [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in file order
    [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }               // in file order
    [[nodiscard]] const TensorInfo* tensor(std::string_view name) const;               // nullptr: no such tensor
    [[nodiscard]] const Key* find(std::string_view key) const;                         // nullptr: no such key
    [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }

    // A value in one line for people, control characters escaped: at most max_items elements, max_bytes of each string.
    // Empty when the key is missing.
    [[nodiscard]] std::string value_text(std::string_view key, size_t max_items = 8, size_t max_bytes = 80) const;

    // Scalars. Errors name the file, the key, what was wanted and what is there; the `_or` variants return the given
    // value when the key is missing, and an error when it is there and wrong.
    // integer: any integer type, with a value in [low, high].
    [[nodiscard]] Result<int64_t> integer(std::string_view key, int64_t low = kMin, int64_t high = kMax) const;
    [[nodiscard]] Result<int64_t> integer_or(std::string_view key, int64_t otherwise, int64_t low = kMin, int64_t high = kMax) const;
    // number: any float or integer type; finite, and within what a float holds.
    [[nodiscard]] Result<float> number(std::string_view key) const;
    [[nodiscard]] Result<float> number_or(std::string_view key, float otherwise) const;
    [[nodiscard]] Result<bool> boolean(std::string_view key) const;
    [[nodiscard]] Result<bool> boolean_or(std::string_view key, bool otherwise) const;
    [[nodiscard]] Result<std::string_view> string(std::string_view key) const;
    [[nodiscard]] Result<std::string_view> string_or(std::string_view key, std::string_view otherwise) const;

    // Arrays; a scalar counts as an array of one. An array of arrays is refused.
    [[nodiscard]] Result<std::vector<int64_t>> integers(std::string_view key, int64_t low = kMin, int64_t high = kMax) const;
    [[nodiscard]] Result<std::vector<float>> numbers(std::string_view key) const;  // not-finite elements are kept
    [[nodiscard]] Result<std::vector<bool>> booleans(std::string_view key) const;
    [[nodiscard]] Result<StringArray> strings(std::string_view key) const;

    // Gives the resident pages of a tensor back, for a loader that reads it once. Without effect on parsed bytes.
    void drop(const TensorInfo& tensor) const;

  private:
    File() = default;
    static constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
    static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    [[nodiscard]] Result<const Key*> require(std::string_view key) const;
    [[nodiscard]] tl::unexpected<Error> mistyped(const Key& key, std::string_view wanted) const;
    [[nodiscard]] Result<int64_t> load_integer(const Key& key, size_t i, int64_t low, int64_t high) const;
    [[nodiscard]] static Result<File> read(std::span<const std::byte> bytes, std::string name);  // one file or one part
    [[nodiscard]] static Result<File> open_alone(const std::string& path);
    [[nodiscard]] Result<void> index_tensors();  // refuses duplicates

    std::string path_;
    std::string shown_;  // the path, fit for a message
    uint32_t version_ = 0;
    uint32_t alignment_ = 0;
    uint64_t file_bytes_ = 0;
    std::vector<MappedFile> maps_;  // [parts]; empty for parsed bytes
    std::vector<Key> keys_;
    std::vector<TensorInfo> tensors_;
    std::vector<uint32_t> key_order_;     // [keys], sorted by name
    std::vector<uint32_t> tensor_order_;  // [tensors], sorted by name
};

// The files that a path stands for by its name alone: all parts of STEM-0000K-of-000NN.gguf, else the path itself.
std::vector<std::string> part_paths(const std::string& path);

}  // namespace cellar::gguf
