#include <algorithm>

#include "text/template/builtin.h"
#include "text/template/ops.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

std::string described(const Value& object) {
    if (object.is(Kind::None)) return "None";
    return fmt::format("{} object", type_name(object));
}

Value no_attribute(Heap& heap, const Value& object, std::string_view name) {
    return heap.undefined(fmt::format("'{}' has no attribute '{}'", described(object), shortened(name)));
}

Value no_element(Heap& heap, const Value& object, const Value& key) {
    return heap.undefined(fmt::format("{} has no element {}", described(object), key.is_integer() ? std::to_string(key.as_int()) : "of this key"));
}

// The attributes that an object has of itself, not its items.
bool own_attribute(Heap& heap, const Value& object, std::string_view name, Value& out) {
    // What starts with two underscores is the inside of Python's objects, and methods that change their object are for no template.
    if (name.starts_with("__") || changes_object(object.kind(), name)) {
        out = heap.undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", shortened(name), type_name(object)));
        return true;
    }
    if (object.has_object() && object.object()->attribute(name, out)) return true;
    const Builtin* method = find_method(object.kind(), name);
    if (method == nullptr) return false;
    out = Value(heap.make<Method>(object, method));
    return true;
}

std::optional<std::size_t> index_in(const Value& key, std::int64_t size) {
    if (!key.is_integer()) return std::nullopt;
    std::int64_t i = key.as_int();
    if (i < 0) i += size;
    if (i < 0 || i >= size) return std::nullopt;
    return static_cast<std::size_t>(i);
}

struct Span {
    std::int64_t begin, step, size;
};

// Where a slice of something with `length` items begins and how many it takes, as Python reads it.
Span span_of(const Value& begin, const Value& end, const Value& step, std::int64_t length) {
    auto number = [](const Value& v) {
        if (!v.is_integer()) raise("slice indices must be integers or None, not {}", type_name(v));
        return v.as_int();
    };
    const std::int64_t by = step.is(Kind::None) ? 1 : std::max(number(step), -INT64_MAX);
    if (by == 0) raise("slice step cannot be zero");
    const std::int64_t low = by < 0 ? -1 : 0;
    const std::int64_t high = by < 0 ? length - 1 : length;
    auto bound = [&](const Value& v, std::int64_t otherwise) {
        if (v.is(Kind::None)) return otherwise;
        const std::int64_t i = number(v);
        return i < 0 ? std::max(i + length, low) : std::min(i, high);
    };
    const std::int64_t from = bound(begin, by < 0 ? high : low);
    const std::int64_t to = bound(end, by < 0 ? low : high);
    std::int64_t size = 0;
    if (by > 0 && from < to) size = (to - from - 1) / by + 1;
    if (by < 0 && to < from) size = (from - to - 1) / -by + 1;
    return {from, by, size};
}

Value slice_text(Heap& heap, const Value& object, const Span& span) {
    const auto& string = object.as<String>();
    const bool ascii = static_cast<std::size_t>(string.points) == string.text.size();
    heap.budget().work(ascii ? static_cast<std::uint64_t>(span.size) : string.text.size());
    if (span.size == 0) return heap.string("", string.markup);
    const auto begin = static_cast<std::size_t>(span.begin), size = static_cast<std::size_t>(span.size);
    if (span.step == 1) {
        if (ascii) return heap.string(string.text.substr(begin, size), string.markup);
        const std::size_t from = offset_of(string.text, begin);
        const std::size_t bytes = offset_of(std::string_view(string.text).substr(from), size);
        return heap.string(string.text.substr(from, bytes), string.markup);
    }
    std::u32string points;
    for (std::size_t at = 0; at < string.text.size();) {
        const Point p = decode(string.text, at);
        points.push_back(p.code);
        at += p.size;
    }
    Builder out(heap);
    for (std::int64_t i = 0; i < span.size; ++i) out.append_point(points[static_cast<std::size_t>(span.begin + i * span.step)]);
    return out.finish(string.markup);
}

