// The functions that a template finds without being given them.
#include <ctime>

#include "text/template/builtin.h"
#include "text/template/ops.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

Value global_range(Runtime& rt, const Value&, Args& args) {
    std::int64_t begin = 0, end = int_arg(args, 0, "start", 0);
    if (args.at(1) != nullptr) {
        begin = end;
        end = int_arg(args, 1, "stop", 0);
    }
    const std::int64_t step = int_arg(args, 2, "step", 1);
    if (step == 0) raise("range() arg 3 must not be zero");
    const bool empty = step > 0 ? begin >= end : begin <= end;
    const auto distance = step > 0 ? static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(begin)
                                   : static_cast<std::uint64_t>(begin) - static_cast<std::uint64_t>(end);
    const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
    const std::uint64_t size = empty ? 0 : (distance - 1) / stride + 1;
    if (size > rt.budget.limits().range)
        throw Failure{fmt::format("range() of {} items is over the limit of {}", size, rt.budget.limits().range), ErrorKind::Full};
    return Value(rt.heap.make<Range>(begin, end, step, static_cast<std::int64_t>(size)));
}

Ref<Dict> dict_from(Runtime& rt, const Args& args) {
    if (args.given.size() > 1) raise("dict expected at most 1 argument, got {}", args.given.size());
    Ref<Dict> dict(rt.heap.make<Dict>());
    if (const Value* source = args.at(0)) {
        if (source->is(Kind::Dict)) {
            for (const auto& [key, value] : source->as<Dict>().entries) {
                rt.budget.step();
                dict->set(key, value);
            }
        } else {
            Cursor cursor(rt.heap, *source);
            for (Value pair; cursor.next(pair);) {
                if (!pair.is_sequence() || pair.items().size() != 2) raise("dict() expects a mapping or pairs");
                dict->set(pair.items()[0], pair.items()[1]);
            }
        }
    }
    for (const auto& [name, value] : args.named) dict->set(rt.heap.string(name), value);
    return dict;
}

Value global_dict(Runtime& rt, const Value&, Args& args) {
    return dict_from(rt, args).value();
}

Value global_namespace(Runtime& rt, const Value&, Args& args) {
    Ref<Namespace> fields(rt.heap.make<Namespace>());
    const Ref<Dict> dict = dict_from(rt, args);
    for (const auto& [key, value] : dict->entries) {
        if (!key.is(Kind::String)) raise("namespace() expects names as keys, not {}", type_name(key));
        fields->set(key.text(), value);
    }
    return fields.value();
}

Value global_cycler(Runtime& rt, const Value&, Args& args) {
    if (args.given.empty()) raise("at least one item has to be provided");
    Ref<Cycler> cycler(rt.heap.make<Cycler>());
    cycler->add_charge(args.given.size() * sizeof(Value));
    cycler->items = args.given;
    return cycler.value();
}

Value global_joiner(Runtime& rt, const Value&, Args& args) {
    return Value(rt.heap.make<Joiner>(args.at(0) == nullptr ? rt.heap.string(", ") : *args.at(0)));
}

Value global_raise(Runtime& rt, const Value&, Args& args) {
    throw Failure{to_text(rt.heap, args.given[0]).text()};
}

Value global_strftime(Runtime& rt, const Value&, Args& args) {
    const std::string format(text_arg(args, 0, "format", ""));
    constexpr std::size_t longest = 1000;
    if (format.size() > longest) raise("strftime_now() takes formats of up to {} bytes, got {}", longest, format.size());
    for (std::size_t i = format.find('%'); i != std::string::npos; i = format.find('%', i + 2))
        if (i + 1 < format.size() && format[i + 1] >= '0' && format[i + 1] <= '9') raise("strftime_now() takes no widths in its format");
    char text[32 * 1024];
    // A mark at the end tells an empty result from one that did not fit.
    const std::size_t size = std::strftime(text, sizeof text, (format + '.').c_str(), &rt.now);
    if (size == 0) raise("strftime_now(): the format '{}' gives too long a text", shortened(format));
    std::string_view result(text, size - 1);
    if (invalid_utf8_at(result)) raise("strftime_now(): the format '{}' gives no text", shortened(format));
    return rt.heap.string(std::string(result));
}

constexpr Builtin table[] = {
    {"range", "start! stop step", global_range},
    {"dict", "* **", global_dict},
    {"namespace", "* **", global_namespace},
    {"cycler", "*", global_cycler},
    {"joiner", "sep", global_joiner},
    {"raise_exception", "message!", global_raise},
    {"strftime_now", "format!", global_strftime},
};

}  // namespace

std::span<const Builtin> globals() {
    return table;
}

}  // namespace cellar::jinja
