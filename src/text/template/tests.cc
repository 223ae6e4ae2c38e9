// What may stand behind `is`.
#include "text/template/builtin.h"
#include "text/template/markup.h"
#include "text/template/ops.h"
#include "text/template/print.h"
#include "text/template/text_ops.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

Value answer(bool b) {
    return Value::boolean(b);
}

template <Kind kind>
Value is_kind(Runtime&, const Value& self, Args&) {
    return answer(self.is(kind));
}

Value is_defined(Runtime&, const Value& self, Args&) {
    return answer(!self.is(Kind::Undefined));
}
Value is_number(Runtime&, const Value& self, Args&) {
    return answer(self.is_number());
}
Value is_integer(Runtime&, const Value& self, Args&) {
    return answer(self.is(Kind::Int) || self.is(Kind::Huge));
}
Value is_true(Runtime&, const Value& self, Args&) {
    return answer(self.is(Kind::Bool) && self.as_bool());
}
Value is_false(Runtime&, const Value& self, Args&) {
    return answer(self.is(Kind::Bool) && !self.as_bool());
}
Value is_iterable(Runtime&, const Value& self, Args&) {
    return answer(iterable(self));
}

// What has a length and can be subscripted; that includes text, dicts and undefined values.
Value is_sequence(Runtime&, const Value& self, Args&) {
    return answer(length_of(self) && !self.is(Kind::View));
}

Value is_callable(Runtime&, const Value& self, Args&) {
    const Kind kind = self.kind();
    // Calling an undefined value only gives an error, but it can be called.
    return answer(kind == Kind::Function || kind == Kind::Method || kind == Kind::Macro || kind == Kind::Loop || kind == Kind::Joiner ||
                  kind == Kind::Undefined);
}

Value is_equal(Runtime& rt, const Value& self, Args& args) {
    return answer(equal(rt.budget, self, args.given[0]));
}
Value is_unequal(Runtime& rt, const Value& self, Args& args) {
    return answer(!equal(rt.budget, self, args.given[0]));
}
Value is_less(Runtime& rt, const Value& self, Args& args) {
    return answer(compare(rt.budget, self, args.given[0], "<") == -1);
}
Value is_greater(Runtime& rt, const Value& self, Args& args) {
    return answer(compare(rt.budget, self, args.given[0], ">") == 1);
}

Value is_at_most(Runtime& rt, const Value& self, Args& args) {
    const int order = compare(rt.budget, self, args.given[0], "<=");
    return answer(order == -1 || order == 0);
}

Value is_at_least(Runtime& rt, const Value& self, Args& args) {
    const int order = compare(rt.budget, self, args.given[0], ">=");
    return answer(order == 1 || order == 0);
}

Value is_in(Runtime& rt, const Value& self, Args& args) {
    return answer(contains(rt.heap, args.given[0], self));
}

Value is_same(Runtime& rt, const Value& self, Args& args) {
    const Value& other = args.given[0];
    if (self.kind() != other.kind()) return answer(false);
    if (self.has_object() && !self.is(Kind::String)) return answer(self.object() == other.object());
    return answer(equal(rt.budget, self, other));
}

Value modulo(Runtime& rt, const Value& self, std::int64_t by) {
    return arithmetic(rt.heap, Sign::Modulo, self, Value::integer(by));
}
Value is_odd(Runtime& rt, const Value& self, Args&) {
    return answer(equal(rt.budget, modulo(rt, self, 2), Value::integer(1)));
}
Value is_even(Runtime& rt, const Value& self, Args&) {
    return answer(equal(rt.budget, modulo(rt, self, 2), Value::integer(0)));
}

Value is_divisible(Runtime& rt, const Value& self, Args& args) {
    return answer(equal(rt.budget, arithmetic(rt.heap, Sign::Modulo, self, args.given[0]), Value::integer(0)));
}

Value is_lower_text(Runtime& rt, const Value& self, Args&) {
    return answer(is_cased(to_text(rt.heap, self), is_lower, is_upper));
}
Value is_upper_text(Runtime& rt, const Value& self, Args&) {
    return answer(is_cased(to_text(rt.heap, self), is_upper, is_lower));
}
Value is_escaped(Runtime&, const Value& self, Args&) {
    return answer(is_markup(self));
}
Value is_filter(Runtime&, const Value& self, Args&) {
    return answer(self.is(Kind::String) && find_filter(self.text()) != nullptr);
}
Value is_test(Runtime&, const Value& self, Args&) {
    return answer(self.is(Kind::String) && find_test(self.text()) != nullptr);
}

constexpr Builtin table[] = {
    {"defined", "", is_defined},
    {"undefined", "", is_kind<Kind::Undefined>},
    {"none", "", is_kind<Kind::None>},
    {"boolean", "", is_kind<Kind::Bool>},
    {"true", "", is_true},
    {"false", "", is_false},
    {"integer", "", is_integer},
    {"float", "", is_kind<Kind::Float>},
    {"number", "", is_number},
    {"string", "", is_kind<Kind::String>},
    {"mapping", "", is_kind<Kind::Dict>},
    {"sequence", "", is_sequence},
    {"iterable", "", is_iterable},
    {"callable", "", is_callable},
    {"equalto", "other!", is_equal},
    {"eq", "other!", is_equal},
    {"==", "other!", is_equal},
    {"ne", "other!", is_unequal},
    {"!=", "other!", is_unequal},
    {"lt", "other!", is_less},
    {"lessthan", "other!", is_less},
    {"<", "other!", is_less},
    {"le", "other!", is_at_most},
    {"<=", "other!", is_at_most},
    {"gt", "other!", is_greater},
    {"greaterthan", "other!", is_greater},
    {">", "other!", is_greater},
    {"ge", "other!", is_at_least},
    {">=", "other!", is_at_least},
    {"in", "seq!", is_in},
    {"sameas", "other!", is_same},
    {"odd", "", is_odd},
    {"even", "", is_even},
    {"divisibleby", "num!", is_divisible},
    {"lower", "", is_lower_text},
    {"upper", "", is_upper_text},
    {"escaped", "", is_escaped},
    {"filter", "", is_filter},
    {"test", "", is_test},
};

}  // namespace

std::span<const Builtin> tests() {
    return table;
}

}  // namespace cellar::jinja
