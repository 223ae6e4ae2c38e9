#include "text/template/text_ops.h"

#include <algorithm>
#include <array>

#include "text/template/markup.h"
#include "text/template/number_text.h"
#include "text/template/ops.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

template <class Append>
Value mapped(Heap& heap, const Value& value, Append append) {
    const std::string& text = value.text();
    Builder out(heap);
    std::string piece;
    for (std::size_t at = 0; at < text.size();) {
        const Point p = decode(text, at);
        piece.clear();
        append(piece, p.code, at == 0);
        out.append(piece);
        at += p.size;
    }
    heap.budget().work(text.size() * 8);
    return out.finish(is_markup(value));
}

}  // namespace

Value upper(Heap& heap, const Value& text) {
    return mapped(heap, text, [](std::string& out, char32_t code, bool) { append_upper(out, code); });
}

Value lower(Heap& heap, const Value& text) {
    return mapped(heap, text, [](std::string& out, char32_t code, bool) { append_lower(out, code); });
}

Value capitalize(Heap& heap, const Value& text) {
    return mapped(heap, text, [](std::string& out, char32_t code, bool first) { first ? append_title(out, code) : append_lower(out, code); });
}

bool is_cased(const Value& text, bool (*wanted)(char32_t), bool (*refused)(char32_t)) {
    bool any = false;
    text.object()->heap->budget().work(8 * text.text().size());
    for (std::size_t at = 0; at < text.text().size();) {
        const Point p = decode(text.text(), at);
        if (refused(p.code)) return false;
        any = any || wanted(p.code);
        at += p.size;
    }
    return any;
}

Value strip(Heap& heap, const Value& value, const Value& chars, bool left, bool right) {
    if (chars.is(Kind::Undefined)) raise_undefined(chars);
    if (!chars.is(Kind::None) && !chars.is(Kind::String)) raise("strip arg must be None or str");
    std::string_view text = value.text();
    heap.budget().work(text.size());
    if (chars.is(Kind::None)) {
        if (left) text = strip_left(text);
        if (right) text = strip_right(text);
        return heap.string(std::string(text), is_markup(value));
    }
    const std::string& set = chars.text();
    auto listed = [&](std::string_view point) {
        heap.budget().work(set.size());
        return set.find(point) != std::string::npos;
    };
    while (left && !text.empty()) {
        const std::size_t size = decode(text, 0).size;
        if (!listed(text.substr(0, size))) break;
        text.remove_prefix(size);
    }
    while (right && !text.empty()) {
        std::size_t at = text.size() - 1;
        while ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
        if (!listed(text.substr(at))) break;
        text = text.substr(0, at);
    }
    return heap.string(std::string(text), is_markup(value));
}

Value replace(Heap& heap, const Value& value, std::string_view from, std::string_view to, std::int64_t count) {
    std::string_view text = value.text();
    heap.budget().work(text.size());
    Builder out(heap);
    auto left = count < 0 ? UINT64_MAX : static_cast<std::uint64_t>(count);
    if (from.empty()) {
        // An empty text is found before every code point and at the end.
        while (left > 0) {
            --left;
            heap.budget().step();
            out.append(to);
            if (text.empty()) break;
            const std::size_t size = decode(text, 0).size;
            out.append(text.substr(0, size));
            text.remove_prefix(size);
        }
        out.append(text);
        return out.finish(is_markup(value));
    }
    while (left > 0) {
        const std::size_t hit = find(text, from);
        if (hit == std::string_view::npos) break;
        heap.budget().step();
        out.append(text.substr(0, hit));
        out.append(to);
        text.remove_prefix(hit + from.size());
        --left;
    }
    out.append(text);
    return out.finish(is_markup(value));
}

Value pad(Heap& heap, const Value& value, std::int64_t width, char32_t fill, Side side) {
    const std::int64_t length = *length_of(value);
    const auto padding = static_cast<std::size_t>(std::max<std::int64_t>(width - length, 0));
    heap.budget().check_value(padding);
    // Python puts the odd space to the left exactly when the width is odd too.
    const std::size_t both = padding / 2 + (padding & static_cast<std::size_t>(width) & 1);
    const std::size_t before = side == Side::Left ? padding : side == Side::Right ? 0 : both;
    Builder out(heap);
    auto put = [&](std::size_t n) {
        if (fill < 0x80) return out.append(n, static_cast<char>(fill));
        for (; n > 0; --n) out.append_point(fill);
    };
    put(before);
    out.append(value.text());
    put(padding - before);
    return out.finish(is_markup(value));
}

bool Lines::next(std::string_view& line) {
    if (rest_.empty()) return false;
    break_size_ = 0;
    std::size_t at = 0;
    while (at < rest_.size()) {
        const Point p = decode(rest_, at);
        if (is_line_break(p.code)) {
            break_size_ = rest_.substr(at, 2) == "\r\n" ? 2 : p.size;
            break;
        }
        at += p.size;
    }
    line = rest_.substr(0, at);
    rest_.remove_prefix(at + break_size_);
    return true;
}

namespace {

// Removes from `open` to `close`, again and again; what is not closed stays.
std::string without(std::string_view text, std::string_view open, std::string_view close) {
    std::string out;
    while (true) {
        const std::size_t begin = find(text, open);
        const std::size_t end = begin == std::string_view::npos ? begin : find(text, close, begin + open.size());
        if (end == std::string_view::npos) return out.append(text);
        out.append(text.substr(0, begin));
        text.remove_prefix(end + close.size());
    }
}

// The entity at the front of text, which begins with '&': its text, and how many bytes it took; 0 when it is none of those known.
std::size_t read_entity(std::string_view text, std::string& out) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> names = {
        {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&nbsp;", "\u00a0"}, {"&raquo;", "\u00bb"}}};
    for (const auto& [name, meaning] : names)
        if (text.starts_with(name)) return out.append(meaning), name.size();
    if (!text.starts_with("&#")) return 0;
    const std::size_t end = text.substr(0, 12).find(';');
    if (end == std::string_view::npos || end < 3) return 0;
    const bool hexadecimal = (text[2] | 0x20) == 'x';
    const std::string_view digits = text.substr(hexadecimal ? 3 : 2, end - (hexadecimal ? 3 : 2));
    if (digits.find_first_not_of(hexadecimal ? "0123456789abcdefABCDEF" : "0123456789") != std::string_view::npos) return 0;
    const auto code = parse_integer(digits, hexadecimal ? 16 : 10);
    if (!code || *code <= 0 || *code > 0x10ffff || !is_scalar(static_cast<char32_t>(*code))) return 0;
    append_point(out, static_cast<char32_t>(*code));
    return end + 1;
}

}  // namespace

Value strip_tags(Heap& heap, std::string_view text) {
    heap.budget().work(4 * text.size());
    const std::string bare = without(without(text, "<!--", "-->"), "<", ">");
    std::string joined;
    for (std::string_view rest = strip_left(strip_right(bare)); !rest.empty();) {
        const Point p = decode(rest, 0);
        if (is_space(p.code)) {
            joined.push_back(' ');
            rest = strip_left(rest);
        } else {
            joined.append(rest.substr(0, p.size));
            rest.remove_prefix(p.size);
        }
    }
    std::string out;
    for (std::size_t at = 0; at < joined.size();) {
        const std::size_t entity = joined[at] == '&' ? read_entity(std::string_view(joined).substr(at), out) : 0;
        if (entity == 0) out.push_back(joined[at]);
        at += std::max<std::size_t>(entity, 1);
    }
    return heap.string(std::move(out));
}

}  // namespace cellar::jinja
