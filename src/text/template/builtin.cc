#include "text/template/builtin.h"

#include <algorithm>
#include <array>

#include "text/template/ops.h"
#include "text/template/print.h"

namespace cellar::jinja {

namespace {

struct Signature {
    std::vector<std::string_view> names;
    std::size_t required = 0;  // how many of the first must be given
    bool more = false;
    bool any_names = false;
};

Signature read_signature(std::string_view parameters) {
    Signature signature;
    while (!parameters.empty()) {
        const std::size_t space = std::min(parameters.find(' '), parameters.size());
        std::string_view name = parameters.substr(0, space);
        parameters.remove_prefix(std::min(space + 1, parameters.size()));
        if (name == "*") {
            signature.more = true;
        } else if (name == "**") {
            signature.any_names = true;
        } else {
            if (name.ends_with('!')) {
                name.remove_suffix(1);
                signature.required = signature.names.size() + 1;
            }
            signature.names.push_back(name);
        }
    }
    return signature;
}

void bind(const Builtin& builtin, Args& args) {
    const Signature signature = read_signature(builtin.parameters);
    const std::size_t count = signature.names.size();
    if (args.given.size() > count && !signature.more) raise("{}() takes at most {} argument(s), {} given", builtin.name, count, args.given.size());
    while (args.given.size() < count) args.given.push_back(Value::missing());
    std::vector<std::pair<std::string, Value>> left;
    for (auto& [name, value] : args.named) {
        const auto at = std::find(signature.names.begin(), signature.names.end(), name);
        if (at == signature.names.end()) {
            if (!signature.any_names) raise("{}() got an unexpected keyword argument '{}'", builtin.name, shortened(name));
            left.emplace_back(name, value);
            continue;
        }
        Value& slot = args.given[static_cast<std::size_t>(at - signature.names.begin())];
        if (!slot.is(Kind::Missing)) raise("{}() got multiple values for argument '{}'", builtin.name, name);
        slot = value;
    }
    args.named = std::move(left);
    for (std::size_t i = 0; i < signature.required; ++i)
        if (args.given[i].is(Kind::Missing)) raise("{}() is missing the argument '{}'", builtin.name, signature.names[i]);
}

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
    const auto at = std::find_if(table.begin(), table.end(), [&](const Builtin& b) { return b.name == name; });
    return at == table.end() ? nullptr : &*at;
}

const Builtin* find_among(std::initializer_list<std::span<const Builtin>> tables, std::string_view name) {
    for (const auto table : tables)
        if (const Builtin* found = find_in(table, name)) return found;
    return nullptr;
}

constexpr std::array<std::string_view, 8> list_changes = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
constexpr std::array<std::string_view, 5> dict_changes = {"clear", "pop", "popitem", "setdefault", "update"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Value call_builtin(Runtime& runtime, const Builtin& builtin, const Value& self, Args args) {
    runtime.budget.step(1 + args.named.size());
    bind(builtin, args);
    return builtin.run(runtime, self, args);
}

const Builtin* find_filter(std::string_view name) {
    return find_among({text_filters(), sequence_filters(), choosing_filters(), number_filters()}, name);
}

bool changes_object(Kind kind, std::string_view name) {
    if (kind == Kind::List) return is_one_of(list_changes, name);
    return kind == Kind::Dict && is_one_of(dict_changes, name);
}

std::int64_t int_arg(const Args& args, std::size_t i, std::string_view name, std::int64_t otherwise) {
    const Value* value = args.at(i);
    if (value == nullptr) return otherwise;
    if (value->is(Kind::Undefined)) raise_undefined(*value);
    if (!value->is_integer()) raise("'{}' must be an integer, not {}", name, type_name(*value));
    return value->as_int();
}

bool bool_arg(const Args& args, std::size_t i, bool otherwise) {
    const Value* value = args.at(i);
    return value == nullptr ? otherwise : truthy(*value);
}

std::string_view text_arg(const Args& args, std::size_t i, std::string_view name, std::string_view otherwise) {
    const Value* value = args.at(i);
    if (value == nullptr) return otherwise;
    if (value->is(Kind::Undefined)) raise_undefined(*value);
    if (!value->is(Kind::String)) raise("'{}' must be str, not {}", name, type_name(*value));
    return value->text();
}

const Builtin* find_test(std::string_view name) {
    return find_in(tests(), name);
}
const Builtin* find_global(std::string_view name) {
    return find_in(globals(), name);
}

const Builtin* find_method(Kind kind, std::string_view name) {
    switch (kind) {
        case Kind::String:
            return find_among({text_methods(), splitting_methods()}, name);
        case Kind::Dict:
            return find_in(dict_methods(), name);
        case Kind::List:
            return find_in(list_methods(), name);
        case Kind::Tuple:
        case Kind::Range:
            return find_in(list_methods().first(2), name);
        case Kind::Cycler:
            return find_in(cycler_methods(), name);
        case Kind::Loop:
            return find_in(loop_methods(), name);
        default:
            return nullptr;
    }
}

}  // namespace cellar::jinja
