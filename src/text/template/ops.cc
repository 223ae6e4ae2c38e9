#include "text/template/ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "text/template/unicode.h"

namespace cellar::jinja {

std::string_view type_name(const Value& value) {
    switch (value.kind()) {
        case Kind::None:
            return "NoneType";
        case Kind::Bool:
            return "bool";
        case Kind::Int:
        case Kind::Huge:
            return "int";
        case Kind::Float:
            return "float";
        case Kind::String:
            return value.as<String>().markup ? "Markup" : "str";
        case Kind::List:
            return "list";
        case Kind::Tuple:
            return "tuple";
        case Kind::Dict:
            return "dict";
        case Kind::View:
            return std::array<std::string_view, 3>{"dict_keys", "dict_values", "dict_items"}[static_cast<std::size_t>(value.as<View>().what)];
        case Kind::Range:
            return "range";
        case Kind::Iterator:
            return "generator";
        case Kind::Namespace:
            return "Namespace";
        case Kind::Function:
            return "function";
        case Kind::Method:
            return "builtin_function_or_method";
        case Kind::Macro:
            return "Macro";
        case Kind::Loop:
            return "LoopContext";
        case Kind::Cycler:
            return "Cycler";
        case Kind::Joiner:
            return "Joiner";
        case Kind::Undefined:
        case Kind::Missing:
        case Kind::Scope:
            break;
    }
    return "Undefined";
}

bool truthy(const Value& value) {
    switch (value.kind()) {
        case Kind::None:
            return false;
        case Kind::Bool:
        case Kind::Int:
            return value.as_int() != 0;
        case Kind::Float:
            return value.as_real() != 0;
        default:
            break;
    }
    const auto length = length_of(value);
    return !length || *length != 0;
}

void raise_undefined(const Value& value) {
    if (!value.has_object()) raise("an undefined value was used");
    throw Failure{value.as<Undefined>().message};
}

std::uint64_t hash_of(std::string_view text) {
    return std::hash<std::string_view>{}(text);
}

namespace {

[[noreturn]] void too_nested(const Budget& budget) {
    throw Failure{fmt::format("a value is nested deeper than the limit of {}", budget.limits().nesting), ErrorKind::Full};
}

// 64-bit integers of both kinds and doubles as one type that holds all of them exactly (64 bits of mantissa).
long double exact(const Value& v) {
    if (v.is(Kind::Float)) return v.as_real();
    if (v.is(Kind::Huge)) return static_cast<long double>(v.as_huge());
    return static_cast<long double>(v.as_int());
}

bool same_text(Budget& budget, const std::string& a, const std::string& b) {
    if (a.size() != b.size()) return false;
    budget.work(a.size());
    return a == b;
}

}  // namespace

std::uint64_t hash_of(Budget& budget, const Value& value, std::uint32_t nesting) {
    if (nesting > budget.limits().nesting) too_nested(budget);
    switch (value.kind()) {
        case Kind::String:
            budget.work(value.text().size());
            return hash_of(std::string_view(value.text()));
        case Kind::None:
            return 0x9e3779b97f4a7c15;
        case Kind::Bool:
        case Kind::Int:
        case Kind::Huge:
        case Kind::Float:  // Equal numbers must meet in one slot, whatever their kind.
            return std::hash<double>{}(static_cast<double>(exact(value)));
        case Kind::List:
        case Kind::Dict:
            raise("unhashable type: '{}'", type_name(value));
        case Kind::Undefined:
            return 0x7f4a7c159e3779b9;
        case Kind::Tuple: {
            std::uint64_t hash = 0x345678;
            for (const Value& item : value.items()) {
                budget.step();
                hash = hash * 1000003 ^ hash_of(budget, item, nesting + 1);
            }
            return hash;
        }
        default:
            return std::hash<const void*>{}(value.object());
    }
}

bool equal(Budget& budget, const Value& a, const Value& b, std::uint32_t nesting) {
    budget.step();
    if (a.is_number() && b.is_number()) return exact(a) == exact(b);
    if (a.kind() != b.kind()) return false;
    if (a.is(Kind::None) || a.is(Kind::Undefined)) return true;
    if (a.object() == b.object()) return true;
    if (a.is(Kind::String)) return same_text(budget, a.text(), b.text());
    if (nesting > budget.limits().nesting) too_nested(budget);
    if (a.is_sequence()) {
        const auto &x = a.items(), &y = b.items();
        if (x.size() != y.size()) return false;
        for (std::size_t i = 0; i < x.size(); ++i)
            if (!equal(budget, x[i], y[i], nesting + 1)) return false;
        return true;
    }
    if (a.is(Kind::Dict)) {
        const auto &x = a.as<Dict>(), &y = b.as<Dict>();
        if (x.entries.size() != y.entries.size()) return false;
        for (const auto& [key, value] : x.entries) {
            const Value* other = y.find(key);
            if (other == nullptr || !equal(budget, value, *other, nesting + 1)) return false;
        }
        return true;
    }
    if (a.is(Kind::Range)) {
        const auto &x = a.as<Range>(), &y = b.as<Range>();
        return x.size == y.size && (x.size == 0 || (x.begin == y.begin && (x.size == 1 || x.step == y.step)));
    }
    return false;
}

int compare(Budget& budget, const Value& a, const Value& b, std::string_view sign, std::uint32_t nesting) {
    budget.step();
    auto order = [](auto x, auto y) { return x < y ? -1 : x == y ? 0 : x > y ? 1 : 2; };
    if (a.is_number() && b.is_number()) return order(exact(a), exact(b));
    if (a.is(Kind::String) && b.is(Kind::String)) {
        // The order of UTF-8 bytes is the order of code points.
        budget.work(std::min(a.text().size(), b.text().size()));
        return order(a.text().compare(b.text()), 0);
    }
    if (a.is(Kind::Undefined)) raise_undefined(a);
    if (b.is(Kind::Undefined)) raise_undefined(b);
    if (!a.is_sequence() || a.kind() != b.kind()) raise("'{}' not supported between instances of '{}' and '{}'", sign, type_name(a), type_name(b));
    if (nesting > budget.limits().nesting) too_nested(budget);
    const auto &x = a.items(), &y = b.items();
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
        if (!equal(budget, x[i], y[i], nesting + 1)) return compare(budget, x[i], y[i], sign, nesting + 1);
    return order(x.size(), y.size());
}

bool contains(Heap& heap, const Value& container, const Value& item) {
    if (container.is(Kind::String)) {
        if (item.is(Kind::Undefined)) raise_undefined(item);
        if (!item.is(Kind::String)) raise("'in <string>' requires string as left operand, not {}", type_name(item));
        heap.budget().work(container.text().size());
        return find(container.text(), item.text()) != std::string_view::npos;
    }
    if (container.is(Kind::Dict)) return container.as<Dict>().find(item) != nullptr;
    if (container.is(Kind::View) && container.as<View>().what == View::What::Keys) return container.as<View>().dict.as<Dict>().find(item) != nullptr;
    if (!iterable(container)) raise("argument of type '{}' is not iterable", type_name(container));
    Cursor cursor(heap, container);
    for (Value candidate; cursor.next(candidate);)
        if (equal(heap.budget(), candidate, item)) return true;
    return false;
}

std::optional<std::int64_t> length_of(const Value& value) {
    auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    switch (value.kind()) {
        case Kind::Undefined:
            return 0;
        case Kind::String: {
            auto& string = value.as<String>();
            if (string.points < 0) {
                string.heap->budget().work(string.text.size());
                string.points = size(count_points(string.text));
            }
            return string.points;
        }
        case Kind::List:
        case Kind::Tuple:
            return size(value.items().size());
        case Kind::Dict:
            return size(value.as<Dict>().entries.size());
        case Kind::View:
            return size(value.as<View>().dict.as<Dict>().entries.size());
        case Kind::Range:
            return value.as<Range>().size;
        default:
            return std::nullopt;
    }
}

bool iterable(const Value& value) {
    switch (value.kind()) {
        case Kind::Undefined:
        case Kind::String:
        case Kind::List:
        case Kind::Tuple:
        case Kind::Dict:
        case Kind::View:
        case Kind::Range:
        case Kind::Iterator:
            return true;
        default:
            return false;
    }
}

Cursor::Cursor(Heap& heap, Value source) : heap_(&heap), source_(std::move(source)) {
    if (!iterable(source_)) raise("'{}' object is not iterable", type_name(source_));
}

bool Cursor::next(Value& item) {
    heap_->budget().step();
    auto entry = [&](const Dict& dict, View::What what) {
        if (at_ >= dict.entries.size()) return false;
        const auto& [key, value] = dict.entries[at_++];
        if (what == View::What::Items) {
            Ref<List> pair(heap_->make<List>(Kind::Tuple));
            pair->push(key);
            pair->push(value);
            item = pair.value();
        } else {
            item = what == View::What::Keys ? key : value;
        }
        return true;
    };
    switch (source_.kind()) {
        case Kind::List:
        case Kind::Tuple:
            if (at_ >= source_.items().size()) return false;
            item = source_.items()[at_++];
            return true;
        case Kind::Dict:
            return entry(source_.as<Dict>(), View::What::Keys);
        case Kind::View:
            return entry(source_.as<View>().dict.as<Dict>(), source_.as<View>().what);
        case Kind::Iterator: {
            auto& iterator = source_.as<Iterator>();
            if (iterator.at >= iterator.items.size()) return false;
            item = iterator.items[iterator.at++];
            return true;
        }
        case Kind::Range: {
            const auto& range = source_.as<Range>();
            if (at_ >= static_cast<std::size_t>(range.size)) return false;
            item = Value::integer(range.at(static_cast<std::int64_t>(at_++)));
            return true;
        }
        case Kind::String: {
            const std::string& text = source_.text();
            if (at_ >= text.size()) return false;
            const std::size_t size = decode(text, at_).size;
            item = heap_->string(text.substr(at_, size), false);
            at_ += size;
            return true;
        }
        default:
            return false;
    }
}

Value to_list(Heap& heap, const Value& value) {
    Ref<List> list(heap.make<List>(Kind::List));
    Cursor cursor(heap, value);
    for (Value item; cursor.next(item);) list->push(std::move(item));
    return list.value();
}

}  // namespace cellar::jinja
