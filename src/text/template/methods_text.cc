// The methods of str that give text or a yes or no; methods_splitting.cc has those that search and take apart.
#include "text/template/builtin.h"
#include "text/template/format.h"
#include "text/template/markup.h"
#include "text/template/ops.h"
#include "text/template/print.h"
#include "text/template/text_ops.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

Value none_or(const Args& args, std::size_t i) {
    return args.at(i) == nullptr ? Value() : *args.at(i);
}

// Markup escapes the text that its methods are given.
void escape_given(Runtime& rt, const Value& self, Args& args) {
    if (!is_markup(self)) return;
    for (Value& value : args.given)
        if (value.is(Kind::String)) value = escape(rt.heap, value);
}

Value method_strip(Runtime& rt, const Value& self, Args& args) {
    escape_given(rt, self, args);
    return strip(rt.heap, self, none_or(args, 0), true, true);
}

Value method_lstrip(Runtime& rt, const Value& self, Args& args) {
    escape_given(rt, self, args);
    return strip(rt.heap, self, none_or(args, 0), true, false);
}

Value method_rstrip(Runtime& rt, const Value& self, Args& args) {
    escape_given(rt, self, args);
    return strip(rt.heap, self, none_or(args, 0), false, true);
}

Value method_upper(Runtime& rt, const Value& self, Args&) {
    return upper(rt.heap, self);
}
Value method_lower(Runtime& rt, const Value& self, Args&) {
    return lower(rt.heap, self);
}
Value method_capitalize(Runtime& rt, const Value& self, Args&) {
    return capitalize(rt.heap, self);
}

template <class Map>
Value mapped(Runtime& rt, const Value& self, Map map) {
    const std::string& text = self.text();
    rt.budget.work(8 * text.size());
    Builder out(rt.heap);
    std::string piece;
    for (std::size_t at = 0; at < text.size();) {
        const Point p = decode(text, at);
        piece.clear();
        map(piece, p.code);
        out.append(piece);
        at += p.size;
    }
    return out.finish(is_markup(self));
}

Value method_title(Runtime& rt, const Value& self, Args&) {
    bool inside = false;  // a word is a run of letters that have a case
    return mapped(rt, self, [&](std::string& out, char32_t code) {
        inside ? append_lower(out, code) : append_title(out, code);
        inside = is_upper(code) || is_lower(code);
    });
}

Value method_swapcase(Runtime& rt, const Value& self, Args&) {
    return mapped(rt, self, [](std::string& out, char32_t code) { is_upper(code) ? append_lower(out, code) : append_upper(out, code); });
}

Value method_replace(Runtime& rt, const Value& self, Args& args) {
    escape_given(rt, self, args);
    return replace(rt.heap, self, text_arg(args, 0, "old", ""), text_arg(args, 1, "new", ""), int_arg(args, 2, "count", -1));
}

Value method_join(Runtime& rt, const Value& self, Args& args) {
    const bool markup = is_markup(self);
    Builder out(rt.heap);
    Cursor cursor(rt.heap, args.given[0]);
    std::int64_t i = 0;
    for (Value item; cursor.next(item); ++i) {
        if (i > 0) out.append(self.text());
        if (markup) item = escape(rt.heap, item);
        if (item.is(Kind::Undefined)) raise_undefined(item);
        if (!item.is(Kind::String)) raise("sequence item {}: expected str instance, {} found", i, type_name(item));
        out.append(item.text());
    }
    return out.finish(markup);
}

Value method_format(Runtime& rt, const Value& self, Args& args) {
    return format_braces(rt.heap, self, args);
}

Value method_format_map(Runtime& rt, const Value& self, Args& args) {
    const Value& map = args.given[0];
    if (!map.is(Kind::Dict)) raise("format_map() expects a mapping, not {}", type_name(map));
    Args fields;
    for (const auto& [key, value] : map.as<Dict>().entries)
        if (key.is(Kind::String)) fields.named.emplace_back(key.text(), value);
    return format_braces(rt.heap, self, fields);
}

Value method_zfill(Runtime& rt, const Value& self, Args& args) {
    const std::string& text = self.text();
    const std::int64_t width = int_arg(args, 0, "width", 0);
    const bool sign = text.starts_with('+') || text.starts_with('-');
    if (!sign) return pad(rt.heap, self, width, '0', Side::Left);
    const Value digits = pad(rt.heap, rt.heap.string(text.substr(1)), width < 1 ? 0 : width - 1, '0', Side::Left);
    return rt.heap.string(text.substr(0, 1) + digits.text(), is_markup(self));
}

Value padded(Runtime& rt, const Value& self, const Args& args, Side side) {
    const std::string_view fill = text_arg(args, 1, "fillchar", " ");
    if (fill.empty() || decode(fill, 0).size != fill.size()) raise("The fill character must be exactly one character long");
    return pad(rt.heap, self, int_arg(args, 0, "width", 0), decode(fill, 0).code, side);
}

