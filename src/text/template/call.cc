// Macros, loops and everything else that can be called.
#include <algorithm>

#include "text/template/interpreter.h"
#include "text/template/print.h"

namespace cellar::jinja {

bool MacroValue::attribute(std::string_view name, Value& out) {
    if (name == "name") {
        out = heap->string(macro->name);
    } else if (name == "catch_varargs" || name == "catch_kwargs" || name == "caller") {
        out = Value::boolean(name == "caller" ? macro->uses_caller : name == "catch_kwargs" ? macro->uses_kwargs : macro->uses_varargs);
    } else {
        return false;
    }
    return true;
}

Value Interpreter::call(const Value& callee, Args args) {
    const Level level(budget_);
    budget_.step();
    switch (callee.kind()) {
        case Kind::Function:
            return call_builtin(runtime_, *callee.as<Function>().builtin, Value(), std::move(args));
        case Kind::Method:
            return call_builtin(runtime_, *callee.as<Method>().builtin, callee.as<Method>().self, std::move(args));
        case Kind::Macro:
            return call_macro(callee.as<MacroValue>(), std::move(args));
        case Kind::Loop:
            return call_loop(callee.as<LoopValue>(), std::move(args));
        case Kind::Joiner: {
            auto& joiner = callee.as<Joiner>();
            return std::exchange(joiner.used, true) ? joiner.separator : heap_.string("");
        }
        case Kind::Undefined:
            raise_undefined(callee);
        default:
            raise("'{}' object is not callable", type_name(callee));
    }
}

Value Interpreter::call_macro(const MacroValue& value, Args args) {
    const Macro& macro = *value.macro;
    const Ref<Scope> locals = inner(value.scope, macro.hidden);
    bind_surplus(macro, args, *locals);
    bind_parameters(macro, args, *locals);
    Flow flow = Flow::Normal;
    return capture(macro.body, *locals, flow);
}

void Interpreter::bind_parameters(const Macro& macro, Args& args, Scope& locals) {
    // A default that names a parameter means that parameter, given or not, and never a variable around the macro.
    for (const auto& [symbol, otherwise] : macro.parameters)
        locals.set(symbol, heap_.undefined(fmt::format("parameter '{}' was not provided", shortened(program_.names[symbol]))));
    for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
        const auto& [symbol, otherwise] = macro.parameters[i];
        const std::string& name = program_.names[symbol];
        budget_.step(1 + args.named.size() / 8);
        const auto named = std::find_if(args.named.begin(), args.named.end(), [&](const auto& pair) { return pair.first == name; });
        if (i < args.given.size()) {
            if (named != args.named.end()) raise("macro '{}' got multiple values for argument '{}'", shortened(macro.name), shortened(name));
            locals.set(symbol, args.given[i]);
        } else if (named != args.named.end()) {
            locals.set(symbol, named->second);
        } else if (otherwise) {
            // A default is evaluated at each call and sees the parameters before it.
            locals.set(symbol, eval(*otherwise, locals));
        }
    }
}

// What goes beyond the parameters: varargs, kwargs and the caller of a call block.
void Interpreter::bind_surplus(const Macro& macro, Args& args, Scope& locals) {
    const std::size_t count = macro.parameters.size();
    auto is_parameter = [&](const std::string& name) {
        return std::any_of(macro.parameters.begin(), macro.parameters.end(), [&](const auto& p) { return program_.names[p.first] == name; });
    };
    if (args.given.size() > count && !macro.uses_varargs) raise("macro '{}' takes not more than {} argument(s)", shortened(macro.name), count);
    Value caller = heap_.undefined("No caller defined");
    Ref<Dict> kwargs(heap_.make<Dict>());
    for (const auto& [name, value] : args.named) {
        budget_.step(1 + count / 8);
        if (is_parameter(name)) continue;
        if (name == "caller" && macro.uses_caller) {
            caller = value;
        } else if (macro.uses_kwargs) {
            kwargs->set(heap_.string(name), value);
        } else {
            raise("macro '{}' takes no keyword argument '{}'", shortened(macro.name), shortened(name));
        }
    }
    if (macro.uses_caller && !is_parameter("caller")) locals.set(program_.caller, std::move(caller));
    if (macro.uses_kwargs) locals.set(program_.kwargs, kwargs.value());
    if (!macro.uses_varargs) return;
    Ref<List> varargs(heap_.make<List>(Kind::Tuple));
    for (std::size_t i = count; i < args.given.size(); ++i) varargs->push(args.given[i]);
    locals.set(program_.varargs, varargs.value());
}

