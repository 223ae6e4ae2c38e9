#include "base/environment.h"

#include <cstdlib>

namespace cellar {

std::optional<std::string> environment_text(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
}

Result<bool> parse_switch(std::string_view text, std::string_view what) {
    if (text == "1" || text == "true" || text == "on" || text == "yes") return true;
    if (text == "0" || text == "false" || text == "off" || text == "no") return false;
    return fail("{}: '{}' is neither on nor off; use 1, true, on, yes or 0, false, off, no", what, text);
}

Result<std::optional<bool>> environment_switch(const char* name) {
    const std::optional<std::string> text = environment_text(name);
    if (!text) return std::nullopt;
    CELLAR_TRY(const bool value, parse_switch(*text, name));
    return value;
}

}  // namespace cellar