Value part_of_path(Heap& heap, const Value& object, std::string_view part) {
    const bool number = !part.empty() && part.size() < 10 && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    return get_item(heap, object, number ? Value::integer(std::stoll(std::string(part))) : heap.string(std::string(part)));
}

}  // namespace

Value get_attribute(Heap& heap, const Value& object, std::string_view name) {
    heap.budget().step();
    if (object.is(Kind::Undefined)) raise_undefined(object);
    Value out;
    if (own_attribute(heap, object, name, out)) return out;
    if (object.is(Kind::Dict))
        if (const Value* item = object.as<Dict>().find(name)) return *item;
    return no_attribute(heap, object, name);
}

Value get_item(Heap& heap, const Value& object, const Value& key) {
    heap.budget().step();
    if (object.is(Kind::Undefined)) raise_undefined(object);
    if (object.is(Kind::Dict) && !key.is_sequence() && !key.is(Kind::Dict))
        if (const Value* item = object.as<Dict>().find(key)) return *item;
    if (object.is(Kind::Dict) && key.is(Kind::Tuple)) {
        if (const Value* item = object.as<Dict>().find(key)) return *item;
    }
    if (object.is_sequence() || object.is(Kind::Range) || object.is(Kind::String)) {
        if (const auto i = index_in(key, *length_of(object))) {
            if (object.is(Kind::String)) return point_at(heap, object, *i);
            if (object.is(Kind::Range)) return Value::integer(object.as<Range>().at(static_cast<std::int64_t>(*i)));
            return object.items()[*i];
        }
    }
    if (key.is(Kind::String)) {
        Value out;
        if (own_attribute(heap, object, key.text(), out)) return out;
        return no_attribute(heap, object, key.text());
    }
    return no_element(heap, object, key);
}

Value point_at(Heap& heap, const Value& text, std::size_t n) {
    const auto& string = text.as<String>();
    std::size_t at = n;
    if (static_cast<std::size_t>(*length_of(text)) != string.text.size()) {
        heap.budget().work(string.text.size());
        at = offset_of(string.text, n);
    }
    return heap.string(string.text.substr(at, decode(string.text, at).size), string.markup);
}

Value get_slice(Heap& heap, const Value& object, const Value& begin, const Value& end, const Value& step) {
    if (object.is(Kind::Undefined)) raise_undefined(object);
    if (!object.is_sequence() && !object.is(Kind::String) && !object.is(Kind::Range)) raise("'{}' object cannot be sliced", type_name(object));
    const Span span = span_of(begin, end, step, *length_of(object));
    if (object.is(Kind::String)) return slice_text(heap, object, span);
    if (object.is(Kind::Range)) {
        const auto& range = object.as<Range>();
        std::int64_t by = 0;
        if (__builtin_mul_overflow(range.step, span.step, &by)) by = 1;  // Only possible when at most one item is left.
        const std::int64_t first = range.begin + span.begin * range.step;
        return Value(heap.make<Range>(first, first + span.size * by, by, span.size));
    }
    heap.budget().step(static_cast<std::uint64_t>(span.size));
    Ref<List> list(heap.make<List>(object.kind()));
    for (std::int64_t i = 0; i < span.size; ++i) list->push(object.items()[static_cast<std::size_t>(span.begin + i * span.step)]);
    return list.value();
}

Value get_path(Heap& heap, Value object, const Value& path, const Value& fallback) {
    auto settle = [&] {
        if (object.is(Kind::Undefined) && !fallback.is(Kind::Missing)) object = fallback;
    };
    if (!path.is(Kind::String)) {
        object = get_item(heap, object, path);
        settle();
        return object;
    }
    std::string_view rest = path.text();
    while (true) {
        const std::size_t dot = rest.find('.');
        object = part_of_path(heap, object, rest.substr(0, dot));
        settle();
        if (dot == std::string_view::npos) return object;
        rest.remove_prefix(dot + 1);
    }
}

}  // namespace cellar::jinja
