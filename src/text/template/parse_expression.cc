#include <algorithm>
#include <array>

#include "text/template/number_text.h"
#include "text/template/parser.h"
#include "text/template/print.h"

namespace cellar::jinja {

void Parser::adopt(Expr& parent, const ExprPtr& child) {
    if (!child) return;
    parent.height = std::max(parent.height, child->height + 1);
    if (parent.height > max_parse_depth) raise_at(parent.line, "the expression is nested deeper than the limit of {}", max_parse_depth);
}

ExprPtr Parser::tuple(bool with_choice, bool parenthesized) {
    const std::uint32_t line = now().line;
    auto part = [&] { return with_choice ? choice() : logic(true); };
    auto at_end = [&] { return now().kind == TokenKind::PrintEnd || now().kind == TokenKind::BlockEnd || is_op(")"); };
    auto out = std::make_unique<Sequence>(line, true);
    bool comma = false;
    while (!at_end()) {
        out->items.push_back(part());
        adopt(*out, out->items.back());
        comma = take_op(",");
        if (!comma) break;
    }
    if (out->items.size() == 1 && !comma) return std::move(out->items[0]);
    if (out->items.empty() && !parenthesized) raise_at(line, "expected an expression, found {}", found());
    return out;
}

ExprPtr Parser::choice() {
    ExprPtr value = logic(true);
    while (is_name("if")) {
        auto out = std::make_unique<Choice>(next().line);
        out->then = std::move(value);
        out->condition = logic(true);
        if (take_name("else")) {
            const Nested nested(*this);
            out->otherwise = choice();
        }
        adopt(*out, out->then);
        adopt(*out, out->condition);
        adopt(*out, out->otherwise);
        value = std::move(out);
    }
    return value;
}

ExprPtr Parser::logic(bool any) {
    auto part = [&] { return any ? logic(false) : negation(); };
    const std::string_view word = any ? "or" : "and";
    ExprPtr first = part();
    if (!is_name(word)) return first;
    auto out = std::make_unique<Logic>(now().line, any);
    out->parts.push_back(std::move(first));
    while (take_name(word)) out->parts.push_back(part());
    for (const auto& p : out->parts) adopt(*out, p);
    return out;
}

ExprPtr Parser::negation() {
    if (!is_name("not")) return comparison();
    const Nested nested(*this);
    auto out = std::make_unique<Unary>(ExprKind::Not, next().line);
    out->operand = negation();
    adopt(*out, out->operand);
    return out;
}

ExprPtr Parser::comparison() {
    static constexpr std::array<std::pair<std::string_view, Relation>, 6> signs = {{{"==", Relation::Equal},
                                                                                    {"!=", Relation::NotEqual},
                                                                                    {"<=", Relation::LessEqual},
                                                                                    {">=", Relation::GreaterEqual},
                                                                                    {"<", Relation::Less},
                                                                                    {">", Relation::Greater}}};
    auto relation = [&]() -> std::optional<Relation> {
        for (const auto& [text, sign] : signs)
            if (take_op(text)) return sign;
        if (take_name("in")) return Relation::In;
        if (is_name("not") && ahead().kind == TokenKind::Name && ahead().text == "in") {
            next();
            next();
            return Relation::NotIn;
        }
        return std::nullopt;
    };
    const std::uint32_t line = now().line;
    ExprPtr first = sum();
    std::unique_ptr<Compare> out;
    while (const auto sign = relation()) {
        if (!out) {
            out = std::make_unique<Compare>(line);
            out->first = std::move(first);
            adopt(*out, out->first);
        }
        out->rest.emplace_back(*sign, sum());
        adopt(*out, out->rest.back().second);
    }
    return out ? std::move(out) : std::move(first);
}

namespace {

// The operators of one rank and the rank below it, folded from the left into one node.
template <class Operand, class NextSign, class Adopt>
ExprPtr fold(std::uint32_t line, Operand operand, NextSign next_sign, Adopt adopt) {
    ExprPtr first = operand();
    std::unique_ptr<Chain> out;
    while (const std::optional<Sign> sign = next_sign()) {
        if (!out) {
            out = std::make_unique<Chain>(line);
            out->first = std::move(first);
            adopt(*out, out->first);
        }
        out->rest.emplace_back(*sign, operand());
        adopt(*out, out->rest.back().second);
    }
    return out ? std::move(out) : std::move(first);
}

}  // namespace

ExprPtr Parser::sum() {
    return fold(
        now().line, [&] { return concat(); },
        [&]() -> std::optional<Sign> {
            return take_op("+") ? std::optional(Sign::Add) : take_op("-") ? std::optional(Sign::Subtract) : std::nullopt;
        },
        [&](Expr& parent, const ExprPtr& child) { adopt(parent, child); });
}

ExprPtr Parser::concat() {
    ExprPtr first = product();
    if (!is_op("~")) return first;
    auto out = std::make_unique<Concat>(now().line);
    out->parts.push_back(std::move(first));
    while (take_op("~")) out->parts.push_back(product());
    for (const auto& p : out->parts) adopt(*out, p);
    return out;
}

ExprPtr Parser::product() {
    return fold(
        now().line, [&] { return power(); },
        [&]() -> std::optional<Sign> {
            if (take_op("*")) return Sign::Multiply;
            if (take_op("/")) return Sign::Divide;
            if (take_op("//")) return Sign::FloorDivide;
            if (take_op("%")) return Sign::Modulo;
            return std::nullopt;
        },
        [&](Expr& parent, const ExprPtr& child) { adopt(parent, child); });
}

ExprPtr Parser::power() {
    // Unlike in Python, 2 ** 3 ** 2 is read from the left.
    return fold(
        now().line, [&] { return unary(true); }, [&]() -> std::optional<Sign> { return take_op("**") ? std::optional(Sign::Power) : std::nullopt; },
        [&](Expr& parent, const ExprPtr& child) { adopt(parent, child); });
}

ExprPtr Parser::unary(bool with_filter) {
    const std::uint32_t line = now().line;
    ExprPtr value;
    if (is_op("-") || is_op("+")) {
        const Nested nested(*this);
        auto out = std::make_unique<Unary>(next().text == "-" ? ExprKind::Negate : ExprKind::Positive, line);
        out->operand = unary(false);
        adopt(*out, out->operand);
        value = std::move(out);
    } else {
        value = primary();
    }
    value = postfix(std::move(value));
    return with_filter ? filters(std::move(value)) : std::move(value);
}

ExprPtr Parser::primary() {
    const Token token = now();
    switch (token.kind) {
        case TokenKind::Name: {
            next();
            if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
                auto out = std::make_unique<Literal>(token.line);
                out->value = Kind::Bool;
                out->integer = token.text == "true" || token.text == "True" ? 1 : 0;
                return out;
            }
            if (token.text == "none" || token.text == "None") return std::make_unique<Literal>(token.line);
            for (Macro* macro : macros_) {
                macro->uses_varargs = macro->uses_varargs || token.text == "varargs";
                macro->uses_kwargs = macro->uses_kwargs || token.text == "kwargs";
                macro->uses_caller = macro->uses_caller || token.text == "caller";
            }
            return std::make_unique<Variable>(token.line, symbol(token.text));
        }
        case TokenKind::String:
            return string_literal();
        case TokenKind::Integer:
        case TokenKind::Float:
            return number_literal();
        case TokenKind::Operator:
            if (token.text == "(") {
                const Nested nested(*this);
                next();
                ExprPtr value = tuple(true, true);
                expect_op(")");
                return value;
            }
            if (token.text == "[") return list_literal();
            if (token.text == "{") return dict_literal();
            break;
        default:
            break;
    }
    raise_at(token.line, "expected an expression, found {}", found());
}

