#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/template/format.h"
#include "text/template/number_text.h"
#include "text/template/ops.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

// [[fill]align][sign][#][0][width][,][.precision][type]
struct Spec {
    char32_t fill = ' ';
    char align = 0;
    char sign = '-';
    bool alternate = false;
    bool zero = false;
    std::size_t width = 0;
    char grouping = 0;
    std::optional<std::size_t> precision;
    char type = 0;
};

bool is_align(char32_t c) {
    return c == '<' || c == '>' || c == '=' || c == '^';
}

Spec parse_spec(std::string_view text, const Budget& budget) {
    Spec spec;
    const std::string_view whole = text;
    auto take = [&](std::string_view any) -> char {
        if (text.empty() || any.find(text.front()) == std::string_view::npos) return 0;
        const char c = text.front();
        text.remove_prefix(1);
        return c;
    };
    bool filled = false;
    if (!text.empty()) {
        const Point first = decode(text, 0);
        filled = text.size() > first.size && is_align(static_cast<unsigned char>(text[first.size]));
        if (filled) {
            spec.fill = first.code;
            text.remove_prefix(first.size);
        }
        spec.align = take("<>=^");
    }
    if (const char sign = take("+- ")) spec.sign = sign;
    spec.alternate = take("#") != 0;
    spec.zero = take("0") != 0;
    if (spec.zero && !filled) spec.fill = '0';
    if (spec.zero && spec.align == 0) spec.align = '=';
    spec.width = take_number(text, budget.limits().value_bytes).value_or(0);
    spec.grouping = take(",_");
    if (take(".")) {
        spec.precision = take_number(text, budget.limits().value_bytes);
        if (!spec.precision) raise("Format specifier missing precision");
    }
    spec.type = take("bcdeEfFgGnosxX%");
    if (!text.empty()) raise("Invalid format specifier '{}'", shortened(whole));
    return spec;
}

// Puts `text`, which has `points` code points, into the width. With align '=' the padding goes behind the first `prefix` bytes.
void append_padded(Builder& out, const Spec& spec, std::string_view text, std::size_t prefix, char default_align) {
    const std::size_t points = count_points(text);
    const std::size_t padding = spec.width > points ? spec.width - points : 0;
    const char align = spec.align == 0 ? default_align : spec.align;
    const std::size_t before = align == '>' || align == '=' ? padding : align == '^' ? padding / 2 : 0;
    auto fill = [&](std::size_t n) {
        if (spec.fill < 0x80) return out.append(n, static_cast<char>(spec.fill));
        for (; n > 0; --n) out.append_point(spec.fill);
    };
    if (align == '=') out.append(text.substr(0, prefix));
    fill(before);
    out.append(align == '=' ? text.substr(prefix) : text);
    fill(padding - before);
}

std::string grouped(const std::string& digits, char separator, std::size_t every) {
    const std::size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
    std::string out;
    for (std::size_t i = 0; i < whole; ++i) {
        if (i > 0 && (whole - i) % every == 0) out.push_back(separator);
        out.push_back(digits[i]);
    }
    return out + digits.substr(whole);
}

void append_number(Builder& out, const Spec& spec, bool negative, std::string prefix, std::string digits) {
    if (spec.grouping != 0) {
        if (spec.fill == '0' && spec.align == '=' && spec.width > 0)
            raise("a width padded with zeros and grouping of digits do not go together here");
        digits = grouped(digits, spec.grouping, std::string_view("boxX").find(spec.type) != std::string_view::npos && spec.type != 0 ? 4 : 3);
    }
    if (negative) prefix = "-" + prefix;
    if (!negative && spec.sign != '-') prefix = spec.sign + prefix;
    append_padded(out, spec, prefix + digits, prefix.size(), '>');
}

void append_integer(Builder& out, const Value& value, const Spec& spec) {
    if (spec.precision) raise("Precision not allowed in integer format specifier");
    const bool negative = !value.is(Kind::Huge) && value.as_int() < 0;
    const std::uint64_t magnitude = value.is(Kind::Huge) ? value.as_huge()
                                    : negative           ? 0 - static_cast<std::uint64_t>(value.as_int())
                                                         : static_cast<std::uint64_t>(value.as_int());
    switch (spec.type) {
        case 'b':
            return append_number(out, spec, negative, spec.alternate ? "0b" : "", fmt::format("{:b}", magnitude));
        case 'o':
            return append_number(out, spec, negative, spec.alternate ? "0o" : "", fmt::format("{:o}", magnitude));
        case 'x':
            return append_number(out, spec, negative, spec.alternate ? "0x" : "", fmt::format("{:x}", magnitude));
        case 'X':
            return append_number(out, spec, negative, spec.alternate ? "0X" : "", fmt::format("{:X}", magnitude));
        case 'c': {
            if (negative || magnitude > 0x10ffff || !is_scalar(static_cast<char32_t>(magnitude))) raise("%c arg not in range(0x110000)");
            std::string text;
            append_point(text, static_cast<char32_t>(magnitude));
            return append_padded(out, spec, text, 0, '<');
        }
        default:
            return append_number(out, spec, negative, "", std::to_string(magnitude));
    }
}

}  // namespace

void append_formatted(Builder& out, const Value& value, std::string_view text) {
    if (text.empty()) return append_text(out, value);
    if (value.is(Kind::Undefined)) raise("unsupported format string passed to Undefined.__format__");
    const Spec spec = parse_spec(text, out.heap().budget());
    if (value.is(Kind::String)) {
        if ((spec.type != 0 && spec.type != 's') || spec.align == '=' || spec.grouping != 0 || spec.sign != '-')
            raise("Invalid format specifier '{}' for object of type 'str'", shortened(text));
        std::string_view cut = value.text();
        if (spec.precision) cut = cut.substr(0, offset_of(cut, *spec.precision));
        return append_padded(out, spec, cut, 0, '<');
    }
    if (!value.is_number()) raise("unsupported format string passed to {}.__format__", type_name(value));
    const bool real = spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
    if (!value.is(Kind::Float) && !real) {
        if (spec.type == 's') raise("Unknown format code 's' for object of type 'int'");
        return append_integer(out, value, spec);
    }
    if (spec.type != 0 && !real && spec.type != 'n') raise("Unknown format code '{}' for object of type 'float'", spec.type);
    const double number = to_double(value);
    std::string digits;
    if (spec.type == '%') {
        digits = float_digits(std::abs(number) * 100, 'f', spec.precision.value_or(6), spec.alternate) + "%";
    } else if (spec.type == 0 && !spec.precision) {
        digits = float_text(std::abs(number));
    } else {
        digits = float_digits(std::abs(number), spec.type == 0 || spec.type == 'n' ? 'g' : spec.type, spec.precision.value_or(6), spec.alternate);
        // Without a type a float always shows that it is one.
        if (spec.type == 0 && std::isfinite(number) && digits.find_first_of(".e") == std::string::npos) digits += ".0";
    }
    append_number(out, spec, std::signbit(number) && !std::isnan(number), "", digits);
}

}  // namespace cellar::jinja
