#pragma once
// Numbers out of text and into text, with the limits that keep both short.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cellar::jinja {

// Takes the decimal digits at the front of text. Fails when they exceed `most`; nothing when there are none.
std::optional<std::size_t> take_number(std::string_view& text, std::uint64_t most);

// A float as printf's f, e, g (or F, E, G) prints it with so many digits. Fails above 1,000 digits.
std::string float_digits(double value, char type, std::size_t precision, bool alternate);

// int(text, base) and float(text) of Python; nothing when the text is no number. Fails when an integer leaves 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base);
std::optional<double> parse_float(std::string_view text);

// int(value) of a float. Fails when it is not finite or leaves 64 bits.
std::int64_t truncated(double value);

}  // namespace cellar::jinja
