#include "base/quote.h"

#include <cstdint>

namespace cellar {
namespace {

// Bytes of the UTF-8 character at the front of `text`; 0 if there is none: broken, overlong, a surrogate, too large.
size_t character_bytes(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    const uint8_t lead = byte(0);
    if (lead < 0x80) return 1;
    const size_t length = lead >= 0xC2 && lead < 0xE0 ? 2 : (lead & 0xF0) == 0xE0 ? 3 : lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
    if (length == 0 || text.size() < length) return 0;
    for (size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0) != 0x80) return 0;
    }
    if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0)) return 0;
    if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90)) return 0;
    return length;
}

// C1 controls, and the characters that break a line or turn the direction of the text around them.
bool is_hidden(std::string_view character) {
    if (character.size() == 2) return character[0] == '\xC2' && static_cast<uint8_t>(character[1]) < 0xA0;
    if (character.size() != 3 || character[0] != '\xE2') return false;
    const auto second = static_cast<uint8_t>(character[1]);
    const auto third = static_cast<uint8_t>(character[2]);
    return (second == 0x80 && third >= 0xA8 && third <= 0xAE) || (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

void append_hex(std::string& out, std::string_view bytes) {
    for (const char c : bytes) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        const auto byte = static_cast<uint8_t>(c);
        out += "\\x";
        out += kDigits[byte >> 4];
        out += kDigits[byte & 15];
    }
}

std::string escape(std::string_view text, size_t max_bytes, bool quotes) {
    std::string out;
    for (size_t i = 0; i < text.size();) {
        const size_t length = character_bytes(text.substr(i));
        const std::string_view character = text.substr(i, length == 0 ? 1 : length);
        if (i + character.size() > max_bytes) return out + "...";
        const char c = character[0];
        if (c == '\n') {
            out += "\\n";
        } else if (c == '\r') {
            out += "\\r";
        } else if (c == '\t') {
            out += "\\t";
        } else if (quotes && (c == '\'' || c == '\\')) {
            out += '\\';
            out += c;
        } else if (length == 0 || static_cast<uint8_t>(c) < 0x20 || c == 0x7F || is_hidden(character)) {
            append_hex(out, character);
        } else {
            out += character;
        }
        i += character.size();
    }
    return out;
}

}  // namespace

std::string quoted(std::string_view text, size_t max_bytes) {
    return "'" + escape(text, max_bytes, true) + "'";
}

std::string escaped(std::string_view text, size_t max_bytes) {
    return escape(text, max_bytes, false);
}

}  // namespace cellar
