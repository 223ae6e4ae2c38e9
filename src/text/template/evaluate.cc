#include "text/template/interpreter.h"
#include "text/template/print.h"

namespace cellar::jinja {

Value Interpreter::eval(const Expr& expr, Scope& scope) {
    const Level level(budget_);
    budget_.step();
    line_ = expr.line;
    switch (expr.kind) {
        case ExprKind::Literal:
            return eval_literal(static_cast<const Literal&>(expr));
        case ExprKind::Variable:
            return eval_variable(static_cast<const Variable&>(expr), scope);
        case ExprKind::Captured:
            return std::exchange(captured_, Value());
        case ExprKind::Sequence:
            return eval_sequence(static_cast<const Sequence&>(expr), scope);
        case ExprKind::Mapping:
            return eval_mapping(static_cast<const Mapping&>(expr), scope);
        case ExprKind::Not:
        case ExprKind::Negate:
        case ExprKind::Positive:
            return eval_unary(static_cast<const Unary&>(expr), scope);
        case ExprKind::Chain:
            return eval_chain(static_cast<const Chain&>(expr), scope);
        case ExprKind::Concat:
            return eval_concat(static_cast<const Concat&>(expr), scope);
        case ExprKind::Logic:
            return eval_logic(static_cast<const Logic&>(expr), scope);
        case ExprKind::Compare:
            return eval_compare(static_cast<const Compare&>(expr), scope);
        case ExprKind::Choice:
            return eval_choice(static_cast<const Choice&>(expr), scope);
        case ExprKind::Attribute:
            return eval_attribute(static_cast<const Attribute&>(expr), scope);
        case ExprKind::Item:
            return eval_item(static_cast<const Item&>(expr), scope);
        case ExprKind::Slice:
            return eval_slice(static_cast<const Slice&>(expr), scope);
        case ExprKind::Call: {
            const auto& node = static_cast<const Call&>(expr);
            const Value callee = eval(*node.callee, scope);
            Args args = eval_arguments(node.arguments, scope);
            line_ = expr.line;
            return call(callee, std::move(args));
        }
        case ExprKind::Filter:
        case ExprKind::Test:
            return eval_applied(static_cast<const Applied&>(expr), scope);
    }
    return Value();
}

Value Interpreter::eval_literal(const Literal& node) {
    switch (node.value) {
        case Kind::Bool:
            return Value::boolean(node.integer != 0);
        case Kind::Int:
            return Value::integer(node.integer);
        case Kind::Float:
            return Value::real(node.real);
        case Kind::String:
            return heap_.string(node.text);
        default:
            return Value();
    }
}

Value Interpreter::eval_variable(const Variable& node, Scope& scope) {
    const std::string& name = program_.names[node.symbol];
    if (const Value* value = scope.find(node.symbol)) {
        if (!value->is(Kind::Undefined) || value->has_object()) return *value;
    } else {
        Value& given = variables_[node.symbol];
        if (!given.is(Kind::Missing)) return given;
        if (const Builtin* global = find_global(name)) {
            given = Value(heap_.make<Function>(global));
            return given;
        }
    }
    return heap_.undefined(fmt::format("'{}' is undefined", shortened(name)));
}

Value Interpreter::eval_sequence(const Sequence& node, Scope& scope) {
    Ref<List> list(heap_.make<List>(node.tuple ? Kind::Tuple : Kind::List));
    for (const auto& item : node.items) list->push(eval(*item, scope));
    return list.value();
}

Value Interpreter::eval_mapping(const Mapping& node, Scope& scope) {
    Ref<Dict> dict(heap_.make<Dict>());
    for (const auto& [key, value] : node.entries) {
        Value k = eval(*key, scope);
        Value v = eval(*value, scope);
        line_ = node.line;
        dict->set(std::move(k), std::move(v));
    }
    return dict.value();
}

Value Interpreter::eval_unary(const Unary& node, Scope& scope) {
    const Value operand = eval(*node.operand, scope);
    line_ = node.line;
    if (node.kind == ExprKind::Not) return Value::boolean(!truthy(operand));
    return node.kind == ExprKind::Negate ? negate(operand) : positive(operand);
}

Value Interpreter::eval_chain(const Chain& node, Scope& scope) {
    Value left = eval(*node.first, scope);
    for (const auto& [sign, operand] : node.rest) {
        const Value right = eval(*operand, scope);
        line_ = node.line;
        left = arithmetic(heap_, sign, left, right);
    }
    return left;
}

Value Interpreter::eval_concat(const Concat& node, Scope& scope) {
    Builder out(heap_);
    for (const auto& part : node.parts) {
        const Value value = eval(*part, scope);
        line_ = node.line;
        append_text(out, value);
    }
    return out.finish();
}

Value Interpreter::eval_logic(const Logic& node, Scope& scope) {
    Value value;
    for (const auto& part : node.parts) {
        value = eval(*part, scope);
        if (truthy(value) == node.any) break;
    }
    return value;
}

Value Interpreter::eval_compare(const Compare& node, Scope& scope) {
    Value left = eval(*node.first, scope);
    bool holds = true;
    for (const auto& [relation, operand] : node.rest) {
        Value right = eval(*operand, scope);
        line_ = node.line;
        auto order = [&](std::string_view sign) { return compare(budget_, left, right, sign); };
        switch (relation) {
            case Relation::Equal:
                holds = equal(budget_, left, right);
                break;
            case Relation::NotEqual:
                holds = !equal(budget_, left, right);
                break;
            case Relation::Less:
                holds = order("<") == -1;
                break;
            case Relation::LessEqual: {
                const int o = order("<=");
                holds = o == -1 || o == 0;
                break;
            }
            case Relation::Greater:
                holds = order(">") == 1;
                break;
            case Relation::GreaterEqual: {
                const int o = order(">=");
                holds = o == 1 || o == 0;
                break;
            }
            case Relation::In:
                holds = contains(heap_, right, left);
                break;
            case Relation::NotIn:
                holds = !contains(heap_, right, left);
        }
        if (!holds) break;
        left = std::move(right);
    }
    return Value::boolean(holds);
}

Value Interpreter::eval_choice(const Choice& node, Scope& scope) {
    if (truthy(eval(*node.condition, scope))) return eval(*node.then, scope);
    if (node.otherwise) return eval(*node.otherwise, scope);
    return heap_.undefined("the inline if-expression evaluated to false and no else section was defined.");
}

Value Interpreter::eval_attribute(const Attribute& node, Scope& scope) {
    const Value object = eval(*node.object, scope);
    line_ = node.line;
    return get_attribute(heap_, object, node.name);
}

Value Interpreter::eval_item(const Item& node, Scope& scope) {
    const Value object = eval(*node.object, scope);
    const Value key = eval(*node.key, scope);
    line_ = node.line;
    return get_item(heap_, object, key);
}

Value Interpreter::eval_slice(const Slice& node, Scope& scope) {
    const Value object = eval(*node.object, scope);
    auto bound = [&](const ExprPtr& expr) { return expr ? eval(*expr, scope) : Value(); };
    const Value begin = bound(node.begin), end = bound(node.end), step = bound(node.step);
    line_ = node.line;
    return get_slice(heap_, object, begin, end, step);
}

Value Interpreter::eval_applied(const Applied& node, Scope& scope) {
    const Value input = eval(*node.input, scope);
    if (node.builtin == nullptr) {
        line_ = node.line;
        raise("No {} named '{}'.", node.kind == ExprKind::Filter ? "filter" : "test", shortened(node.name));
    }
    Args args = eval_arguments(node.arguments, scope);
    line_ = node.line;
    return call_builtin(runtime_, *node.builtin, input, std::move(args));
}

Args Interpreter::eval_arguments(const Arguments& arguments, Scope& scope) {
    Args args;
    for (const auto& value : arguments.given) args.given.push_back(eval(*value, scope));
    for (const auto& [name, value] : arguments.named) args.named.emplace_back(name, eval(*value, scope));
    // What * and ** bring is paid for like a container of that size.
    if (arguments.rest) {
        Cursor cursor(heap_, eval(*arguments.rest, scope));
        for (Value value; cursor.next(value); args.given.push_back(std::move(value))) budget_.check_value((args.given.size() + 1) * sizeof(Value));
    }
    if (arguments.rest_named) {
        const Value named = eval(*arguments.rest_named, scope);
        if (!named.is(Kind::Dict)) raise("argument after ** must be a mapping, not {}", type_name(named));
        for (const auto& [key, value] : named.as<Dict>().entries) {
            if (!key.is(Kind::String)) raise("keywords must be strings");
            budget_.work(key.text().size());
            args.named.emplace_back(key.text(), value);
        }
    }
    return args;
}

}  // namespace cellar::jinja