Value Interpreter::call_loop(LoopValue& loop, Args args) {
    if (!loop.node->recursive) raise("the loop must have the 'recursive' marker to be called recursively");
    if (args.given.size() != 1 || !args.named.empty()) raise("loop() takes one argument, the items to walk");
    Builder text(heap_);
    Builder* outer = std::exchange(out_, &text);
    const Value scope = loop.scope;
    exec_for(*loop.node, scope, args.given[0], loop.depth + 1);
    out_ = outer;
    return text.finish();
}

LoopValue::LoopValue(Interpreter& i, const For& n, Value s, Value items, std::int64_t d)
    : Object(Kind::Loop), interpreter(&i), node(&n), scope(std::move(s)), source(std::move(items)), depth(d) {
    cursor.emplace(i.heap_, source);
}

void LoopValue::drop() {
    cursor.reset();
    scope = source = previous = current = following = changed = Value();
}

bool LoopValue::draw(Value& item) {
    while (cursor->next(item))
        if (drawn || !node->condition || interpreter->passes(*node, scope, item)) return true;
    return false;
}

bool LoopValue::advance() {
    Value item = std::exchange(following, Value::missing());
    if (item.is(Kind::Missing) && !draw(item)) return false;
    previous = std::exchange(current, std::move(item));
    ++index;
    return true;
}

bool LoopValue::peek() {
    Value item;
    if (following.is(Kind::Missing) && draw(item)) following = std::move(item);
    return !following.is(Kind::Missing);
}

std::int64_t LoopValue::length() {
    if (known_length >= 0) return known_length;
    if (!node->condition)
        if (const auto known = length_of(source)) return *known;
    // Only the items themselves tell how many there are: what is left is drawn and kept.
    Ref<List> left(heap->make<List>(Kind::List));
    if (peek()) left->push(std::exchange(following, Value::missing()));
    for (Value item; draw(item);) left->push(std::move(item));
    known_length = index + 1 + static_cast<std::int64_t>(left->items.size());
    // They passed the condition already, and must not meet it again.
    drawn = true;
    cursor.emplace(*heap, left.value());
    return known_length;
}

bool LoopValue::attribute(std::string_view name, Value& out) {
    if (name == "index" || name == "index0") {
        out = Value::integer(name == "index" ? index + 1 : index);
    } else if (name == "first") {
        out = Value::boolean(index == 0);
    } else if (name == "last") {
        out = Value::boolean(!peek());
    } else if (name == "length") {
        out = Value::integer(length());
    } else if (name == "revindex" || name == "revindex0") {
        out = Value::integer(length() - index - (name == "revindex" ? 0 : 1));
    } else if (name == "depth" || name == "depth0") {
        out = Value::integer(name == "depth" ? depth : depth - 1);
    } else if (name == "previtem") {
        out = index == 0 ? heap->undefined("there is no previous item") : previous;
    } else if (name == "nextitem") {
        out = peek() ? following : heap->undefined("there is no next item");
    } else {
        return false;
    }
    return true;
}

namespace {

Value loop_cycle(Runtime&, const Value& self, Args& args) {
    if (args.given.empty()) raise("no items for cycling given");
    return args.given[static_cast<std::size_t>(self.as<LoopValue>().index) % args.given.size()];
}

Value loop_changed(Runtime& rt, const Value& self, Args& args) {
    auto& loop = self.as<LoopValue>();
    Ref<List> values(rt.heap.make<List>(Kind::Tuple));
    for (const Value& value : args.given) values->push(value);
    if (!loop.changed.is(Kind::Missing) && equal(rt.budget, loop.changed, values.value())) return Value::boolean(false);
    loop.changed = values.value();
    return Value::boolean(true);
}

constexpr Builtin table[] = {
    {"cycle", "*", loop_cycle},
    {"changed", "*", loop_changed},
};

}  // namespace

std::span<const Builtin> loop_methods() {
    return table;
}

}  // namespace cellar::jinja
