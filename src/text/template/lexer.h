#pragma once
// A template's source as tokens. Whitespace control happens here: what is left of the text between tags is what will be printed.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/budget.h"

namespace cellar::jinja {

struct ParseOptions {
    bool trim_blocks = true;             // the line break behind a block or comment goes
    bool lstrip_blocks = true;           // the spaces before a block or comment go, when nothing else stands before it on its line
    bool keep_trailing_newline = false;  // one line break at the very end stays
};

enum class TokenKind : std::uint8_t {
    Data,
    PrintBegin,
    PrintEnd,
    BlockBegin,
    BlockEnd,
    Name,
    String,  // with its quotes and escapes
    Integer,
    Float,
    Operator,
    End,
};

struct Token {
    TokenKind kind;
    std::uint32_t line;  // from 1
    std::string_view text;
};

// An error in the source, with its line.
template <class... Args>
[[noreturn]] void raise_at(std::uint32_t line, fmt::format_string<Args...> format, Args&&... args) {
    throw Failure{fmt::format("line {}: {}", line, fmt::format(format, std::forward<Args>(args)...))};
}

// Line breaks all become \n. Fails on what is not UTF-8 or too large.
std::string normalized(std::string_view source, const ParseOptions& options);

// The tokens, which point into `source`; the last one is End.
std::vector<Token> tokenize(std::string_view source, const ParseOptions& options);

// What a String token means. Fails on broken escapes.
std::string unquoted(const Token& token);

}  // namespace cellar::jinja
