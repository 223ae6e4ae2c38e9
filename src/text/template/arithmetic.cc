#include <array>
#include <cmath>

#include "text/template/format.h"
#include "text/template/markup.h"
#include "text/template/ops.h"

namespace cellar::jinja {

namespace {

constexpr std::array<std::string_view, 7> signs = {"+", "-", "*", "/", "//", "%", "**"};

[[noreturn]] void overflow(Sign sign) {
    raise("integer result of '{}' does not fit into 64 bits", signs[static_cast<std::size_t>(sign)]);
}

std::int64_t to_int(const Value& v) {
    if (v.is(Kind::Huge)) raise("{} is beyond 64-bit integers, which is all that can be computed with", v.as_huge());
    return v.as_int();
}

Value power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0) {
        if (base == 0) raise("0.0 cannot be raised to a negative power");
        return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    }
    std::int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow(Sign::Power);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow(Sign::Power);
    }
    return Value::integer(result);
}

Value on_integers(Sign sign, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    switch (sign) {
        case Sign::Add:
            if (__builtin_add_overflow(a, b, &result)) overflow(sign);
            return Value::integer(result);
        case Sign::Subtract:
            if (__builtin_sub_overflow(a, b, &result)) overflow(sign);
            return Value::integer(result);
        case Sign::Multiply:
            if (__builtin_mul_overflow(a, b, &result)) overflow(sign);
            return Value::integer(result);
        case Sign::Divide:
            if (b == 0) raise("division by zero");
            return Value::real(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
        case Sign::FloorDivide:
        case Sign::Modulo:
            if (b == 0) raise("integer division or modulo by zero");
            if (b == -1) {  // The one division that can overflow, and the remainder that traps with it.
                if (sign == Sign::Modulo) return Value::integer(0);
                if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) overflow(sign);
                return Value::integer(result);
            } else {
                // Python rounds towards minus infinity, so the remainder has the sign of the divisor.
                const bool correct = a % b != 0 && (a < 0) != (b < 0);
                if (sign == Sign::FloorDivide) return Value::integer(a / b - (correct ? 1 : 0));
                return Value::integer(a % b + (correct ? b : 0));
            }
        case Sign::Power:
            return power(a, b);
    }
    return Value();
}

double remainder_of(double a, double b) {
    double m = std::fmod(a, b);
    if (m != 0 && (m < 0) != (b < 0)) m += b;
    return m == 0 ? std::copysign(0.0, b) : m;
}

Value on_doubles(Sign sign, double a, double b) {
    switch (sign) {
        case Sign::Add:
            return Value::real(a + b);
        case Sign::Subtract:
            return Value::real(a - b);
        case Sign::Multiply:
            return Value::real(a * b);
        case Sign::Divide:
            if (b == 0) raise("float division by zero");
            return Value::real(a / b);
        case Sign::FloorDivide: {
            if (b == 0) raise("float floor division by zero");
            const double quotient = (a - remainder_of(a, b)) / b;
            double floor = std::floor(quotient);
            if (quotient - floor > 0.5) floor += 1;
            return Value::real(quotient == 0 ? std::copysign(0.0, a / b) : floor);
        }
        case Sign::Modulo:
            if (b == 0) raise("float modulo");
            return Value::real(remainder_of(a, b));
        case Sign::Power: {
            if (a == 0 && b < 0) raise("0.0 cannot be raised to a negative power");
            if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
                raise("a negative number cannot be raised to a fractional power");
            const double result = std::pow(a, b);
            if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) raise("the result of '**' is too large");
            return Value::real(result);
        }
    }
    return Value();
}

Value repeat(Heap& heap, const Value& value, std::int64_t count) {
    const auto n = static_cast<std::uint64_t>(count < 0 ? 0 : count);
    if (value.is(Kind::String)) {
        const std::string& text = value.text();
        heap.budget().check_value(text.size(), n);
        Builder out(heap);
        if (!text.empty())
            for (std::uint64_t i = 0; i < n; ++i) out.append(text);
        heap.budget().step(text.empty() ? 0 : n / 16);
        return out.finish(value.as<String>().markup);
    }
    const auto& items = value.items();
    heap.budget().check_value(items.size() * sizeof(Value), n);
    heap.budget().step(items.size() * n);
    Ref<List> list(heap.make<List>(value.kind()));
    if (!items.empty())
        for (std::uint64_t i = 0; i < n; ++i)
            for (const Value& item : items) list->push(item);
    return list.value();
}

Value join_sequences(Heap& heap, const Value& a, const Value& b) {
    heap.budget().step(a.items().size() + b.items().size());
    Ref<List> list(heap.make<List>(a.kind()));
    for (const Value& item : a.items()) list->push(item);
    for (const Value& item : b.items()) list->push(item);
    return list.value();
}

}  // namespace

double to_double(const Value& number) {
    if (number.is(Kind::Float)) return number.as_real();
    if (number.is(Kind::Huge)) return static_cast<double>(number.as_huge());
    return static_cast<double>(number.as_int());
}

Value arithmetic(Heap& heap, Sign sign, const Value& a, const Value& b) {
    if (a.is_number() && b.is_number()) {
        if (a.is(Kind::Float) || b.is(Kind::Float)) return on_doubles(sign, to_double(a), to_double(b));
        return on_integers(sign, to_int(a), to_int(b));
    }
    if (a.is(Kind::Undefined)) raise_undefined(a);
    if (sign == Sign::Modulo && a.is(Kind::String)) return format_percent(heap, a, b);
    if (b.is(Kind::Undefined)) raise_undefined(b);
    if (sign == Sign::Add) {
        if (a.is(Kind::String) && b.is(Kind::String)) return add_texts(heap, a, b);
        if (a.is_sequence() && a.kind() == b.kind()) return join_sequences(heap, a, b);
        if (a.is(Kind::String)) raise("can only concatenate str (not \"{}\") to str", type_name(b));
        if (a.is_sequence()) raise("can only concatenate {} (not \"{}\") to {}", type_name(a), type_name(b), type_name(a));
    }
    if (sign == Sign::Multiply) {
        const bool left = a.is(Kind::String) || a.is_sequence();
        const bool right = b.is(Kind::String) || b.is_sequence();
        if (left && b.is_integer()) return repeat(heap, a, b.as_int());
        if (right && a.is_integer()) return repeat(heap, b, a.as_int());
        if (left || right) raise("can't multiply sequence by non-int of type '{}'", type_name(left ? b : a));
    }
    raise("unsupported operand type(s) for {}: '{}' and '{}'", signs[static_cast<std::size_t>(sign)], type_name(a), type_name(b));
}

Value negate(const Value& value) {
    if (value.is(Kind::Undefined)) raise_undefined(value);
    if (value.is(Kind::Float)) return Value::real(-value.as_real());
    if (!value.is_number()) raise("bad operand type for unary -: '{}'", type_name(value));
    return on_integers(Sign::Subtract, 0, to_int(value));
}

Value positive(const Value& value) {
    if (value.is(Kind::Undefined)) raise_undefined(value);
    if (!value.is_number()) raise("bad operand type for unary +: '{}'", type_name(value));
    return value.is(Kind::Bool) ? Value::integer(value.as_int()) : value;
}

}  // namespace cellar::jinja
