#pragma once
// Settings from environment variables. An empty variable counts as unset.
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cellar {

std::optional<std::string> environment_text(const char* name);

// 1, true, on, yes or 0, false, off, no, in lower case; anything else is an error that names the variable.
Result<std::optional<bool>> environment_switch(const char* name);

// The same spelling, for flags. `what` names the flag in the error.
Result<bool> parse_switch(std::string_view text, std::string_view what);

}  // namespace cellar