ExprPtr Parser::string_literal() {
    auto out = std::make_unique<Literal>(now().line);
    out->value = Kind::String;
    while (now().kind == TokenKind::String) out->text += unquoted(next());
    return out;
}

ExprPtr Parser::number_literal() {
    const Token token = next();
    auto out = std::make_unique<Literal>(token.line);
    if (token.kind == TokenKind::Float) {
        const auto real = parse_float(token.text);
        if (!real) raise_at(token.line, "'{}' is no number", shortened(token.text));
        out->value = Kind::Float;
        out->real = *real;
        return out;
    }
    const bool zeros = token.text.find_first_not_of("0_") == std::string_view::npos;
    const bool prefixed = token.text.size() > 1 && (token.text[1] | 0x20) >= 'b';
    if (token.text.front() == '0' && !zeros && !prefixed) raise_at(token.line, "'{}' is no number: a zero may not lead", shortened(token.text));
    std::optional<std::int64_t> integer;
    try {
        integer = parse_integer(token.text, prefixed ? 0 : 10);
    } catch (const Failure& failure) {
        raise_at(token.line, "{}", failure.message);
    }
    if (!integer) raise_at(token.line, "'{}' is no number", shortened(token.text));
    out->value = Kind::Int;
    out->integer = *integer;
    return out;
}

