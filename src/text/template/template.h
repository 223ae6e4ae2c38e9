#pragma once
// Chat templates: the Jinja language as models use it, with the settings of model libraries (docs/template.md lists all of it).
//
//     CELLAR_TRY(auto chat, jinja::Template::parse(source));
//     CELLAR_TRY(std::string prompt, chat.render(variables));
//
// A template is untrusted: it sees only the variables it is given, cannot change them, opens nothing, and ends within the limits or with an
// error. Errors are one line: "template line 12: ..."; what a template says by raise_exception() is in it word for word.
// Thread-safe: a Template never changes, any number of threads may render it.
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/template/lexer.h"
#include "text/template/limits.h"

namespace cellar::jinja {

struct Program;

struct RenderOptions {
    Limits limits;
    std::optional<std::tm> now;  // what strftime_now() prints; absent: the local time of this moment
};

// A date for RenderOptions::now, with its weekday: "2026-01-31", "2026-01-31 13:45" or "2026-01-31T13:45:10".
Result<std::tm> parse_time(std::string_view text);

class Template {
  public:
    static Result<Template> parse(std::string_view source, const ParseOptions& options = {});

    // variables: an object; each key is a variable, in the order given: messages, tools, add_generation_prompt, bos_token, eos_token and
    // whatever else the template asks for. Strings must be UTF-8; nested up to 64 levels.
    Result<std::string> render(const nlohmann::ordered_json& variables, const RenderOptions& options = {}) const;

    // The same from JSON text. A key "now" with a time in it sets RenderOptions::now.
    Result<std::string> render_text(std::string_view variables, RenderOptions options = {}) const;

    // Whether the template speaks of a variable of this name, such as "tools" or "enable_thinking".
    bool mentions(std::string_view variable) const;

  private:
    explicit Template(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
    std::shared_ptr<const Program> program_;
};

}  // namespace cellar::jinja
