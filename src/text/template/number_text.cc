#include "text/template/number_text.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/template/budget.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

std::optional<std::size_t> take_number(std::string_view& text, std::uint64_t most) {
    std::optional<std::size_t> number;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
        number = number.value_or(0) * 10 + static_cast<std::size_t>(text.front() - '0');
        if (*number > most) raise("a width or precision is over the limit of {}", most);
        text.remove_prefix(1);
    }
    return number;
}

std::string float_digits(double value, char type, std::size_t precision, bool alternate) {
    constexpr std::size_t most_digits = 1000;
    if (precision > most_digits) raise("a precision of {} digits is over the limit of {}", precision, most_digits);
    const bool capital = type == 'F' || type == 'E' || type == 'G';
    if (std::isnan(value)) return capital ? "NAN" : "nan";
    if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + (capital ? "INF" : "inf");
    char buffer[1400];
    const char format[] = {'%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : type, alternate ? type : '\0', '\0'};
    const int size = std::snprintf(buffer, sizeof buffer, format, static_cast<int>(precision), value);
    return std::string(buffer, static_cast<std::size_t>(size));
}

namespace {

std::optional<int> digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    if (lower >= 'a' && lower <= 'z') return lower - 'a' + 10;
    return std::nullopt;
}

// Removes the underscores of 1_000; nothing where one stands anywhere but between two digits.
std::optional<std::string> without_underscores(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '_') {
            out.push_back(text[i]);
        } else if (i == 0 || i + 1 == text.size() || !digit_of(text[i - 1]) || !digit_of(text[i + 1])) {
            return std::nullopt;
        }
    }
    return out;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
    if (base != 0 && (base < 2 || base > 36)) raise("int() base must be >= 2 and <= 36, or 0");
    text = strip_left(strip_right(text));
    bool negative = false;
    if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
        negative = text.front() == '-';
        text.remove_prefix(1);
    }
    std::int64_t radix = base == 0 ? 10 : base;
    if (text.size() > 2 && text[0] == '0') {
        const char letter = static_cast<char>(text[1] | 0x20);
        const std::int64_t prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
        if (prefixed != 0 && (base == 0 || base == prefixed)) {
            radix = prefixed;
            text.remove_prefix(text[2] == '_' ? 3 : 2);
        }
    }
    const auto digits = without_underscores(text);
    if (!digits || digits->empty()) return std::nullopt;
    std::int64_t value = 0;
    bool overflow = false;
    for (const char c : *digits) {
        const auto digit = digit_of(c);
        if (!digit || *digit >= radix) return std::nullopt;
        overflow = overflow || __builtin_mul_overflow(value, radix, &value) || __builtin_sub_overflow(value, *digit, &value);
    }
    if (overflow || (!negative && value == INT64_MIN)) raise("the integer {} does not fit into 64 bits", shortened(text));
    return negative ? value : -value;
}

std::optional<double> parse_float(std::string_view text) {
    const auto plain = without_underscores(strip_left(strip_right(text)));
    if (!plain || plain->empty()) return std::nullopt;
    std::string_view rest = *plain;
    bool negative = false;
    if (rest.front() == '-' || rest.front() == '+') {
        negative = rest.front() == '-';
        rest.remove_prefix(1);
        if (rest.empty() || rest.front() == '-' || rest.front() == '+') return std::nullopt;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (end != rest.data() + rest.size() || error == std::errc::invalid_argument) return std::nullopt;
    // Neither end of the range is an error in Python, and from_chars does not say which end it was.
    if (error == std::errc::result_out_of_range) value = std::strtod(std::string(rest).c_str(), nullptr);
    if (plain->find('(') != std::string::npos) return std::nullopt;
    return negative ? -value : value;
}

std::int64_t truncated(double value) {
    if (std::isnan(value)) raise("cannot convert float NaN to integer");
    if (std::isinf(value)) raise("cannot convert float infinity to integer");
    const double whole = std::trunc(value);
    if (whole < -0x1p63 || whole >= 0x1p63) raise("the integer {} does not fit into 64 bits", float_text(whole));
    return static_cast<std::int64_t>(whole);
}

}  // namespace cellar::jinja
