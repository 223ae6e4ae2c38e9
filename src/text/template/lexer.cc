#include "text/template/lexer.h"

#include <algorithm>
#include <array>

#include "text/template/print.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

std::string normalized(std::string_view source, const ParseOptions& options) {
    if (source.size() > max_source_bytes) raise_at(1, "the template has {} bytes, the limit is {}", source.size(), max_source_bytes);
    if (const auto bad = invalid_utf8_at(source)) {
        const auto line = 1 + std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(*bad), '\n');
        raise_at(static_cast<std::uint32_t>(line), "the template is not UTF-8 at byte {}", *bad);
    }
    std::string out;
    out.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
        out.push_back(source[i] == '\r' ? '\n' : source[i]);
    }
    if (!options.keep_trailing_newline && out.ends_with('\n')) out.pop_back();
    return out;
}

namespace {

constexpr std::array<std::string_view, 6> long_operators = {"==", "!=", "<=", ">=", "//", "**"};
constexpr std::string_view short_operators = "+-*/%~[](){}<>=.:|,;";

class Lexer {
  public:
    Lexer(std::string_view source, const ParseOptions& options) : source_(source), options_(options) {}

    std::vector<Token> run() {
        while (at_ < source_.size()) text_and_tag();
        tokens_.push_back({TokenKind::End, line_, {}});
        return std::move(tokens_);
    }

  private:
    // The text up to the next tag, and the tag.
    void text_and_tag() {
        const std::size_t begin = next_tag(at_);
        if (begin == source_.size()) {
            data(source_.substr(at_));
            return move_to(begin);
        }
        const char kind = source_[begin + 1];
        const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
        data(text_before(begin, kind, sign));
        move_to(begin);
        if (kind == '%' && raw_block()) return;
        const std::uint32_t line = line_;
        move_to(begin + 2 + (sign == '-' || sign == '+' ? 1 : 0));
        starts_line_ = false;
        if (kind == '#') return comment(line);
        push(kind == '%' ? TokenKind::BlockBegin : TokenKind::PrintBegin, source_.substr(begin, 2));
        inside(kind == '%', line);
    }

    std::size_t next_tag(std::size_t from) const {
        for (std::size_t i = from; (i = source_.find('{', i)) != std::string_view::npos; ++i) {
            const char next = i + 1 < source_.size() ? source_[i + 1] : '\0';
            if (next == '%' || next == '{' || next == '#') return i;
        }
        return source_.size();
    }

    // What is printed of the text from here to `end`, where a tag begins.
    std::string_view text_before(std::size_t end, char kind, char sign) const {
        const std::string_view text = source_.substr(at_, end - at_);
        if (sign == '-') return strip_right(text);
        if (sign == '+' || kind == '{' || !options_.lstrip_blocks) return text;
        const std::size_t line_begin = text.rfind('\n') + 1;  // 0 when there is none
        if (line_begin == 0 && !starts_line_) return text;
        return strip_left(text.substr(line_begin)).empty() ? text.substr(0, line_begin) : text;
    }

    // {% raw %} ... {% endraw %}: everything between is text. False when no such block begins here.
    bool raw_block() {
        std::size_t end = 0;
        if (!word_tag(at_, "raw", end)) return false;
        const std::uint32_t line = line_;
        if (source_[end] == '-') {
            move_to(end + 3);
            skip_space();
        } else {
            if (source_[end] == '+') return false;
            move_to(end + 2);
            starts_line_ = false;
        }
        for (std::size_t begin = at_; (begin = source_.find("{%", begin)) != std::string_view::npos; begin += 2) {
            if (!word_tag(begin, "endraw", end)) continue;
            data(text_before(begin, '%', source_[begin + 2]));
            move_to(end);
            block_end();
            return true;
        }
        raise_at(line, "the raw block is not closed: expected {{% endraw %}}");
    }

    // Whether the block tag at `begin` holds just this word. `end`: where its closing sign or %} stands.
    bool word_tag(std::size_t begin, std::string_view word, std::size_t& end) const {
        std::size_t i = begin + 2;
        if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) ++i;
        std::string_view rest = strip_left(source_.substr(i));
        if (!rest.starts_with(word)) return false;
        rest = strip_left(rest.substr(word.size()));
        end = source_.size() - rest.size();
        return rest.starts_with("%}") || rest.starts_with("-%}") || rest.starts_with("+%}");
    }

