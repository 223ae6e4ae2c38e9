#pragma once
// For the tests of this folder: a template to a text, or to its error behind "! ".
#include <string>
#include <string_view>

#include "text/template/template.h"

namespace cellar::jinja {

inline std::string rendered(std::string_view source, std::string_view variables = "{}", RenderOptions options = {}) {
    const auto parsed = Template::parse(source);
    if (!parsed) return "! " + parsed.error().message;
    if (!options.now) options.now = *parse_time("2026-01-31 09:05:07");
    const auto text = parsed->render_text(variables, options);
    return text ? *text : "! " + text.error().message;
}

}  // namespace cellar::jinja
