#include "text/utf8.h"

namespace cellar::text {

namespace {

// What a first byte asks for: the length, and the range of the second byte; all further bytes are 80..BF.
struct Lead {
    size_t length;  // 0: no first byte
    uint8_t low, high;
};

Lead lead(uint8_t byte) {
    if (byte < 0x80) return {1, 0, 0};
    if (byte < 0xC2) return {0, 0, 0};
    if (byte < 0xE0) return {2, 0x80, 0xBF};
    if (byte == 0xE0) return {3, 0xA0, 0xBF};
    if (byte == 0xED) return {3, 0x80, 0x9F};
    if (byte < 0xF0) return {3, 0x80, 0xBF};
    if (byte == 0xF0) return {4, 0x90, 0xBF};
    if (byte < 0xF4) return {4, 0x80, 0xBF};
    if (byte == 0xF4) return {4, 0x80, 0x8F};
    return {0, 0, 0};
}

// How many of the first bytes fit to one another, at most the length of the character.
size_t fitting(std::string_view text, const Lead& first) {
    size_t n = 1;
    while (n < first.length && n < text.size()) {
        const auto byte = static_cast<uint8_t>(text[n]);
        const bool fits = n == 1 ? byte >= first.low && byte <= first.high : (byte & 0xC0) == 0x80;
        if (!fits) break;
        ++n;
    }
    return n;
}

}  // namespace

size_t utf8_character(std::string_view text) {
    if (text.empty()) return 0;
    const Lead first = lead(static_cast<uint8_t>(text[0]));
    return first.length != 0 && fitting(text, first) == first.length ? first.length : 0;
}

bool utf8_unfinished(std::string_view text) {
    if (text.empty()) return false;
    const Lead first = lead(static_cast<uint8_t>(text[0]));
    return text.size() < first.length && fitting(text, first) == text.size();
}

uint32_t utf8_code_point(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
    switch (utf8_character(text)) {
        case 2:
            return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
        case 3:
            return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
        case 4:
            return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
        default:
            return byte(0);
    }
}

void append_utf8(uint32_t code_point, std::string& out) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code_point >> shift & 0x3F)); };
    if (code_point < 0x80) {
        out += static_cast<char>(code_point);
    } else if (code_point < 0x800) {
        out += static_cast<char>(0xC0 | code_point >> 6);
        tail(0);
    } else if (code_point < 0x10000) {
        out += static_cast<char>(0xE0 | code_point >> 12);
        tail(6);
        tail(0);
    } else {
        out += static_cast<char>(0xF0 | code_point >> 18);
        tail(12);
        tail(6);
        tail(0);
    }
}

bool is_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        const size_t length = utf8_character(text.substr(at));
        if (length == 0) return false;
        at += length;
    }
    return true;
}

}  // namespace cellar::text
