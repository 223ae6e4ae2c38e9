// Filters that take sequences apart, order them and put them together.
#include <algorithm>

#include "text/template/builtin.h"
#include "text/template/markup.h"
#include "text/template/ops.h"
#include "text/template/print.h"
#include "text/template/text_ops.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

Value filter_default(Runtime& rt, const Value& self, Args& args) {
    const bool use = self.is(Kind::Undefined) || (bool_arg(args, 1, false) && !truthy(self));
    if (!use) return self;
    return args.at(0) != nullptr ? *args.at(0) : rt.heap.string("");
}

Value filter_length(Runtime&, const Value& self, Args&) {
    const auto length = length_of(self);
    if (!length) raise("object of type '{}' has no len()", type_name(self));
    return Value::integer(*length);
}

Value filter_first(Runtime& rt, const Value& self, Args&) {
    Cursor cursor(rt.heap, self);
    Value item;
    return cursor.next(item) ? item : rt.heap.undefined("No first item, sequence was empty.");
}

Value filter_last(Runtime& rt, const Value& self, Args&) {
    if (!iterable(self) || self.is(Kind::Iterator)) raise("'{}' object is not reversible", type_name(self));
    const std::int64_t length = *length_of(self);
    if (length == 0) return rt.heap.undefined("No last item, sequence was empty.");
    if (!self.is(Kind::Dict) && !self.is(Kind::View)) return get_item(rt.heap, self, Value::integer(length - 1));
    return to_list(rt.heap, self).items().back();
}

Value filter_list(Runtime& rt, const Value& self, Args&) {
    return to_list(rt.heap, self);
}

Value filter_join(Runtime& rt, const Value& self, Args& args) {
    const Value separator = args.at(0) == nullptr ? rt.heap.string("") : to_text(rt.heap, *args.at(0));
    const Value* attribute = args.at(1);
    Cursor cursor(rt.heap, self);
    Builder out(rt.heap);
    bool first = true;
    for (Value item; cursor.next(item); first = false) {
        if (attribute != nullptr && !attribute->is(Kind::None)) item = get_path(rt.heap, item, *attribute, Value::missing());
        if (!first) out.append(separator.text());
        append_text(out, item);
    }
    return out.finish();
}

Value filter_reverse(Runtime& rt, const Value& self, Args&) {
    if (self.is(Kind::String)) {
        Builder out(rt.heap);
        std::string_view text = self.text();
        rt.budget.work(8 * text.size());
        while (!text.empty()) {
            std::size_t at = text.size() - 1;
            while ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
            out.append(text.substr(at));
            text = text.substr(0, at);
        }
        return out.finish(is_markup(self));
    }
    Value list = to_list(rt.heap, self);
    auto& items = list.as<List>().items;
    std::reverse(items.begin(), items.end());
    // An iterator cannot be walked backwards, so Python makes a list of it; everything else gives an iterator.
    if (self.is(Kind::Iterator)) return list;
    Ref<Iterator> out(rt.heap.make<Iterator>());
    for (const Value& item : items) out->push(item);
    return out.value();
}

Value without_case(Runtime& rt, const Value& value, bool case_sensitive) {
    return case_sensitive || !value.is(Kind::String) ? value : lower(rt.heap, value);
}

bool is_given(const Value* value) {
    return value != nullptr && !value->is(Kind::None);
}

// An item, or what a path such as "function.name" leads to in it.
Value single_key(Runtime& rt, const Value& item, const Value* path, bool case_sensitive) {
    return without_case(rt, is_given(path) ? get_path(rt.heap, item, *path, Value::missing()) : item, case_sensitive);
}

// What items are ordered by: themselves, or one or more paths ("role,name"). It is a tuple even of one, because tuples are compared by equality
// first, so that values without an order may stand in them as long as they are equal.
Value sort_key(Runtime& rt, const Value& item, const Value* attribute, bool case_sensitive) {
    Ref<List> keys(rt.heap.make<List>(Kind::Tuple));
    if (!is_given(attribute) || !attribute->is(Kind::String)) {
        keys->push(single_key(rt, item, attribute, case_sensitive));
        return keys.value();
    }
    std::string_view rest = attribute->text();
    while (true) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        const Value path = rt.heap.string(std::string(rest.substr(0, comma)));
        keys->push(single_key(rt, item, &path, case_sensitive));
        if (comma == rest.size()) return keys.value();
        rest.remove_prefix(comma + 1);
    }
}

struct Keyed {
    Value key;
    Value item;
};

