#pragma once
// Values as text: str(), repr() and json.dumps() of Python, byte for byte.
#include <optional>
#include <string>
#include <string_view>

#include "text/template/builder.h"

namespace cellar::jinja {

void append_text(Builder& out, const Value& value);  // str(value)
void append_repr(Builder& out, const Value& value, std::uint32_t nesting = 0);
Value to_text(Heap& heap, const Value& value);  // str(value); text is returned as it is
std::string float_text(double value);           // the shortest digits that read back as the same number: 1.0, 1e-05, nan
std::string shortened(std::string_view text);   // at most 60 bytes of it on one line, for messages

struct JsonStyle {
    bool ascii = false;                 // \u escapes for everything else
    std::optional<std::string> indent;  // one level of it; absent: one line
    std::string item_separator = ", ";
    std::string key_separator = ": ";
    bool sort_keys = false;
};
void append_json(Builder& out, const Value& value, const JsonStyle& style);  // Fails on what JSON cannot hold.

}  // namespace cellar::jinja
