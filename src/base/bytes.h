#pragma once
// Reads numbers and spans from bytes that others wrote, and writes such bytes. Little-endian, unaligned, never past the end.
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cellar {

template <class T>
concept Number = (std::integral<T> || std::floating_point<T>)&&!std::same_as<T, bool>;

// A position in bytes that the caller keeps alive. A read that does not fit returns an error that names the source, the field and
// the byte, and moves nothing.
class ByteReader {
  public:
    // `source` names the file or message in errors and must outlive the reader.
    ByteReader(std::span<const std::byte> bytes, std::string_view source) : bytes_(bytes), source_(source) {}

    // The next number; `field` names it in errors.
    template <Number T>
    Result<T> read(std::string_view field) {
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

// Bytes that grow at their end, for a ByteReader to read.
class ByteWriter {
  public:
    template <Number T>
    void add(T value) {
        std::byte raw[sizeof(T)];
        std::memcpy(raw, &value, sizeof(T));
        if constexpr (std::endian::native == std::endian::big) std::ranges::reverse(raw);
        add_bytes(raw);
    }
    void add_bytes(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    // The number of bytes as u32, then the bytes. Requires: fewer than 2^32 of them.
    void add_text(std::string_view text) {
        add(static_cast<uint32_t>(text.size()));
        add_bytes(std::as_bytes(std::span(text)));
    }
    // Zeros up to a multiple of `to` bytes.
    void align(size_t to) { bytes_.resize((bytes_.size() + to - 1) / to * to); }

    [[nodiscard]] std::span<const std::byte> view() const { return bytes_; }
    [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

}  // namespace cellar
