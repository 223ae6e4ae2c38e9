// Filters that make text: trim, upper, replace, indent, tojson and their like.
#include <algorithm>

#include "text/template/builtin.h"
#include "text/template/format.h"
#include "text/template/json_input.h"
#include "text/template/markup.h"
#include "text/template/ops.h"
#include "text/template/print.h"
#include "text/template/text_ops.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

Value filter_trim(Runtime& rt, const Value& self, Args& args) {
    const Value text = to_text(rt.heap, self);
    const Value* chars = args.at(0);
    return strip(rt.heap, text, chars == nullptr ? Value() : *chars, true, true);
}

Value filter_upper(Runtime& rt, const Value& self, Args&) {
    return upper(rt.heap, to_text(rt.heap, self));
}
Value filter_lower(Runtime& rt, const Value& self, Args&) {
    return lower(rt.heap, to_text(rt.heap, self));
}
Value filter_capitalize(Runtime& rt, const Value& self, Args&) {
    return capitalize(rt.heap, to_text(rt.heap, self));
}

// Not str.title: words begin after spaces, hyphens and opening brackets only, so "don't" stays one word.
Value filter_title(Runtime& rt, const Value& self, Args&) {
    const Value value = to_text(rt.heap, self);
    const std::string& text = value.text();
    Builder out(rt.heap);
    std::string piece;
    bool begins = true;
    for (std::size_t at = 0; at < text.size();) {
        const Point p = decode(text, at);
        at += p.size;
        piece.clear();
        begins ? append_upper(piece, p.code) : append_lower(piece, p.code);
        out.append(piece);
        begins = is_space(p.code) || p.code == '-' || p.code == '(' || p.code == '{' || p.code == '[' || p.code == '<';
    }
    return out.finish(is_markup(value));
}

Value filter_string(Runtime& rt, const Value& self, Args&) {
    return to_text(rt.heap, self);
}
Value filter_escape(Runtime& rt, const Value& self, Args&) {
    return escape(rt.heap, self);
}

Value filter_force_escape(Runtime& rt, const Value& self, Args&) {
    const Value text = to_text(rt.heap, self);
    Builder out(rt.heap);
    append_escaped(out, text.text());
    return out.finish(true);
}

Value filter_safe(Runtime& rt, const Value& self, Args&) {
    return rt.heap.string(to_text(rt.heap, self).text(), true);
}

Value filter_replace(Runtime& rt, const Value& self, Args& args) {
    const Value text = to_text(rt.heap, self), from = to_text(rt.heap, args.given[0]), to = to_text(rt.heap, args.given[1]);
    const Value* count = args.at(2);
    const bool all = count == nullptr || count->is(Kind::None);
    return replace(rt.heap, rt.heap.string(text.text()), from.text(), to.text(), all ? -1 : int_arg(args, 2, "count", -1));
}

Value filter_indent(Runtime& rt, const Value& text, Args& args) {
    if (text.is(Kind::Undefined)) raise_undefined(text);
    if (!text.is(Kind::String)) raise("indent expects text, not {}", type_name(text));
    const Value* width = args.at(0);
    std::string indentation;
    if (width != nullptr && width->is(Kind::String)) {
        indentation = width->text();
    } else {
        const std::int64_t spaces = std::max<std::int64_t>(int_arg(args, 0, "width", 4), 0);
        rt.budget.check_value(static_cast<std::uint64_t>(spaces));
        indentation.assign(static_cast<std::size_t>(spaces), ' ');
    }
    const bool blank = bool_arg(args, 2, false);
    Builder out(rt.heap);
    if (bool_arg(args, 1, false)) out.append(indentation);
    // The text counts as one that ends in a line break, so a break at its end adds an empty line rather than ending one.
    Lines lines(text.text());
    std::string_view line;
    for (bool first = true; lines.next(line); first = false) {
        rt.budget.step();
        if (!first) {
            out.append("\n");
            if (blank || !line.empty()) out.append(indentation);
        }
        out.append(line);
    }
    if (lines.ended_with_break()) {
        out.append("\n");
        if (blank) out.append(indentation);
    }
    return out.finish(is_markup(text));
}

Value filter_truncate(Runtime& rt, const Value& text, Args& args) {
    const std::int64_t length = int_arg(args, 0, "length", 255);
    const bool kill_words = bool_arg(args, 1, false);
    const Value end = args.at(2) == nullptr ? rt.heap.string("...") : to_text(rt.heap, *args.at(2));
    const std::int64_t leeway = args.at(3) == nullptr || args.at(3)->is(Kind::None) ? 5 : int_arg(args, 3, "leeway", 5);
    const std::int64_t end_length = *length_of(end);
    if (length < end_length) raise("truncate() expects a length of at least {}, got {}", end_length, length);
    if (leeway < 0) raise("truncate() expects a leeway of at least 0, got {}", leeway);
    const auto size = length_of(text);
    if (!size) raise("object of type '{}' has no len()", type_name(text));
    if (*size - leeway <= length) return text;
    if (!text.is(Kind::String)) raise("truncate expects text, not {}", type_name(text));
    std::string_view kept = std::string_view(text.text()).substr(0, offset_of(text.text(), static_cast<std::size_t>(length - end_length)));
    if (!kill_words) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
    return add_texts(rt.heap, rt.heap.string(std::string(kept), is_markup(text)), end);
}

