#pragma once
// Characters in bytes that may not be UTF-8.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cellar::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";   // U+FFFD
inline constexpr std::string_view kVisibleSpace = "\xE2\x96\x81";  // U+2581, how pieces spell a space

// Bytes (1 to 4) of the well-formed character that `text` begins with; 0 if it begins with none. Surrogates, overlong forms and
// numbers above U+10FFFF are not well formed.
size_t utf8_character(std::string_view text);

// True if `text`, of 1 to 3 bytes, is the start of a well-formed character that more bytes could complete.
bool utf8_unfinished(std::string_view text);

// The code point of a well-formed character. Requires: utf8_character(text) > 0.
uint32_t utf8_code_point(std::string_view text);

void append_utf8(uint32_t code_point, std::string& out);

bool is_utf8(std::string_view text);

}  // namespace cellar::text
