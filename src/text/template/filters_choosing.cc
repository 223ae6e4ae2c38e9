// Filters that run another filter or a test on each item: map, select, reject, selectattr, rejectattr.
#include "text/template/builtin.h"
#include "text/template/ops.h"
#include "text/template/print.h"

namespace cellar::jinja {

namespace {

// The arguments from position `first` on, for the filter or test that they are meant for.
Args rest_of(const Args& args, std::size_t first) {
    Args rest;
    if (args.given.size() > first) rest.given.assign(args.given.begin() + static_cast<std::ptrdiff_t>(first), args.given.end());
    rest.named = args.named;
    return rest;
}

Value* named(Args& args, std::string_view name) {
    for (auto& [key, value] : args.named)
        if (key == name) return &value;
    return nullptr;
}

std::string_view name_at(const Args& args, std::size_t i, std::string_view what) {
    const Value* name = args.at(i);
    if (name == nullptr || !name->is(Kind::String)) raise("{} expects the name of a filter or test", what);
    return name->text();
}

Value filter_map(Runtime& rt, const Value& self, Args& args) {
    Ref<Iterator> out(rt.heap.make<Iterator>());
    if (!truthy(self)) return out.value();
    Cursor cursor(rt.heap, self);
    if (args.given.empty()) {
        const Value* path = named(args, "attribute");
        if (path == nullptr) raise("map requires a filter argument");
        const Value* fallback = named(args, "default");
        if (args.named.size() != (fallback == nullptr ? 1u : 2u)) raise("map() got an unexpected keyword argument");
        for (Value item; cursor.next(item);) out->push(get_path(rt.heap, item, *path, fallback == nullptr ? Value::missing() : *fallback));
        return out.value();
    }
    const std::string_view name = name_at(args, 0, "map");
    const Builtin* filter = find_filter(name);
    if (filter == nullptr) raise("No filter named '{}'.", shortened(name));
    const Level level(rt.budget);  // The filter may be map again.
    for (Value item; cursor.next(item);) out->push(call_builtin(rt, *filter, item, rest_of(args, 1)));
    return out.value();
}

Value choose(Runtime& rt, const Value& self, const Args& args, bool by_attribute, bool keep) {
    Ref<Iterator> out(rt.heap.make<Iterator>());
    if (!truthy(self)) return out.value();
    if (by_attribute && args.given.empty()) raise("Missing parameter for attribute name");
    const std::size_t at = by_attribute ? 1 : 0;
    const Builtin* test = nullptr;
    if (args.given.size() > at) {
        const std::string_view name = name_at(args, at, "select");
        test = find_test(name);
        if (test == nullptr) raise("No test named '{}'.", shortened(name));
    }
    Cursor cursor(rt.heap, self);
    for (Value item; cursor.next(item);) {
        const Value seen = by_attribute ? get_path(rt.heap, item, args.given[0], Value::missing()) : item;
        const bool passed = test == nullptr ? truthy(seen) : truthy(call_builtin(rt, *test, seen, rest_of(args, at + 1)));
        if (passed == keep) out->push(std::move(item));
    }
    return out.value();
}

Value filter_select(Runtime& rt, const Value& self, Args& args) {
    return choose(rt, self, args, false, true);
}
Value filter_reject(Runtime& rt, const Value& self, Args& args) {
    return choose(rt, self, args, false, false);
}
Value filter_selectattr(Runtime& rt, const Value& self, Args& args) {
    return choose(rt, self, args, true, true);
}
Value filter_rejectattr(Runtime& rt, const Value& self, Args& args) {
    return choose(rt, self, args, true, false);
}

constexpr Builtin table[] = {
    {"map", "* **", filter_map},
    {"select", "* **", filter_select},
    {"reject", "* **", filter_reject},
    {"selectattr", "* **", filter_selectattr},
    {"rejectattr", "* **", filter_rejectattr},
};

}  // namespace

std::span<const Builtin> choosing_filters() {
    return table;
}

}  // namespace cellar::jinja