    void comment(std::uint32_t line) {
        const std::size_t end = source_.find("#}", at_);
        if (end == std::string_view::npos) raise_at(line, "the comment is not closed: expected '#}}'");
        const char sign = end > at_ ? source_[end - 1] : '\0';
        move_to(end + 2);
        if (sign == '-') return skip_space();
        if (sign != '+' && options_.trim_blocks) skip_line_break();
    }

    // The tokens of a tag, to its end.
    void inside(bool block, std::uint32_t line) {
        std::vector<char> open;
        while (true) {
            skip_space();
            starts_line_ = false;
            if (at_ >= source_.size()) raise_at(line, "the tag is not closed: expected '{}', found the end of the template", block ? "%}" : "}}");
            if (open.empty() && tag_end(block)) return;
            const char c = source_[at_];
            if (c == '\'' || c == '"') {
                string(c);
            } else if (c >= '0' && c <= '9') {
                number();
            } else if (is_word(decode(source_, at_).code)) {
                name();
            } else {
                op(open);
            }
        }
    }

    bool tag_end(bool block) {
        const std::string_view rest = source_.substr(at_);
        if (block) {
            if (!rest.starts_with("%}") && !rest.starts_with("-%}") && !rest.starts_with("+%}")) return false;
            push(TokenKind::BlockEnd, "%}");
            block_end();
            return true;
        }
        if (!rest.starts_with("}}") && !rest.starts_with("-}}")) return false;
        push(TokenKind::PrintEnd, "}}");
        move_to(at_ + (rest[0] == '-' ? 3 : 2));
        if (rest[0] == '-') skip_space();
        return true;
    }

    // Passes a %} with its sign, and the whitespace that goes with it.
    void block_end() {
        const char sign = source_[at_];
        move_to(at_ + (sign == '%' ? 2 : 3));
        starts_line_ = false;
        if (sign == '-') return skip_space();
        if (sign == '%' && options_.trim_blocks) skip_line_break();
    }

    void string(char quote) {
        std::size_t end = at_ + 1;
        while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size()) raise_at(line_, "the string is not closed: expected {}", quote);
        take(TokenKind::String, end + 1 - at_);
    }

    void name() {
        std::size_t end = at_;
        while (end < source_.size()) {
            const Point p = decode(source_, end);
            if (!is_word(p.code)) break;
            end += p.size;
        }
        take(TokenKind::Name, end - at_);
    }

    void number() {
        auto digits = [&](std::size_t from, std::string_view allowed) {
            const std::size_t end = source_.find_first_not_of(allowed, from);
            return end == std::string_view::npos ? source_.size() : end;
        };
        constexpr std::string_view decimal = "0123456789_";
        auto digit_at = [&](std::size_t i) { return i < source_.size() && source_[i] >= '0' && source_[i] <= '9'; };
        if (source_[at_] == '0' && at_ + 1 < source_.size() && std::string_view("xXoObB").find(source_[at_ + 1]) != std::string_view::npos)
            return take(TokenKind::Integer, digits(at_ + 2, "0123456789abcdefABCDEF_") - at_);
        std::size_t end = digits(at_, decimal);
        bool real = false;
        // In "x.0.5" the numbers are subscripts, not a fraction.
        const bool subscript = !tokens_.empty() && tokens_.back().text == "." && tokens_.back().kind == TokenKind::Operator;
        if (!subscript && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
            real = true;
            end = digits(end + 1, decimal);
        }
        if (!subscript && end < source_.size() && (source_[end] | 0x20) == 'e') {
            const std::size_t exponent = end + 1 + (end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0);
            if (digit_at(exponent)) {
                real = true;
                end = digits(exponent, decimal);
            }
        }
        take(real ? TokenKind::Float : TokenKind::Integer, end - at_);
    }

    void op(std::vector<char>& open) {
        const std::string_view rest = source_.substr(at_);
        for (const auto& candidate : long_operators)
            if (rest.starts_with(candidate)) return take(TokenKind::Operator, 2);
        const char c = rest[0];
        if (short_operators.find(c) == std::string_view::npos)
            raise_at(line_, "unexpected character '{}' in a tag", shortened(rest.substr(0, decode(rest, 0).size)));
        if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : static_cast<char>(c + 2));
        if (c == ')' || c == ']' || c == '}') {
            if (open.empty()) raise_at(line_, "unexpected '{}'", c);
            if (open.back() != c) raise_at(line_, "unexpected '{}', expected '{}'", c, open.back());
            open.pop_back();
        }
        take(TokenKind::Operator, 1);
    }

    void data(std::string_view text) {
        if (!text.empty()) push(TokenKind::Data, text);
    }
    void push(TokenKind kind, std::string_view text) { tokens_.push_back({kind, line_, text}); }
    void take(TokenKind kind, std::size_t size) {
        push(kind, source_.substr(at_, size));
        move_to(at_ + size);
    }
    void move_to(std::size_t to) {
        line_ += static_cast<std::uint32_t>(
            std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_), source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
        at_ = to;
    }
    void skip_space() {
        const std::string_view rest = source_.substr(at_), left = strip_left(rest);
        const std::size_t to = source_.size() - left.size();
        starts_line_ = to > at_ && source_[to - 1] == '\n';
        move_to(to);
    }
    void skip_line_break() {
        starts_line_ = at_ < source_.size() && source_[at_] == '\n';
        if (starts_line_) move_to(at_ + 1);
    }

    std::string_view source_;
    const ParseOptions& options_;
    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    std::uint32_t line_ = 1;
    bool starts_line_ = true;  // whether the text from here on begins a line
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const ParseOptions& options) {
    return Lexer(source, options).run();
}

