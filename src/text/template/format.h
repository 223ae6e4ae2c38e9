#pragma once
// Python's two ways of filling text: '%s of %d' % values, and '{} of {:>5}'.format(values).
#include <string_view>

#include "text/template/builder.h"

namespace cellar::jinja {

struct Args;

Value format_percent(Heap& heap, const Value& format, const Value& values);      // Requires: format is a String
Value format_braces(Heap& heap, const Value& format, const Args& args);          // Requires: format is a String
void append_formatted(Builder& out, const Value& value, std::string_view spec);  // format(value, spec)

}  // namespace cellar::jinja
