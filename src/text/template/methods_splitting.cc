// The methods of str that search in it and take it apart.
#include <algorithm>
#include <vector>

#include "text/template/builtin.h"
#include "text/template/markup.h"
#include "text/template/ops.h"
#include "text/template/text_ops.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

Value piece(Runtime& rt, const Value& self, std::string_view text) {
    return rt.heap.string(std::string(text), is_markup(self));
}

// Runs of whitespace separate; at most `most` cuts, from the left.
void split_spaces(Runtime& rt, const Value& self, std::uint64_t most, List& out) {
    std::string_view rest = strip_left(self.text());
    while (!rest.empty()) {
        if (most-- == 0) return out.push(piece(rt, self, rest));
        std::size_t at = 0;
        while (at < rest.size()) {
            const Point p = decode(rest, at);
            if (is_space(p.code)) break;
            at += p.size;
        }
        rt.budget.work(at);
        out.push(piece(rt, self, rest.substr(0, at)));
        rest = strip_left(rest.substr(at));
    }
}

void rsplit_spaces(Runtime& rt, const Value& self, std::uint64_t most, List& out) {
    std::string_view rest = strip_right(self.text());
    while (!rest.empty()) {
        if (most-- == 0) {
            out.push(piece(rt, self, rest));
            break;
        }
        std::size_t at = rest.size();
        while (at > 0) {
            std::size_t before = at - 1;
            while ((static_cast<unsigned char>(rest[before]) & 0xc0) == 0x80) --before;
            if (is_space(decode(rest, before).code)) break;
            at = before;
        }
        rt.budget.work(rest.size() - at);
        out.push(piece(rt, self, rest.substr(at)));
        rest = strip_right(rest.substr(0, at));
    }
    std::reverse(out.items.begin(), out.items.end());
}

void split_at(Runtime& rt, const Value& self, std::string_view separator, std::uint64_t most, List& out) {
    std::string_view rest = self.text();
    rt.budget.work(rest.size());
    while (most-- > 0) {
        const std::size_t hit = find(rest, separator);
        if (hit == std::string_view::npos) break;
        out.push(piece(rt, self, rest.substr(0, hit)));
        rest.remove_prefix(hit + separator.size());
        rt.budget.step();
    }
    out.push(piece(rt, self, rest));
}

void rsplit_at(Runtime& rt, const Value& self, std::string_view separator, std::uint64_t most, List& out) {
    // Cuts from the right: searched in the reversed text, so that the time stays linear.
    const std::string text(self.text().rbegin(), self.text().rend()), wanted(separator.rbegin(), separator.rend());
    std::string_view rest = text;
    const std::string_view whole = self.text();
    rt.budget.work(2 * rest.size());
    std::size_t end = whole.size();
    while (most-- > 0) {
        const std::size_t hit = find(rest, wanted);
        if (hit == std::string_view::npos) break;
        out.push(piece(rt, self, whole.substr(end - hit, hit)));
        end -= hit + wanted.size();
        rest.remove_prefix(hit + wanted.size());
        rt.budget.step();
    }
    out.push(piece(rt, self, whole.substr(0, end)));
    std::reverse(out.items.begin(), out.items.end());
}

template <bool from_right>
Value method_split(Runtime& rt, const Value& self, Args& args) {
    const std::int64_t limit = int_arg(args, 1, "maxsplit", -1);
    const auto most = limit < 0 ? UINT64_MAX : static_cast<std::uint64_t>(limit);
    Ref<List> out(rt.heap.make<List>(Kind::List));
    if (args.at(0) == nullptr || args.at(0)->is(Kind::None)) {
        from_right ? rsplit_spaces(rt, self, most, *out) : split_spaces(rt, self, most, *out);
        return out.value();
    }
    const std::string_view separator = text_arg(args, 0, "sep", "");
    if (separator.empty()) raise("empty separator");
    from_right ? rsplit_at(rt, self, separator, most, *out) : split_at(rt, self, separator, most, *out);
    return out.value();
}

Value method_splitlines(Runtime& rt, const Value& self, Args& args) {
    const bool keep = bool_arg(args, 0, false);
    Ref<List> out(rt.heap.make<List>(Kind::List));
    Lines lines(self.text());
    rt.budget.work(8 * self.text().size());
    for (std::string_view line; lines.next(line);)
        out->push(piece(rt, self, keep ? std::string_view(line.data(), line.size() + lines.break_size()) : line));
    return out.value();
}

template <bool from_right>
Value method_partition(Runtime& rt, const Value& self, Args& args) {
    const Value given = args.given[0].is(Kind::String) && is_markup(self) ? escape(rt.heap, args.given[0]) : args.given[0];
    if (given.is(Kind::Undefined)) raise_undefined(given);
    if (!given.is(Kind::String)) raise("must be str, not {}", type_name(given));
    const std::string& separator = given.text();
    if (separator.empty()) raise("empty separator");
    const std::string_view text = self.text();
    rt.budget.work(text.size());
    const std::size_t hit = from_right ? find_last(text, separator) : find(text, separator);
    Ref<List> out(rt.heap.make<List>(Kind::Tuple));
    if (hit == std::string_view::npos) {
        if (!from_right) out->push(self);
        out->push(piece(rt, self, ""));
        out->push(piece(rt, self, ""));
        if (from_right) out->push(self);
        return out.value();
    }
    out->push(piece(rt, self, text.substr(0, hit)));
    out->push(piece(rt, self, separator));
    out->push(piece(rt, self, text.substr(hit + separator.size())));
    return out.value();
}