namespace {

// The digits of \x41, \u0041, \U00000041 and \101, as a code point.
char32_t escaped_point(const Token& token, std::string_view& text, std::size_t digits, bool octal) {
    char32_t code = 0;
    std::size_t seen = 0;
    while (seen < digits && !text.empty()) {
        const char c = text.front(), lower = static_cast<char>(c | 0x20);
        const int value = c >= '0' && c <= (octal ? '7' : '9') ? c - '0' : !octal && lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
        if (value < 0) break;
        code = code * (octal ? 8 : 16) + static_cast<char32_t>(value);
        text.remove_prefix(1);
        ++seen;
    }
    if (!octal && seen < digits) raise_at(token.line, "a string escape has {} digits, expected {}", seen, digits);
    if (!is_scalar(code)) raise_at(token.line, "a string escape names {:#x}, which is no character", static_cast<unsigned>(code));
    return code;
}

}  // namespace

std::string unquoted(const Token& token) {
    std::string_view text = token.text.substr(1, token.text.size() - 2);
    std::string out;
    while (!text.empty()) {
        const std::size_t plain = std::min(text.find('\\'), text.size());
        out.append(text.substr(0, plain));
        text.remove_prefix(plain);
        if (text.empty()) break;
        constexpr std::string_view from = "\\'\"abfnrtv", to = "\\'\"\a\b\f\n\r\t\v";
        const char c = text[1];
        const std::size_t simple = from.find(c);
        if (simple != std::string_view::npos) {
            out.push_back(to[simple]);
            text.remove_prefix(2);
        } else if (c == '\n') {
            text.remove_prefix(2);
        } else if (c == 'x' || c == 'u' || c == 'U') {
            text.remove_prefix(2);
            append_point(out, escaped_point(token, text, c == 'x' ? 2 : c == 'u' ? 4 : 8, false));
        } else if (c >= '0' && c <= '7') {
            text.remove_prefix(1);
            append_point(out, escaped_point(token, text, 3, true));
        } else if (c == 'N') {
            raise_at(token.line, "characters by name (\\N{{...}}) are not supported in strings");
        } else {
            // An unknown escape is no escape: both characters stay.
            out.push_back('\\');
            text.remove_prefix(1);
        }
    }
    return out;
}

}  // namespace cellar::jinja