Value filter_center(Runtime& rt, const Value& self, Args& args) {
    return pad(rt.heap, to_text(rt.heap, self), int_arg(args, 0, "width", 80), ' ', Side::Both);
}

Value filter_wordcount(Runtime& rt, const Value& self, Args&) {
    const Value text = to_text(rt.heap, self);
    std::int64_t words = 0;
    bool inside = false;
    for (std::size_t at = 0; at < text.text().size();) {
        const Point p = decode(text.text(), at);
        at += p.size;
        if (is_word(p.code) && !inside) ++words;
        inside = is_word(p.code);
    }
    rt.budget.work(text.text().size());
    return Value::integer(words);
}

void append_quoted_url(Builder& out, std::string_view text, bool form) {
    for (const char c : text) {
        const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '.' || c == '-' || c == '~';
        if (plain || (c == '/' && !form)) {
            out.append(1, c);
        } else if (c == ' ' && form) {
            out.append("+");
        } else {
            out.append(fmt::format("%{:02X}", static_cast<unsigned char>(c)));
        }
    }
}

Value filter_urlencode(Runtime& rt, const Value& self, Args&) {
    Builder out(rt.heap);
    if (!iterable(self) || self.is(Kind::String) || self.is(Kind::Undefined)) {
        append_quoted_url(out, to_text(rt.heap, self).text(), false);
        return out.finish();
    }
    Cursor pairs(rt.heap, self.is(Kind::Dict) ? Value(rt.heap.make<View>(self, View::What::Items)) : self);
    bool first = true;
    for (Value pair; pairs.next(pair); first = false) {
        if (!pair.is_sequence() || pair.items().size() != 2) raise("urlencode expects a dict or pairs");
        if (!first) out.append("&");
        append_quoted_url(out, to_text(rt.heap, pair.items()[0]).text(), true);
        out.append("=");
        append_quoted_url(out, to_text(rt.heap, pair.items()[1]).text(), true);
    }
    return out.finish();
}

Value filter_striptags(Runtime& rt, const Value& self, Args&) {
    const Value value = to_text(rt.heap, self);
    return strip_tags(rt.heap, value.text());
}

Value filter_format(Runtime& rt, const Value& self, Args& args) {
    if (!args.given.empty() && !args.named.empty()) raise("can't handle positional and keyword arguments at the same time");
    Value values;
    if (args.named.empty()) {
        Ref<List> tuple(rt.heap.make<List>(Kind::Tuple));
        for (const Value& value : args.given) tuple->push(value);
        values = tuple.value();
    } else {
        Ref<Dict> dict(rt.heap.make<Dict>());
        for (const auto& [name, value] : args.named) dict->set(rt.heap.string(name), value);
        values = dict.value();
    }
    return format_percent(rt.heap, to_text(rt.heap, self), values);
}

Value filter_tojson(Runtime& rt, const Value& self, Args& args) {
    JsonStyle style;
    style.ascii = bool_arg(args, 0, false);
    if (const Value* indent = args.at(1); indent != nullptr && !indent->is(Kind::None)) {
        if (indent->is(Kind::String)) {
            style.indent = indent->text();
        } else {
            const std::int64_t spaces = std::max<std::int64_t>(int_arg(args, 1, "indent", 0), 0);
            rt.budget.check_value(static_cast<std::uint64_t>(spaces));
            style.indent = std::string(static_cast<std::size_t>(spaces), ' ');
        }
        style.item_separator = ",";
    }
    if (const Value* separators = args.at(2); separators != nullptr && !separators->is(Kind::None)) {
        if (!separators->is_sequence() || separators->items().size() != 2 || !separators->items()[0].is(Kind::String) ||
            !separators->items()[1].is(Kind::String))
            raise("tojson expects two texts as separators");
        style.item_separator = separators->items()[0].text();
        style.key_separator = separators->items()[1].text();
    }
    style.sort_keys = bool_arg(args, 3, false);
    Builder out(rt.heap);
    append_json(out, self, style);
    return out.finish();
}

Value filter_fromjson(Runtime& rt, const Value& self, Args&) {
    if (self.is(Kind::Undefined)) raise_undefined(self);
    if (!self.is(Kind::String)) raise("from_json expects text, not {}", type_name(self));
    return value_from_json_text(rt.heap, self.text());
}

constexpr Builtin table[] = {
    {"trim", "chars", filter_trim},
    {"upper", "", filter_upper},
    {"lower", "", filter_lower},
    {"capitalize", "", filter_capitalize},
    {"title", "", filter_title},
    {"string", "", filter_string},
    {"escape", "", filter_escape},
    {"e", "", filter_escape},
    {"forceescape", "", filter_force_escape},
    {"safe", "", filter_safe},
    {"replace", "old! new! count", filter_replace},
    {"indent", "width first blank", filter_indent},
    {"truncate", "length killwords end leeway", filter_truncate},
    {"center", "width", filter_center},
    {"wordcount", "", filter_wordcount},
    {"urlencode", "", filter_urlencode},
    {"striptags", "", filter_striptags},
    {"format", "* **", filter_format},
    {"tojson", "ensure_ascii indent separators sort_keys", filter_tojson},
    {"from_json", "", filter_fromjson},
    {"fromjson", "", filter_fromjson},
};

}  // namespace

std::span<const Builtin> text_filters() {
    return table;
}

}  // namespace cellar::jinja