Value sorted(Runtime& rt, std::vector<Keyed> items, bool backwards) {
    std::stable_sort(items.begin(), items.end(),
                     [&](const Keyed& a, const Keyed& b) { return compare(rt.budget, backwards ? b.key : a.key, backwards ? a.key : b.key) == -1; });
    Ref<List> list(rt.heap.make<List>(Kind::List));
    for (auto& [key, item] : items) list->push(std::move(item));
    return list.value();
}

template <class Key>
std::vector<Keyed> keyed(Runtime& rt, const Value& source, Key key_of) {
    std::vector<Keyed> items;
    Cursor cursor(rt.heap, source);
    for (Value item; cursor.next(item);) {
        rt.budget.check_value((items.size() + 1) * sizeof(Keyed));
        Value key = key_of(item);
        items.push_back({std::move(key), std::move(item)});
    }
    return items;
}

Value filter_sort(Runtime& rt, const Value& self, Args& args) {
    auto key = [&](const Value& item) { return sort_key(rt, item, args.at(2), bool_arg(args, 1, false)); };
    return sorted(rt, keyed(rt, self, key), bool_arg(args, 0, false));
}

Value filter_dictsort(Runtime& rt, const Value& self, Args& args) {
    if (self.is(Kind::Undefined)) raise_undefined(self);
    if (!self.is(Kind::Dict)) raise("dictsort expects a mapping, not {}", type_name(self));
    const bool case_sensitive = bool_arg(args, 0, false);
    const std::string_view by = text_arg(args, 1, "by", "key");
    if (by != "key" && by != "value") raise("You can only sort by either \"key\" or \"value\"");
    std::vector<Keyed> items;
    Cursor cursor(rt.heap, Value(rt.heap.make<View>(self, View::What::Items)));
    for (Value pair; cursor.next(pair);) {
        Value key = without_case(rt, pair.items()[by == "key" ? 0 : 1], case_sensitive);
        items.push_back({std::move(key), std::move(pair)});
    }
    return sorted(rt, std::move(items), bool_arg(args, 2, false));
}

Value filter_items(Runtime& rt, const Value& self, Args&) {
    Ref<Iterator> out(rt.heap.make<Iterator>());
    if (self.is(Kind::Undefined)) return out.value();
    if (!self.is(Kind::Dict)) raise("Can only get item pairs from a mapping.");
    Cursor cursor(rt.heap, Value(rt.heap.make<View>(self, View::What::Items)));
    for (Value pair; cursor.next(pair);) out->push(std::move(pair));
    return out.value();
}

Value filter_unique(Runtime& rt, const Value& self, Args& args) {
    Ref<Dict> seen(rt.heap.make<Dict>());
    Ref<Iterator> out(rt.heap.make<Iterator>());
    auto key_of = [&](const Value& item) { return single_key(rt, item, args.at(1), bool_arg(args, 0, false)); };
    for (auto& [key, item] : keyed(rt, self, key_of)) {
        if (seen->find(key) != nullptr) continue;
        seen->set(key, Value());
        out->push(std::move(item));
    }
    return out.value();
}

Value filter_groupby(Runtime& rt, const Value& self, Args& args) {
    const bool case_sensitive = bool_arg(args, 2, false);
    const Value fallback = args.at(1) == nullptr || args.at(1)->is(Kind::None) ? Value::missing() : *args.at(1);
    std::vector<Keyed> items;
    Cursor cursor(rt.heap, self);
    for (Value item; cursor.next(item);) {
        Value key = without_case(rt, get_path(rt.heap, item, args.given[0], fallback), case_sensitive);
        items.push_back({std::move(key), std::move(item)});
    }
    std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) { return compare(rt.budget, a.key, b.key) == -1; });
    Ref<List> groups(rt.heap.make<List>(Kind::List));
    for (std::size_t i = 0; i < items.size();) {
        Ref<List> members(rt.heap.make<List>(Kind::List)), group(rt.heap.make<List>(Kind::Tuple));
        const std::size_t first = i;
        for (; i < items.size() && equal(rt.budget, items[i].key, items[first].key); ++i) members->push(items[i].item);
        // The group is named as its first item spells the key.
        group->push(get_path(rt.heap, items[first].item, args.given[0], fallback));
        group->push(members.value());
        group->group = true;
        groups->push(group.value());
    }
    return groups.value();
}