// The part of the text between the optional arguments start and end, which count code points; nothing when start lies behind the text.
struct Window {
    std::string_view text;
    std::int64_t first = 0;  // the code point at which it begins
    bool outside = false;
};

Window window_of(Runtime& rt, const Value& self, const Args& args, std::size_t at) {
    if (args.at(at) == nullptr && args.at(at + 1) == nullptr) return {self.text()};
    const std::int64_t length = *length_of(self);
    auto bound = [&](std::size_t i, std::int64_t otherwise) {
        if (args.at(i) == nullptr || args.at(i)->is(Kind::None)) return otherwise;
        const std::int64_t n = int_arg(args, i, "start or end", 0);
        return n < 0 ? std::max<std::int64_t>(n + length, 0) : n;
    };
    const std::int64_t begin = bound(at, 0), end = std::min(bound(at + 1, length), length);
    if (begin > length || end < begin) return {"", begin, true};
    rt.budget.work(self.text().size());
    const std::size_t from = offset_of(self.text(), static_cast<std::size_t>(begin));
    const std::size_t bytes = offset_of(std::string_view(self.text()).substr(from), static_cast<std::size_t>(end - begin));
    return {std::string_view(self.text()).substr(from, bytes), begin};
}

std::int64_t found_at(Runtime& rt, const Value& self, const Args& args, bool from_right) {
    const std::string_view wanted = text_arg(args, 0, "sub", "");
    const Window window = window_of(rt, self, args, 1);
    if (window.outside) return -1;
    rt.budget.work(window.text.size());
    const std::size_t hit = from_right ? find_last(window.text, wanted) : find(window.text, wanted);
    if (hit == std::string_view::npos) return -1;
    return window.first + static_cast<std::int64_t>(count_points(window.text.substr(0, hit)));
}

template <bool from_right>
Value method_find(Runtime& rt, const Value& self, Args& args) {
    return Value::integer(found_at(rt, self, args, from_right));
}

template <bool from_right>
Value method_index(Runtime& rt, const Value& self, Args& args) {
    const std::int64_t at = found_at(rt, self, args, from_right);
    if (at < 0) raise("substring not found");
    return Value::integer(at);
}

Value method_count(Runtime& rt, const Value& self, Args& args) {
    const std::string_view wanted = text_arg(args, 0, "sub", "");
    Window window = window_of(rt, self, args, 1);
    if (window.outside) return Value::integer(0);
    rt.budget.work(window.text.size());
    if (wanted.empty()) return Value::integer(static_cast<std::int64_t>(count_points(window.text)) + 1);
    std::int64_t count = 0;
    for (std::size_t at = 0; (at = find(window.text, wanted, at)) != std::string_view::npos; at += wanted.size()) {
        rt.budget.step();
        ++count;
    }
    return Value::integer(count);
}

template <bool at_end>
Value method_affix(Runtime& rt, const Value& self, Args& args) {
    const Window window = window_of(rt, self, args, 1);
    auto has = [&](const Value& affix) {
        if (affix.is(Kind::Undefined)) raise_undefined(affix);
        if (!affix.is(Kind::String))
            raise("{} first arg must be str or a tuple of str, not {}", at_end ? "endswith" : "startswith", type_name(affix));
        rt.budget.work(affix.text().size());
        return !window.outside && (at_end ? window.text.ends_with(affix.text()) : window.text.starts_with(affix.text()));
    };
    const Value& affix = args.given[0];
    if (!affix.is(Kind::Tuple)) return Value::boolean(has(affix));
    for (const Value& one : affix.items())
        if (has(one)) return Value::boolean(true);
    return Value::boolean(false);
}

Value method_removeprefix(Runtime& rt, const Value& self, Args& args) {
    const std::string_view prefix = text_arg(args, 0, "prefix", "");
    return self.text().starts_with(prefix) ? piece(rt, self, std::string_view(self.text()).substr(prefix.size())) : self;
}

Value method_removesuffix(Runtime& rt, const Value& self, Args& args) {
    const std::string_view suffix = text_arg(args, 0, "suffix", "");
    return self.text().ends_with(suffix) ? piece(rt, self, std::string_view(self.text()).substr(0, self.text().size() - suffix.size())) : self;
}

constexpr Builtin table[] = {
    {"split", "sep maxsplit", method_split<false>},
    {"rsplit", "sep maxsplit", method_split<true>},
    {"splitlines", "keepends", method_splitlines},
    {"partition", "sep!", method_partition<false>},
    {"rpartition", "sep!", method_partition<true>},
    {"find", "sub! start end", method_find<false>},
    {"rfind", "sub! start end", method_find<true>},
    {"index", "sub! start end", method_index<false>},
    {"rindex", "sub! start end", method_index<true>},
    {"count", "sub! start end", method_count},
    {"startswith", "prefix! start end", method_affix<false>},
    {"endswith", "suffix! start end", method_affix<true>},
    {"removeprefix", "prefix!", method_removeprefix},
    {"removesuffix", "suffix!", method_removesuffix},
};

}  // namespace

std::span<const Builtin> splitting_methods() {
    return table;
}

}  // namespace cellar::jinja
