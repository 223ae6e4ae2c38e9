#pragma once
// Reads numbers and spans from bytes that others wrote. Little-endian, unaligned, never past the end.
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace cellar {

// A position in bytes that the caller keeps alive. A read that does not fit returns an error that names the source, the field and
// the byte, and moves nothing.
class ByteReader {
  public:
    // `source` names the file or message in errors and must outlive the reader.
    ByteReader(std::span<const std::byte> bytes, std::string_view source) : bytes_(bytes), source_(source) {}

    // The next number; `field` names it in errors.
    template <class T>
    requires(std::integral<T> || std::floating_point<T>) && (!std::same_as<T, bool>)Result<T> read(std::string_view field) {
        CELLAR_TRY(const std::span<const std::byte> bytes, take(sizeof(T), field));
        std::byte raw[sizeof(T)];
        for (size_t i = 0; i < sizeof(T); ++i) raw[i] = bytes[std::endian::native == std::endian::little ? i : sizeof(T) - 1 - i];
        T value;
        std::memcpy(&value, raw, sizeof(T));
        return value;
    }

    // The next `count` bytes, in place.
    Result<std::span<const std::byte>> take(uint64_t count, std::string_view field);

    // The next `count` bytes as text, in place. Any bytes are taken: they need not be UTF-8.
    Result<std::string_view> take_text(uint64_t count, std::string_view field);

    // The next `count` records of `size` bytes each, in place. Refuses a product that overflows.
    Result<std::span<const std::byte>> take_records(uint64_t count, uint64_t size, std::string_view field);

    // Goes to a byte counted from the start, at most to the end.
    Result<void> seek(uint64_t position, std::string_view field);

    [[nodiscard]] uint64_t position() const { return position_; }
    [[nodiscard]] uint64_t remaining() const { return bytes_.size() - position_; }

  private:
    std::span<const std::byte> bytes_;
    std::string_view source_;
    uint64_t position_ = 0;
};

}  // namespace cellar