Value filter_batch(Runtime& rt, const Value& self, Args& args) {
    const std::int64_t size = int_arg(args, 0, "linecount", 0);
    const Value fill = args.at(1) == nullptr ? Value() : *args.at(1);
    Ref<Iterator> out(rt.heap.make<Iterator>());
    Ref<List> batch(rt.heap.make<List>(Kind::List));
    Cursor cursor(rt.heap, self);
    for (Value item; cursor.next(item);) {
        if (static_cast<std::int64_t>(batch->items.size()) == size) {
            out->push(batch.value());
            batch = Ref<List>(rt.heap.make<List>(Kind::List));
        }
        batch->push(std::move(item));
    }
    if (batch->items.empty()) return out.value();
    while (!fill.is(Kind::None) && static_cast<std::int64_t>(batch->items.size()) < size) {
        rt.budget.step();
        batch->push(fill);
    }
    out->push(batch.value());
    return out.value();
}

Value filter_slice(Runtime& rt, const Value& self, Args& args) {
    const std::int64_t slices = int_arg(args, 0, "slices", 0);
    if (slices == 0) raise("integer division or modulo by zero");
    const Value fill = args.at(1) == nullptr ? Value() : *args.at(1);
    const Value list = to_list(rt.heap, self);
    const auto& items = list.items();
    Ref<Iterator> out(rt.heap.make<Iterator>());
    std::size_t at = 0;
    for (std::int64_t i = 0; i < slices; ++i) {
        rt.budget.step();
        const auto count = static_cast<std::int64_t>(items.size());
        const bool longer = i < count % slices;
        Ref<List> part(rt.heap.make<List>(Kind::List));
        for (std::int64_t n = count / slices + (longer ? 1 : 0); n > 0; --n) part->push(items[at++]);
        if (!fill.is(Kind::None) && !longer) part->push(fill);
        out->push(part.value());
    }
    return out.value();
}

Value extreme(Runtime& rt, const Value& self, const Args& args, int wanted) {
    const bool case_sensitive = bool_arg(args, 0, false);
    Cursor cursor(rt.heap, self);
    Value best, best_key;
    if (!cursor.next(best)) return rt.heap.undefined("No aggregated item, sequence was empty.");
    auto key_of = [&](const Value& item) { return single_key(rt, item, args.at(1), case_sensitive); };
    best_key = key_of(best);
    for (Value item; cursor.next(item);) {
        Value key = key_of(item);
        if (compare(rt.budget, key, best_key) != wanted) continue;
        best_key = std::move(key);
        best = std::move(item);
    }
    return best;
}

Value filter_min(Runtime& rt, const Value& self, Args& args) {
    return extreme(rt, self, args, -1);
}
Value filter_max(Runtime& rt, const Value& self, Args& args) {
    return extreme(rt, self, args, 1);
}

Value filter_sum(Runtime& rt, const Value& self, Args& args) {
    Value total = args.at(1) == nullptr ? Value::integer(0) : *args.at(1);
    if (total.is(Kind::String)) raise("sum() can't sum strings [use join() instead]");
    const Value* attribute = args.at(0);
    Cursor cursor(rt.heap, self);
    for (Value item; cursor.next(item);) {
        if (attribute != nullptr && !attribute->is(Kind::None)) item = get_path(rt.heap, item, *attribute, Value::missing());
        total = arithmetic(rt.heap, Sign::Add, total, item);
    }
    return total;
}

Value filter_attr(Runtime& rt, const Value& self, Args& args) {
    // Only what the object has besides its items, as getattr() sees it.
    const std::string_view name = text_arg(args, 0, "name", "");
    if (self.is(Kind::Dict) && find_method(Kind::Dict, name) == nullptr && !changes_object(Kind::Dict, name) && !name.starts_with("__"))
        return rt.heap.undefined(fmt::format("'dict object' has no attribute '{}'", shortened(name)));
    return get_attribute(rt.heap, self, name);
}

constexpr Builtin table[] = {
    {"default", "default_value boolean", filter_default},
    {"d", "default_value boolean", filter_default},
    {"length", "", filter_length},
    {"count", "", filter_length},
    {"first", "", filter_first},
    {"last", "", filter_last},
    {"list", "", filter_list},
    {"join", "d attribute", filter_join},
    {"reverse", "", filter_reverse},
    {"sort", "reverse case_sensitive attribute", filter_sort},
    {"dictsort", "case_sensitive by reverse", filter_dictsort},
    {"items", "", filter_items},
    {"unique", "case_sensitive attribute", filter_unique},
    {"groupby", "attribute! default case_sensitive", filter_groupby},
    {"batch", "linecount! fill_with", filter_batch},
    {"slice", "slices! fill_with", filter_slice},
    {"min", "case_sensitive attribute", filter_min},
    {"max", "case_sensitive attribute", filter_max},
    {"sum", "attribute start", filter_sum},
    {"attr", "name!", filter_attr},
};

}  // namespace

std::span<const Builtin> sequence_filters() {
    return table;
}

}  // namespace cellar::jinja
