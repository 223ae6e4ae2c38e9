// Filters that make numbers.
#include <cmath>

#include "text/template/builtin.h"
#include "text/template/number_text.h"
#include "text/template/ops.h"

namespace cellar::jinja {

namespace {

Value filter_int(Runtime& rt, const Value& self, Args& args) {
    Value otherwise = args.at(0) == nullptr ? Value::integer(0) : *args.at(0);
    const std::int64_t base = int_arg(args, 1, "base", 10);
    if (self.is(Kind::Undefined)) raise_undefined(self);
    if (self.is(Kind::Huge) || self.is(Kind::Int)) return self;
    if (self.is(Kind::Bool)) return Value::integer(self.as_int());
    if (self.is(Kind::Float)) return std::isnan(self.as_real()) ? otherwise : Value::integer(truncated(self.as_real()));
    if (!self.is(Kind::String)) return otherwise;
    rt.budget.work(self.text().size() * 8);
    // A base that does not exist finds no integer either, and then the text is read as a float, like "42.9".
    const bool base_exists = base == 0 || (base >= 2 && base <= 36);
    if (const auto whole = base_exists ? parse_integer(self.text(), base) : std::nullopt) return Value::integer(*whole);
    const auto real = parse_float(self.text());
    return !real || std::isnan(*real) ? otherwise : Value::integer(truncated(*real));
}

Value filter_float(Runtime& rt, const Value& self, Args& args) {
    if (self.is(Kind::Undefined)) raise_undefined(self);
    if (self.is_number()) return Value::real(to_double(self));
    if (self.is(Kind::String)) {
        rt.budget.work(self.text().size() * 8);
        if (const auto real = parse_float(self.text())) return Value::real(*real);
    }
    return args.at(0) == nullptr ? Value::real(0) : *args.at(0);
}

Value filter_abs(Runtime&, const Value& self, Args&) {
    if (self.is(Kind::Undefined)) raise_undefined(self);
    if (!self.is_number()) raise("bad operand type for abs(): '{}'", type_name(self));
    if (self.is(Kind::Float)) return Value::real(std::fabs(self.as_real()));
    if (self.is(Kind::Huge)) return self;
    return self.as_int() < 0 ? negate(self) : positive(self);
}

// round() of Python: the nearest decimal of the exact value, ties to even. The digits of printf are exact, so they decide.
double rounded(double value, std::int64_t precision) {
    constexpr std::int64_t beyond_any_digit = 330;
    if (!std::isfinite(value) || precision > beyond_any_digit) return value;
    if (precision >= 0) return std::strtod(float_digits(value, 'f', static_cast<std::size_t>(precision), false).c_str(), nullptr);
    if (precision < -beyond_any_digit) return std::copysign(0.0, value);
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
}

std::int64_t rounded(std::int64_t value, std::int64_t precision) {
    if (precision >= 0) return value;
    if (precision < -18) return 0;
    std::int64_t unit = 1;
    for (std::int64_t i = 0; i < -precision; ++i) unit *= 10;
    std::int64_t rest = value % unit, floor = value - rest;
    if (rest < 0) rest += unit, floor -= unit;
    const bool up = rest > unit / 2 || (rest == unit / 2 && floor / unit % 2 != 0);
    std::int64_t result = 0;
    if (__builtin_add_overflow(floor, up ? unit : 0, &result)) raise("the rounded integer does not fit into 64 bits");
    return result;
}

Value filter_round(Runtime&, const Value& self, Args& args) {
    const std::int64_t precision = int_arg(args, 0, "precision", 0);
    const std::string_view method = text_arg(args, 1, "method", "common");
    if (method != "common" && method != "ceil" && method != "floor") raise("method must be common, ceil or floor");
    if (self.is(Kind::Undefined)) raise_undefined(self);
    if (!self.is_number()) raise("type {} doesn't define __round__ method", type_name(self));
    if (method == "common") {
        if (self.is(Kind::Huge)) return self;
        if (self.is(Kind::Float)) return Value::real(rounded(self.as_real(), precision));
        return Value::integer(rounded(self.as_int(), precision));
    }
    const double unit = std::pow(10.0, static_cast<double>(precision));
    const double scaled = to_double(self) * unit;
    if (!std::isfinite(scaled)) raise("cannot convert float infinity to integer");
    return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

constexpr Builtin table[] = {
    {"int", "default base", filter_int},
    {"float", "default", filter_float},
    {"abs", "", filter_abs},
    {"round", "precision method", filter_round},
};

}  // namespace

std::span<const Builtin> number_filters() {
    return table;
}

}  // namespace cellar::jinja