Value method_center(Runtime& rt, const Value& self, Args& args) {
    return padded(rt, self, args, Side::Both);
}
Value method_ljust(Runtime& rt, const Value& self, Args& args) {
    return padded(rt, self, args, Side::Right);
}
Value method_rjust(Runtime& rt, const Value& self, Args& args) {
    return padded(rt, self, args, Side::Left);
}

Value method_expandtabs(Runtime& rt, const Value& self, Args& args) {
    const std::int64_t size = std::max<std::int64_t>(int_arg(args, 0, "tabsize", 8), 0);
    rt.budget.check_value(static_cast<std::uint64_t>(size));
    Builder out(rt.heap);
    std::int64_t column = 0;
    const std::string& text = self.text();
    for (std::size_t at = 0; at < text.size();) {
        const Point p = decode(text, at);
        if (p.code == '\t') {
            const std::int64_t spaces = size == 0 ? 0 : size - column % size;
            out.append(static_cast<std::size_t>(spaces), ' ');
            column += spaces;
        } else {
            out.append(std::string_view(text).substr(at, p.size));
            column = p.code == '\n' || p.code == '\r' ? 0 : column + 1;
        }
        at += p.size;
    }
    rt.budget.work(8 * text.size());
    return out.finish(is_markup(self));
}

Value method_encode(Runtime&, const Value&, Args&) {
    raise("str.encode() gives bytes, which templates do not have here");
}

template <bool (*wanted)(char32_t)>
Value all(Runtime& rt, const Value& self, Args&) {
    const std::string& text = self.text();
    rt.budget.work(8 * text.size());
    for (std::size_t at = 0; at < text.size();) {
        const Point p = decode(text, at);
        if (!wanted(p.code)) return Value::boolean(false);
        at += p.size;
    }
    return Value::boolean(!text.empty());
}

bool is_alphanumeric(char32_t code) {
    return is_alpha(code) || is_decimal(code) || is_digit(code) || is_numeric(code);
}
bool is_ascii(char32_t code) {
    return code < 0x80;
}

Value method_isupper(Runtime&, const Value& self, Args&) {
    return Value::boolean(is_cased(self, is_upper, is_lower));
}
Value method_islower(Runtime&, const Value& self, Args&) {
    return Value::boolean(is_cased(self, is_lower, is_upper));
}

Value method_istitle(Runtime& rt, const Value& self, Args& args) {
    const Value title = method_title(rt, self, args);
    const bool any = is_cased(self, is_upper, [](char32_t) { return false; });
    return Value::boolean(any && title.text() == self.text());
}

Value method_isascii(Runtime& rt, const Value& self, Args& args) {
    return self.text().empty() ? Value::boolean(true) : all<is_ascii>(rt, self, args);
}

Value method_isprintable(Runtime& rt, const Value& self, Args& args) {
    return self.text().empty() ? Value::boolean(true) : all<is_printable>(rt, self, args);
}

Value method_isidentifier(Runtime& rt, const Value& self, Args& args) {
    if (self.text().empty() || is_numeric(decode(self.text(), 0).code)) return Value::boolean(false);
    return all<is_word>(rt, self, args);
}

constexpr Builtin table[] = {
    {"strip", "chars", method_strip},
    {"lstrip", "chars", method_lstrip},
    {"rstrip", "chars", method_rstrip},
    {"upper", "", method_upper},
    {"lower", "", method_lower},
    {"casefold", "", method_lower},
    {"title", "", method_title},
    {"capitalize", "", method_capitalize},
    {"swapcase", "", method_swapcase},
    {"replace", "old! new! count", method_replace},
    {"join", "iterable!", method_join},
    {"format", "* **", method_format},
    {"format_map", "mapping!", method_format_map},
    {"zfill", "width!", method_zfill},
    {"center", "width! fillchar", method_center},
    {"ljust", "width! fillchar", method_ljust},
    {"rjust", "width! fillchar", method_rjust},
    {"expandtabs", "tabsize", method_expandtabs},
    {"encode", "* **", method_encode},
    {"isdigit", "", all<is_digit>},
    {"isdecimal", "", all<is_decimal>},
    {"isnumeric", "", all<is_numeric>},
    {"isalpha", "", all<is_alpha>},
    {"isalnum", "", all<is_alphanumeric>},
    {"isspace", "", all<is_space>},
    {"isupper", "", method_isupper},
    {"islower", "", method_islower},
    {"istitle", "", method_istitle},
    {"isascii", "", method_isascii},
    {"isprintable", "", method_isprintable},
    {"isidentifier", "", method_isidentifier},
};

}  // namespace

std::span<const Builtin> text_methods() {
    return table;
}

}  // namespace cellar::jinja
