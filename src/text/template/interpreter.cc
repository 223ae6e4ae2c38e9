#include "text/template/interpreter.h"

#include "text/template/print.h"

namespace cellar::jinja {

const Value* Scope::find(Symbol symbol) const {
    for (const Scope* scope = this;; scope = &scope->parent.as<Scope>()) {
        heap->budget().step(scope->variables.size() / 16);
        for (const auto& [name, value] : scope->variables)
            if (name == symbol) return &value;
        if (!scope->parent.is(Kind::Scope)) return nullptr;
    }
}

void Scope::set(Symbol symbol, Value value) {
    heap->budget().step(variables.size() / 16);
    for (auto& [name, old] : variables) {
        if (name != symbol) continue;
        old = std::move(value);
        return;
    }
    add_charge(sizeof(variables[0]));
    variables.emplace_back(symbol, std::move(value));
}

void Scope::reset() {
    variables.clear();
    heap->budget().refund(charged - sizeof(Scope));
    charged = sizeof(Scope);
}

Interpreter::Interpreter(Runtime& runtime, const Program& program, std::vector<Value> variables)
    : runtime_(runtime), heap_(runtime.heap), budget_(runtime.budget), program_(program), variables_(std::move(variables)) {}

std::string Interpreter::run() {
    Builder out(heap_, budget_.limits().output_bytes);
    out_ = &out;
    const Ref<Scope> root = inner(Value(), program_.hidden);
    exec(program_.body, *root);
    out_ = nullptr;
    return out.take();
}

Interpreter::Flow Interpreter::exec(const Body& body, Scope& scope) {
    for (const auto& statement : body) {
        const Flow flow = exec(*statement, scope);
        if (flow != Flow::Normal) return flow;
    }
    return Flow::Normal;
}

Interpreter::Flow Interpreter::exec(const Statement& statement, Scope& scope) {
    const Level level(budget_);
    budget_.step();
    line_ = statement.line;
    switch (statement.kind) {
        case StatementKind::Text:
            out_->append(static_cast<const Text&>(statement).text);
            break;
        case StatementKind::Print: {
            const Value value = eval(*static_cast<const Print&>(statement).value, scope);
            line_ = statement.line;
            append_text(*out_, value);
            break;
        }
        case StatementKind::If:
            return exec_if(static_cast<const If&>(statement), scope);
        case StatementKind::For: {
            const auto& node = static_cast<const For&>(statement);
            return exec_for(node, Value(&scope), eval(*node.source, scope), 1);
        }
        case StatementKind::Set: {
            const auto& node = static_cast<const Set&>(statement);
            Value value = eval(*node.value, scope);
            line_ = node.line;
            assign(node.target, std::move(value), scope);
            break;
        }
        case StatementKind::SetBlock:
            return exec_set_block(static_cast<const SetBlock&>(statement), scope);
        case StatementKind::Macro: {
            const auto& node = static_cast<const Macro&>(statement);
            scope.set(node.symbol, Value(heap_.make<MacroValue>(node, Value(&scope))));
            break;
        }
        case StatementKind::CallBlock:
            exec_call_block(static_cast<const CallBlock&>(statement), scope);
            break;
        case StatementKind::FilterBlock:
            return exec_filter_block(static_cast<const FilterBlock&>(statement), scope);
        case StatementKind::With:
            return exec_with(static_cast<const With&>(statement), scope);
        case StatementKind::Break:
            return Flow::Break;
        case StatementKind::Continue:
            return Flow::Continue;
    }
    return Flow::Normal;
}

Interpreter::Flow Interpreter::exec_if(const If& node, Scope& scope) {
    for (const auto& [condition, body] : node.branches)
        if (truthy(eval(*condition, scope))) return exec(body, scope);
    return exec(node.otherwise, scope);
}

Interpreter::Flow Interpreter::exec_for(const For& node, const Value& scope, Value items, std::int64_t depth) {
    line_ = node.line;
    const Ref<LoopValue> loop(heap_.make<LoopValue>(*this, node, scope, std::move(items), depth));
    Ref<Scope> locals = inner(scope, node.hidden);
    bool any = false;
    while (loop->advance()) {
        // Each round starts without the variables of the last one. The scope is used again unless a macro has kept it.
        if (any && locals->references == 1) {
            locals->reset();
            for (const Symbol symbol : node.hidden) locals->set(symbol, Value::undefined());
        } else if (any) {
            locals = inner(scope, node.hidden);
        }
        any = true;
        line_ = node.line;
        locals->set(program_.loop, loop.value());
        assign(node.target, loop->current, *locals);
        if (exec(node.body, *locals) == Flow::Break) break;
    }
    if (any || node.otherwise.empty()) return Flow::Normal;
    const Ref<Scope> otherwise = inner(scope, node.hidden_otherwise);
    return exec(node.otherwise, *otherwise);
}

bool Interpreter::passes(const For& node, const Value& scope, const Value& item) {
    const Level level(budget_);
    const Ref<Scope> locals = inner(scope, {});
    assign(node.target, item, *locals);
    return truthy(eval(*node.condition, *locals));
}

Interpreter::Flow Interpreter::exec_with(const With& node, Scope& scope) {
    const Ref<Scope> locals = inner(Value(&scope), node.hidden);
    // The values are those of the block around: a name set here is not yet seen by the next one.
    for (const auto& [target, value] : node.variables) assign(target, eval(*value, scope), *locals);
    return exec(node.body, *locals);
}

Value Interpreter::capture(const Body& body, Scope& scope, Flow& flow) {
    Builder text(heap_);
    Builder* outer = std::exchange(out_, &text);
    flow = exec(body, scope);
    out_ = outer;
    return text.finish();
}

Interpreter::Flow Interpreter::exec_set_block(const SetBlock& node, Scope& scope) {
    Flow flow = Flow::Normal;
    const Ref<Scope> locals = inner(Value(&scope), node.hidden);
    Value text = capture(node.body, *locals, flow);
    if (flow != Flow::Normal) return flow;
    if (node.filter) {
        captured_ = std::move(text);
        text = eval(*node.filter, scope);
    }
    line_ = node.line;
    assign(node.target, std::move(text), scope);
    return flow;
}

Interpreter::Flow Interpreter::exec_filter_block(const FilterBlock& node, Scope& scope) {
    Flow flow = Flow::Normal;
    const Ref<Scope> locals = inner(Value(&scope), node.hidden);
    captured_ = capture(node.body, *locals, flow);
    if (flow != Flow::Normal) return flow;
    const Value text = eval(*node.filter, scope);
    line_ = node.line;
    append_text(*out_, text);
    return flow;
}

void Interpreter::exec_call_block(const CallBlock& node, Scope& scope) {
    const auto& node_call = static_cast<const Call&>(*node.call);
    const Value callee = eval(*node_call.callee, scope);
    Args args = eval_arguments(node_call.arguments, scope);
    args.named.emplace_back("caller", Value(heap_.make<MacroValue>(*node.caller, Value(&scope))));
    line_ = node.line;
    const Value text = call(callee, std::move(args));
    line_ = node.line;
    append_text(*out_, text);
}

void Interpreter::assign(const Target& target, Value value, Scope& scope) {
    switch (target.kind) {
        case Target::Kind::Name:
            scope.set(target.symbol, std::move(value));
            break;
        case Target::Kind::Field: {
            const Value* space = scope.find(target.symbol);
            if (space == nullptr || !space->is(Kind::Namespace)) raise("cannot assign attribute on non-namespace object");
            space->as<Namespace>().set(target.field, std::move(value));
            break;
        }
        case Target::Kind::Tuple: {
            Cursor cursor(heap_, value);
            std::size_t count = 0;
            for (Value item; count < target.parts.size() && cursor.next(item); ++count) assign(target.parts[count], std::move(item), scope);
            if (count < target.parts.size()) raise("not enough values to unpack (expected {}, got {})", target.parts.size(), count);
            if (Value surplus; cursor.next(surplus)) raise("too many values to unpack (expected {})", target.parts.size());
        }
    }
}

}  // namespace cellar::jinja
