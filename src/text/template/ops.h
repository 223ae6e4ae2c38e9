#pragma once
// What operators and statements do with values: truth, equality, order, iteration, arithmetic, subscripts. Errors are thrown as Failure with the
// wording that Python users know.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/template/heap.h"

namespace cellar::jinja {

// "str", "int", "dict": the name of a value's type in error messages.
std::string_view type_name(const Value& value);

bool truthy(const Value& value);

std::uint64_t hash_of(std::string_view text);
std::uint64_t hash_of(Budget& budget, const Value& value, std::uint32_t nesting = 0);  // Fails on lists and dicts.
bool equal(Budget& budget, const Value& a, const Value& b, std::uint32_t nesting = 0);
// -1, 0, 1; 2 when neither is smaller nor equal (NaN). Fails on values without an order; `sign` is the operator for that message.
int compare(Budget& budget, const Value& a, const Value& b, std::string_view sign = "<", std::uint32_t nesting = 0);
bool contains(Heap& heap, const Value& container, const Value& item);

// The number of items, if the value has one: text counts code points, an iterator has none.
std::optional<std::int64_t> length_of(const Value& value);

// Fails because `value`, which is undefined, was used.
[[noreturn]] void raise_undefined(const Value& value);

// Walks what a for loop can walk. Fails in the constructor when it cannot.
class Cursor {
  public:
    Cursor(Heap& heap, Value source);
    bool next(Value& item);

  private:
    Heap* heap_;
    Value source_;
    std::size_t at_ = 0;
};
bool iterable(const Value& value);
Value to_list(Heap& heap, const Value& value);  // a new list of what a Cursor finds

// Arithmetic (arithmetic.cc). Integers have 64 bits; leaving them is an error.
enum class Sign : std::uint8_t { Add, Subtract, Multiply, Divide, FloorDivide, Modulo, Power };
Value arithmetic(Heap& heap, Sign sign, const Value& a, const Value& b);
Value negate(const Value& value);
Value positive(const Value& value);
double to_double(const Value& number);  // Requires: is_number()

// Subscripts (access.cc): what is not there is undefined, with a message that names it.
Value get_item(Heap& heap, const Value& object, const Value& key);            // object[key]
Value get_attribute(Heap& heap, const Value& object, std::string_view name);  // object.name
Value get_slice(Heap& heap, const Value& object, const Value& begin, const Value& end, const Value& step);
Value point_at(Heap& heap, const Value& text, std::size_t n);  // code point n of a String. Requires: n < length
// The value that an attribute path such as "function.name" or "0.id" leads to; `fallback` (not Missing) for what is undefined on the way.
Value get_path(Heap& heap, Value object, const Value& path, const Value& fallback);

}  // namespace cellar::jinja
