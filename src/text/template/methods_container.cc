// The methods of dict, list, tuple, range and cyclers. What would change a list or a dict is refused before it gets here.
#include <algorithm>

#include "text/template/builtin.h"
#include "text/template/ops.h"

namespace cellar::jinja {

namespace {

Value method_get(Runtime&, const Value& self, Args& args) {
    if (const Value* value = self.as<Dict>().find(args.given[0])) return *value;
    return args.at(1) == nullptr ? Value() : *args.at(1);
}

template <View::What what>
Value method_view(Runtime& rt, const Value& self, Args&) {
    return Value(rt.heap.make<View>(self, what));
}

Value method_copy(Runtime&, const Value& self, Args&) {
    return self;
}  // What cannot change need not be copied.

Value method_index(Runtime& rt, const Value& self, Args& args) {
    const auto length = *length_of(self);
    auto bound = [&](std::size_t i, std::int64_t otherwise) {
        const std::int64_t n = int_arg(args, i, "start or end", otherwise);
        return n < 0 ? std::max<std::int64_t>(n + length, 0) : std::min(n, length);
    };
    const std::int64_t end = bound(2, length);
    for (std::int64_t i = bound(1, 0); i < end; ++i) {
        const Value item = self.is(Kind::Range) ? Value::integer(self.as<Range>().at(i)) : self.items()[static_cast<std::size_t>(i)];
        if (equal(rt.budget, item, args.given[0])) return Value::integer(i);
    }
    raise("the value is not in the {}", type_name(self));
}

Value method_count(Runtime& rt, const Value& self, Args& args) {
    std::int64_t count = 0;
    Cursor cursor(rt.heap, self);
    for (Value item; cursor.next(item);)
        if (equal(rt.budget, item, args.given[0])) ++count;
    return Value::integer(count);
}

Value method_next(Runtime&, const Value& self, Args&) {
    auto& cycler = self.as<Cycler>();
    Value item = cycler.items[cycler.at];
    cycler.at = (cycler.at + 1) % cycler.items.size();
    return item;
}

Value method_reset(Runtime&, const Value& self, Args&) {
    self.as<Cycler>().at = 0;
    return Value();
}

constexpr Builtin dict_table[] = {
    {"get", "key! default", method_get},
    {"items", "", method_view<View::What::Items>},
    {"keys", "", method_view<View::What::Keys>},
    {"values", "", method_view<View::What::Values>},
    {"copy", "", method_copy},
};

constexpr Builtin list_table[] = {
    {"index", "value! start stop", method_index},
    {"count", "value!", method_count},
    {"copy", "", method_copy},  // the third: tuples and ranges have only the first two
};

constexpr Builtin cycler_table[] = {
    {"next", "", method_next},
    {"reset", "", method_reset},
};

}  // namespace

std::span<const Builtin> dict_methods() {
    return dict_table;
}
std::span<const Builtin> list_methods() {
    return list_table;
}
std::span<const Builtin> cycler_methods() {
    return cycler_table;
}

}  // namespace cellar::jinja
