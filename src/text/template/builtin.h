#pragma once
// What templates can call by name: filters, tests, methods of str, list and dict, and the global functions. All have one shape, so that one binder
// checks the arguments of all.
#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/heap.h"

namespace cellar::jinja {

// What the whole of one rendering shares.
struct Runtime {
    Runtime(const Limits& limits, const std::tm& time) : budget(limits), heap(budget), now(time) {}
    Budget budget;
    Heap heap;
    std::tm now;  // what strftime_now prints
};

struct Args {
    std::vector<Value> given;  // after bind(): one for each parameter, Missing where none was given, then the surplus
    std::vector<std::pair<std::string, Value>> named;

    // The argument at a position; null when it was not given.
    const Value* at(std::size_t i) const { return i < given.size() && !given[i].is(Kind::Missing) ? &given[i] : nullptr; }
};

struct Builtin {
    std::string_view name;
    // The names of the parameters, with spaces between them. "!" behind a name: it must be given. "*" at the end: more may follow.
    // "**": any names may be used, and they stay in `named`.
    std::string_view parameters;
    Value (*run)(Runtime& runtime, const Value& self, Args& args);  // self: what the filter, test or method works on
};

// Puts the named arguments where they belong and calls. Fails on too many, too few and unknown arguments, by name.
Value call_builtin(Runtime& runtime, const Builtin& builtin, const Value& self, Args args);

// Null when there is none of this name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
const Builtin* find_method(Kind kind, std::string_view name);
bool changes_object(Kind kind, std::string_view name);  // list.append and its like, which no template may call

// The tables, one for each file that fills one.
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> choosing_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> tests();
std::span<const Builtin> globals();
std::span<const Builtin> text_methods();
std::span<const Builtin> splitting_methods();
std::span<const Builtin> dict_methods();
std::span<const Builtin> list_methods();
std::span<const Builtin> cycler_methods();
std::span<const Builtin> loop_methods();

// Arguments with a default. Fail by the name of the parameter when the type is another.
std::int64_t int_arg(const Args& args, std::size_t i, std::string_view name, std::int64_t otherwise);
bool bool_arg(const Args& args, std::size_t i, bool otherwise);
std::string_view text_arg(const Args& args, std::size_t i, std::string_view name, std::string_view otherwise);

struct Function : Object {
    explicit Function(const Builtin* b) : Object(Kind::Function), builtin(b) {}
    const Builtin* builtin;
};

struct Method : Object {
    Method(Value s, const Builtin* b) : Object(Kind::Method), self(std::move(s)), builtin(b) {}
    void drop() override { self = Value(); }
    Value self;
    const Builtin* builtin;
};

}  // namespace cellar::jinja
