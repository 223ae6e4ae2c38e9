#pragma once
// Code points in UTF-8 text: the questions that Python's str answers. Case mapping is one to one, except that 'ß' becomes 'SS' in upper case.
// Requires: valid UTF-8 everywhere but in invalid_utf8_at; the module checks text at its borders.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cellar::jinja {

struct Point {
    char32_t code;
    std::size_t size;  // bytes
};

Point decode(std::string_view text, std::size_t at);
void append_point(std::string& out, char32_t code);  // Requires: is_scalar(code)
bool is_scalar(char32_t code);                       // a code point that UTF-8 may hold

// The first byte that is not valid UTF-8.
std::optional<std::size_t> invalid_utf8_at(std::string_view text);

std::size_t count_points(std::string_view text);
// The byte offset of code point n; the size of the text when it has fewer.
std::size_t offset_of(std::string_view text, std::size_t n);

bool is_space(char32_t code);
bool is_line_break(char32_t code);
bool is_alpha(char32_t code);
bool is_decimal(char32_t code);
bool is_digit(char32_t code);
bool is_numeric(char32_t code);
bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_printable(char32_t code);
bool is_word(char32_t code);  // letters, digits, underscore

void append_upper(std::string& out, char32_t code);
void append_lower(std::string& out, char32_t code);
void append_title(std::string& out, char32_t code);

// Where needle begins in text at or after from, in time linear in both; npos if nowhere.
std::size_t find(std::string_view text, std::string_view needle, std::size_t from = 0);
// The last place where needle begins; npos if nowhere.
std::size_t find_last(std::string_view text, std::string_view needle);

std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

}  // namespace cellar::jinja
