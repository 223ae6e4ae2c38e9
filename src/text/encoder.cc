#include "text/encoder.h"

#include <algorithm>

#include <fmt/core.h>

namespace cellar::text {

namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

bool is_printable(uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteCharacters {
    std::array<uint32_t, 256> of_byte{};
    std::array<int16_t, 0x180> to_byte{};  // all characters lie below U+0180

    ByteCharacters() {
        to_byte.fill(-1);
        uint32_t next = 0x100;
        for (uint32_t byte = 0; byte < 256; ++byte) {
            of_byte[byte] = is_printable(byte) ? byte : next++;
            to_byte[of_byte[byte]] = static_cast<int16_t>(byte);
        }
    }
};

const ByteCharacters& byte_characters() {
    static const ByteCharacters characters;
    return characters;
}

}  // namespace

int byte_of_piece(std::string_view piece) {
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return -1;
    const int high = hex_digit(piece[3]);
    const int low = hex_digit(piece[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool is_text(TokenType type) {
    return type != TokenType::Control && type != TokenType::Unknown && type != TokenType::Byte;
}

ByteTokens::ByteTokens(const EncoderInput& input) {
    for (size_t byte = 0; byte < 256; ++byte) {
        const int32_t id = input.index.find(fmt::format("<0x{:02X}>", byte));
        ids[byte] = id >= 0 && input.types[static_cast<size_t>(id)] == TokenType::Byte ? id : -1;
    }
}

bool ByteTokens::complete() const {
    return std::all_of(ids.begin(), ids.end(), [](int32_t id) { return id >= 0; });
}

uint32_t character_of_byte(uint8_t byte) {
    return byte_characters().of_byte[byte];
}

int byte_of_character(uint32_t code_point) {
    const auto& table = byte_characters().to_byte;
    return code_point < table.size() ? table[code_point] : -1;
}

}  // namespace cellar::text