ExprPtr Parser::list_literal() {
    const Nested nested(*this);
    auto out = std::make_unique<Sequence>(next().line, false);
    while (!is_op("]")) {
        out->items.push_back(expression());
        adopt(*out, out->items.back());
        if (!take_op(",")) break;
    }
    expect_op("]");
    return out;
}

ExprPtr Parser::dict_literal() {
    const Nested nested(*this);
    auto out = std::make_unique<Mapping>(next().line);
    while (!is_op("}")) {
        ExprPtr key = expression();
        expect_op(":");
        ExprPtr value = expression();
        adopt(*out, key);
        adopt(*out, value);
        out->entries.emplace_back(std::move(key), std::move(value));
        if (!take_op(",")) break;
    }
    expect_op("}");
    return out;
}

ExprPtr Parser::postfix(ExprPtr object) {
    while (true) {
        const std::uint32_t line = now().line;
        if (take_op(".")) {
            object = attribute(std::move(object), line);
        } else if (take_op("[")) {
            object = subscript(std::move(object), line);
        } else if (is_op("(")) {
            object = call(std::move(object));
        } else {
            return object;
        }
    }
}

ExprPtr Parser::attribute(ExprPtr object, std::uint32_t line) {
    if (now().kind == TokenKind::Integer) {
        auto out = std::make_unique<Item>(line);
        out->object = std::move(object);
        out->key = number_literal();
        adopt(*out, out->object);
        return out;
    }
    auto out = std::make_unique<Attribute>(line);
    out->object = std::move(object);
    out->name = expect_any_name("the name of an attribute behind '.'");
    adopt(*out, out->object);
    return out;
}

ExprPtr Parser::subscript(ExprPtr object, std::uint32_t line) {
    const Nested nested(*this);
    ExprPtr parts[3];
    std::size_t colons = 0;
    while (!is_op("]")) {
        if (take_op(":")) {
            if (++colons > 2) raise_at(line, "expected ']', found a third ':' in a slice");
            continue;
        }
        if (parts[colons]) break;
        parts[colons] = expression();
    }
    if (is_op(",") && colons == 0) {  // x[a, b] has a tuple for its key
        auto key = std::make_unique<Sequence>(line, true);
        key->items.push_back(std::move(parts[0]));
        while (take_op(",") && !is_op("]")) key->items.push_back(expression());
        for (const auto& item : key->items) adopt(*key, item);
        parts[0] = std::move(key);
    }
    expect_op("]");
    if (colons > 0) {
        auto out = std::make_unique<Slice>(line);
        out->object = std::move(object);
        out->begin = std::move(parts[0]);
        out->end = std::move(parts[1]);
        out->step = std::move(parts[2]);
        for (const auto* p : {&out->object, &out->begin, &out->end, &out->step}) adopt(*out, *p);
        return out;
    }
    if (!parts[0]) raise_at(line, "expected a subscript, found ']'");
    auto out = std::make_unique<Item>(line);
    out->object = std::move(object);
    out->key = std::move(parts[0]);
    adopt(*out, out->object);
    adopt(*out, out->key);
    return out;
}

