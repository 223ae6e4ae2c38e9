#include "base/units.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace cellar {
namespace {

using Wide = unsigned __int128;

constexpr uint64_t kMostBytes = UINT64_MAX;

// digits [. digits] as a fraction numerator / denominator, both small enough that products with a unit stay within Wide.
struct Decimal {
    uint64_t numerator = 0;
    uint64_t denominator = 1;
    size_t length = 0;  // characters read; 0: no number
};

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

Decimal read_decimal(std::string_view text) {
    constexpr int kMostFractionDigits = 9;
    size_t end = 0;
    while (end < text.size() && is_digit(text[end])) ++end;
    Decimal number;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + end, number.numerator);
    if (end == 0 || error != std::errc() || stop != text.data() + end) return {};
    number.length = end;
    if (end == text.size() || text[end] != '.') return number;
    size_t digit = end + 1;
    for (; digit < text.size() && is_digit(text[digit]); ++digit) {
        if (digit - end > kMostFractionDigits) return {};
        if (__builtin_mul_overflow(number.numerator, 10, &number.numerator)) return {};
        if (__builtin_add_overflow(number.numerator, static_cast<uint64_t>(text[digit] - '0'), &number.numerator)) return {};
        number.denominator *= 10;
    }
    if (digit == end + 1) return {};
    number.length = digit;
    return number;
}

std::optional<uint64_t> unit_bytes(std::string_view unit) {
    if (unit.empty() || unit == "B") return 1;
    const std::string_view rest = unit.substr(1);
    if (!rest.empty() && rest != "B" && rest != "iB") return std::nullopt;
    const uint64_t step = rest == "B" ? 1000 : 1024;
    switch (unit[0]) {
        case 'k':
        case 'K':
            return step;
        case 'm':
        case 'M':
            return step * step;
        case 'g':
        case 'G':
            return step * step * step;
        case 't':
        case 'T':
            return step * step * step * step;
        default:
            return std::nullopt;
    }
}

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text, std::string_view what, uint64_t whole) {
    const Decimal number = read_decimal(text);
    const std::string_view unit = text.substr(number.length);
    if (number.length != 0 && unit == "%") {
        if (whole == 0) return fail("{}: '{}' is a percentage of nothing known here; give bytes, such as 8G", what, text);
        if (number.numerator > static_cast<Wide>(100) * number.denominator) return fail("{}: '{}' is more than 100%", what, text);
        return static_cast<uint64_t>(static_cast<Wide>(whole) * number.numerator / (static_cast<Wide>(100) * number.denominator));
    }
    const std::optional<uint64_t> bytes = unit_bytes(unit);
    if (number.length == 0 || !bytes) return fail("{}: '{}' is no amount of memory; write it like 4096, 512MiB, 8G or 50%", what, text);
    const Wide total = static_cast<Wide>(number.numerator) * *bytes / number.denominator;
    if (total > kMostBytes) return fail("{}: '{}' is more than any machine has", what, text);
    return static_cast<uint64_t>(total);
}

Result<uint64_t> parse_count(std::string_view text, std::string_view what) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return fail("{}: '{}' is no whole number", what, text);
    return value;
}

std::string format_bytes(uint64_t bytes) {
    constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) return fmt::format("{} B", bytes);
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    // 1023.5 would be shown as 1024.
    while (value >= 1023.5) {
        value /= 1024;
        ++unit;
    }
    const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

std::string format_count(uint64_t count) {
    std::string text = std::to_string(count);
    for (size_t at = text.size(); at > 3;) {
        at -= 3;
        text.insert(at, 1, ',');
    }
    return text;
}

}  // namespace cellar
