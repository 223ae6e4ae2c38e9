#include "text/template/print.h"

#include <charconv>
#include <cmath>

#include "text/template/ops.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

std::string float_text(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char buffer[40];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
    std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
    std::string out;
    if (text.front() == '-') {
        out = "-";
        text.remove_prefix(1);
    }
    const std::size_t e = text.find('e');
    const int exponent = std::stoi(std::string(text.substr(e + 1)));
    std::string digits(text.substr(0, 1));
    if (e > 2) digits += text.substr(2, e - 2);
    if (exponent < -4 || exponent >= 16) {
        out += digits.substr(0, 1);
        if (digits.size() > 1) out += "." + digits.substr(1);
        return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
    }
    if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
    return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string shortened(std::string_view text) {
    constexpr std::size_t most = 60;
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const Point p = decode(text, at);
        if (out.size() + p.size > most) return out + "...";
        if (p.code < 0x20 || p.code == 0x7f) {
            out += fmt::format("\\x{:02x}", static_cast<unsigned>(p.code));
        } else {
            out += text.substr(at, p.size);
        }
        at += p.size;
    }
    return out;
}

namespace {

void append_quoted(Builder& out, std::string_view text) {
    const bool doubled = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
    const char quote = doubled ? '"' : '\'';
    out.append(1, quote);
    for (std::size_t at = 0; at < text.size();) {
        const Point p = decode(text, at);
        const auto code = static_cast<unsigned>(p.code);
        if (p.code == static_cast<char32_t>(quote) || p.code == '\\') {
            out.append(1, '\\');
            out.append(1, static_cast<char>(code));
        } else if (p.code == '\n') {
            out.append("\\n");
        } else if (p.code == '\r') {
            out.append("\\r");
        } else if (p.code == '\t') {
            out.append("\\t");
        } else if (is_printable(p.code)) {
            // What needs no escape goes out in one piece.
            std::size_t end = at + p.size;
            while (end < text.size() && text[end] != quote && text[end] != '\\' && text[end] >= ' ' && text[end] < 0x7f) ++end;
            out.append(text.substr(at, end - at));
            at = end;
            continue;
        } else if (code < 0x100) {
            out.append(fmt::format("\\x{:02x}", code));
        } else if (code < 0x10000) {
            out.append(fmt::format("\\u{:04x}", code));
        } else {
            out.append(fmt::format("\\U{:08x}", code));
        }
        at += p.size;
    }
    out.append(1, quote);
}

// Each of `count` elements by `element(i)`, between the brackets.
template <class Element>
void append_list(Builder& out, std::string_view open, std::string_view close, std::size_t count, Element element) {
    out.append(open);
    for (std::size_t i = 0; i < count; ++i) {
        if (i > 0) out.append(", ");
        element(i);
    }
    out.append(close);
}

void append_view(Builder& out, const View& view, std::uint32_t nesting) {
    const auto& entries = view.dict.as<Dict>().entries;
    out.append(view.what == View::What::Keys ? "dict_keys" : view.what == View::What::Values ? "dict_values" : "dict_items");
    append_list(out, "([", "])", entries.size(), [&](std::size_t i) {
        if (view.what == View::What::Items) out.append("(");
        if (view.what != View::What::Values) append_repr(out, entries[i].key, nesting + 1);
        if (view.what == View::What::Items) out.append(", ");
        if (view.what != View::What::Keys) append_repr(out, entries[i].value, nesting + 1);
        if (view.what == View::What::Items) out.append(")");
    });
}

void append_container(Builder& out, const Value& value, std::uint32_t nesting) {
    switch (value.kind()) {
        case Kind::List:
        case Kind::Tuple: {
            const auto& items = value.items();
            const bool tuple = value.is(Kind::Tuple);
            append_list(out, tuple ? "(" : "[",
                        !tuple              ? "]"
                        : items.size() == 1 ? ",)"
                                            : ")",
                        items.size(), [&](std::size_t i) { append_repr(out, items[i], nesting + 1); });
            break;
        }
        case Kind::Dict: {
            const auto& entries = value.as<Dict>().entries;
            append_list(out, "{", "}", entries.size(), [&](std::size_t i) {
                append_repr(out, entries[i].key, nesting + 1);
                out.append(": ");
                append_repr(out, entries[i].value, nesting + 1);
            });
            break;
        }
        case Kind::View:
            append_view(out, value.as<View>(), nesting);
            break;
        case Kind::Namespace: {
            const auto& fields = value.as<Namespace>().fields;
            append_list(out, "<Namespace {", "}>", fields.size(), [&](std::size_t i) {
                append_quoted(out, fields[i].first);
                out.append(": ");
                append_repr(out, fields[i].second, nesting + 1);
            });
            break;
        }
        default:
            break;
    }
}

}  // namespace

void append_repr(Builder& out, const Value& value, std::uint32_t nesting) {
    Heap& heap = out.heap();
    heap.budget().step();
    if (nesting > heap.budget().limits().nesting)
        throw Failure{fmt::format("a value is nested deeper than the limit of {}", heap.budget().limits().nesting), ErrorKind::Full};
    switch (value.kind()) {
        case Kind::None:
            return out.append("None");
        case Kind::Bool:
            return out.append(value.as_bool() ? "True" : "False");
        case Kind::Int:
            return out.append(std::to_string(value.as_int()));
        case Kind::Huge:
            return out.append(std::to_string(value.as_huge()));
        case Kind::Float:
            return out.append(float_text(value.as_real()));
        case Kind::Undefined:
            return out.append("Undefined");
        case Kind::String:
            if (value.as<String>().markup) out.append("Markup(");
            append_quoted(out, value.text());
            if (value.as<String>().markup) out.append(")");
            return;
        case Kind::List:
        case Kind::Tuple:
        case Kind::Dict:
        case Kind::View:
        case Kind::Namespace:
            return append_container(out, value, nesting);
        case Kind::Range: {
            const auto& range = value.as<Range>();
            return out.append(range.step == 1 ? fmt::format("range({}, {})", range.begin, range.end)
                                              : fmt::format("range({}, {}, {})", range.begin, range.end, range.step));
        }
        default:
            // Python prints an address here; a rendering must not depend on one.
            return out.append(fmt::format("<{} object>", type_name(value)));
    }
}

void append_text(Builder& out, const Value& value) {
    if (value.is(Kind::String)) return out.append(value.text());
    if (!value.is(Kind::Undefined)) append_repr(out, value);
}

Value to_text(Heap& heap, const Value& value) {
    if (value.is(Kind::String)) return value;
    Builder out(heap);
    append_text(out, value);
    return out.finish();
}

}  // namespace cellar::jinja