ExprPtr Parser::filters(ExprPtr input) {
    while (true) {
        if (take_op("|")) {
            input = filter(std::move(input));
        } else if (take_name("is")) {
            input = test(std::move(input));
        } else if (is_op("(")) {
            input = call(std::move(input));
        } else {
            return input;
        }
    }
}

ExprPtr Parser::filter(ExprPtr input) {
    auto out = std::make_unique<Applied>(ExprKind::Filter, now().line);
    out->input = std::move(input);
    adopt(*out, out->input);
    out->name = expect_any_name("the name of a filter");
    while (take_op(".")) out->name += "." + expect_any_name("the name of a filter");
    out->builtin = find_filter(out->name);
    if (is_op("(")) arguments(*out, out->arguments);
    return out;
}

ExprPtr Parser::test(ExprPtr input) {
    auto out = std::make_unique<Applied>(ExprKind::Test, now().line);
    out->input = std::move(input);
    adopt(*out, out->input);
    const bool negated = take_name("not");
    out->name = expect_any_name("the name of a test");
    while (take_op(".")) out->name += "." + expect_any_name("the name of a test");
    out->builtin = find_test(out->name);
    const TokenKind kind = now().kind;
    const bool word = kind == TokenKind::Name && !is_name("else") && !is_name("or") && !is_name("and") && !is_name("if") && !is_name("recursive");
    if (is_op("(")) {
        arguments(*out, out->arguments);
    } else if (word || kind == TokenKind::String || kind == TokenKind::Integer || kind == TokenKind::Float || is_op("[") || is_op("{")) {
        if (is_name("is")) raise_at(now().line, "tests cannot be chained: expected 'and' before 'is'");
        const Nested nested(*this);
        out->arguments.given.push_back(postfix(primary()));
        adopt(*out, out->arguments.given.back());
    }
    if (!negated) return out;
    auto inverse = std::make_unique<Unary>(ExprKind::Not, out->line);
    inverse->operand = std::move(out);
    adopt(*inverse, inverse->operand);
    return inverse;
}

ExprPtr Parser::call(ExprPtr callee) {
    auto out = std::make_unique<Call>(now().line);
    out->callee = std::move(callee);
    adopt(*out, out->callee);
    arguments(*out, out->arguments);
    return out;
}

void Parser::arguments(Expr& owner, Arguments& out) {
    const Nested nested(*this);
    expect_op("(");
    while (!is_op(")")) {
        const std::uint32_t line = now().line;
        if (take_op("**")) {
            if (out.rest_named) raise_at(line, "expected ')', found a second '**'");
            out.rest_named = expression();
            adopt(owner, out.rest_named);
        } else if (take_op("*")) {
            if (out.rest || out.rest_named) raise_at(line, "expected ')', found '*' behind '*' or '**'");
            out.rest = expression();
            adopt(owner, out.rest);
        } else if (now().kind == TokenKind::Name && ahead().kind == TokenKind::Operator && ahead().text == "=") {
            std::string name(next().text);
            next();
            if (out.rest_named) raise_at(line, "expected ')', found a named argument behind '**'");
            out.named.emplace_back(std::move(name), expression());
            adopt(owner, out.named.back().second);
        } else {
            if (!out.named.empty() || out.rest || out.rest_named) raise_at(line, "expected the name of an argument, found {}", found());
            out.given.push_back(expression());
            adopt(owner, out.given.back());
        }
        if (!take_op(",")) break;
    }
    expect_op(")");
}

}  // namespace cellar::jinja
