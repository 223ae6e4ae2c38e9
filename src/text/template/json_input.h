#pragma once
// JSON from outside, with bounds: what is nested deeper than the limit is refused while it is read, before a value that deep exists.
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/template/limits.h"

namespace cellar::jinja {

class Heap;
class Value;

// Reads one JSON text and keeps the order of keys; of a key that comes twice the last value stays. Errors name the byte.
Result<nlohmann::ordered_json> parse_json_bounded(std::string_view text, std::uint32_t max_depth = max_input_depth);

// The same value for a template. All fail by Failure.
Value value_from_json(Heap& heap, const nlohmann::ordered_json& json);
Value value_from_json_text(Heap& heap, std::string_view text);
// The value of a key of the object, or Missing.
Value variable_from_json(Heap& heap, const nlohmann::ordered_json& variables, const std::string& name);

}  // namespace cellar::jinja
