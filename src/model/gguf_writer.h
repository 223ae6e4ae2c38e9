#pragma once
// Writes GGUF files, for tests and tools. It lays out what it is given: that the result makes sense is checked by
// whoever opens it. Tensors can be streamed, so a file may be larger than memory.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"

namespace cellar::gguf {

template <class T>
concept Scalar = std::same_as<T, uint8_t> || std::same_as<T, int8_t> || std::same_as<T, uint16_t> || std::same_as<T, int16_t> ||
    std::same_as<T, uint32_t> || std::same_as<T, int32_t> || std::same_as<T, uint64_t> || std::same_as<T, int64_t> || std::same_as<T, float> ||
    std::same_as<T, double> || std::same_as<T, bool>;

class Writer {
  public:
    using Sink = std::function<Result<void>(std::span<const std::byte>)>;
    // Sends a tensor's bytes to the sink, in as many pieces as it likes. Called once for each time the file is written.
    using Source = std::function<Result<void>(const Sink&)>;

    // Requires: alignment is a power of two. An alignment other than 32 is written as general.alignment.
    explicit Writer(uint32_t version = 3, uint32_t alignment = 32);

    // Metadata, in the order of the calls. The type of the value is the type in the file: add("a.b", uint32_t{4}).
    template <Scalar T>
    void add(std::string_view key, T value) {
        add_scalars(key, type_of<T>(), false, 1, bytes_of(&value, 1));
    }
    void add(std::string_view key, std::string_view text);
    void add(std::string_view key, const char* text) { add(key, std::string_view(text)); }
    template <Scalar T>
    void add_array(std::string_view key, const std::vector<T>& values) {
        if constexpr (std::same_as<T, bool>) {
            const std::vector<uint8_t> flags(values.begin(), values.end());
            add_scalars(key, ValueType::Bool, true, flags.size(), bytes_of(flags.data(), flags.size()));
        } else {
            add_scalars(key, type_of<T>(), true, values.size(), bytes_of(values.data(), values.size()));
        }
    }
    void add_strings(std::string_view key, const std::vector<std::string>& texts);
    // A value as it stands in the file behind its type.
    void add_raw(std::string_view key, ValueType type, std::span<const std::byte> value);

    // Dimensions fastest first. Requires: 1 to 4 dimensions >= 1 with rows of whole blocks; as many bytes as they take.
    void add_tensor(std::string_view name, DType type, const std::vector<int64_t>& dims, std::vector<std::byte> data);
    // Requires: can_encode(type) (row_codec.h), and one value for each element.
    void add_tensor(std::string_view name, DType type, const std::vector<int64_t>& dims, const std::vector<float>& values);
    void add_tensor(std::string_view name, DType type, const std::vector<int64_t>& dims, Source source);

    // Errors: the system's, and a source that fails or sends another number of bytes than its tensor has.
    [[nodiscard]] Result<void> write(const std::string& path) const;
    [[nodiscard]] Result<std::vector<std::byte>> to_bytes() const;

    // STEM-00001-of-000NN.gguf and so on, tensors in even shares, all keys in the first part; returns the paths.
    // Requires: 1 <= parts <= 65535.
    [[nodiscard]] Result<std::vector<std::string>> write_split(const std::string& stem, int parts) const;

  private:
    struct Pair {
        std::string key;
        std::vector<std::byte> value;  // type and value, as in the file
    };
    struct Tensor {
        std::string name;
        DType type;
        std::vector<int64_t> dims;
        uint64_t bytes;
        std::vector<std::byte> data;  // unless there is a source
        Source source;
    };

    template <Scalar T>
    static constexpr ValueType type_of() {
        if constexpr (std::same_as<T, uint8_t>) return ValueType::U8;
        if constexpr (std::same_as<T, int8_t>) return ValueType::I8;
        if constexpr (std::same_as<T, uint16_t>) return ValueType::U16;
        if constexpr (std::same_as<T, int16_t>) return ValueType::I16;
        if constexpr (std::same_as<T, uint32_t>) return ValueType::U32;
        if constexpr (std::same_as<T, int32_t>) return ValueType::I32;
        if constexpr (std::same_as<T, uint64_t>) return ValueType::U64;
        if constexpr (std::same_as<T, int64_t>) return ValueType::I64;
        if constexpr (std::same_as<T, float>) return ValueType::F32;
        if constexpr (std::same_as<T, double>) return ValueType::F64;
        return ValueType::Bool;
    }
    template <class T>
    static std::span<const std::byte> bytes_of(const T* values, size_t count) {
        return std::as_bytes(std::span<const T>(values, count));
    }
    void add_scalars(std::string_view key, ValueType type, bool array, uint64_t count, std::span<const std::byte> values);
    [[nodiscard]] std::vector<std::byte> head(std::span<const Pair> keys, std::span<const Tensor> tensors) const;
    Result<void> emit(std::span<const Pair> keys, std::span<const Tensor> tensors, const Sink& sink) const;
    Result<void> write_part(std::span<const Pair> keys, std::span<const Tensor> tensors, const std::string& path) const;

    uint32_t version_;
    uint32_t alignment_;
    std::vector<Pair> keys_;
    std::vector<Tensor> tensors_;
};

}  // namespace cellar::gguf
