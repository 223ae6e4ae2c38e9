// Where prompts come from and how answers are summed up.
#include <fmt/format.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/terminal.h"
#include "base/file.h"
#include "base/units.h"

namespace cellar::apps {
namespace {

constexpr size_t kMostText = size_t{256} << 20;

Result<std::string> read_stdin() {
    return read_descriptor(STDIN_FILENO, "stdin", kMostText);
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
    if (path == "-") return read_stdin();
    return read_file(path, kMostText);
}

Result<std::string> read_prompt(const std::optional<std::string>& text, const std::optional<std::string>& file) {
    if (text) return *text;
    if (file) return read_text(*file);
    if (stdin_is_terminal()) return fail("there is no prompt: give one with -p TEXT or -f FILE, or pipe one in");
    return read_stdin();
}

Result<Thinking> parse_thinking(const std::string& text) {
    if (text == "dim") return Thinking::Dim;
    if (text == "show") return Thinking::Show;
    if (text == "hide") return Thinking::Hide;
    return fail("--thinking is '{}'; known are dim, show, hide", text);
}

Result<int64_t> parse_max_tokens(const std::string& text) {
    if (text.empty()) return -1;
    return parse_integer(text, "-n", -1, INT64_MAX);
}

Result<ConversationOptions> conversation_options(const TalkArgs& args) {
    ConversationOptions options;
    options.system = args.system;
    if (args.template_file) {
        CELLAR_TRY(options.template_text, read_text(*args.template_file));
        options.template_name = "--template " + *args.template_file;
    }
    return options;
}

std::string summary(const Engine& engine, SeqId seq, const Answer& answer) {
    const Timings& t = answer.timings;
    return fmt::format("prompt {} tokens ({} reused, {} read at {:.1f} tokens/s), answer {} tokens at {:.1f} tokens/s, context {} of {}, cache {}{}",
                       answer.receipt.prompt, answer.receipt.reused, t.prompt_tokens, t.prompt_tokens_per_second(), answer.tokens.size(),
                       t.generate_tokens_per_second(), engine.cache().length(seq), engine.context(), format_bytes(engine.cache().ledger_bytes()),
                       engine.budget_bytes() == 0 ? "" : fmt::format(" of {}", format_bytes(engine.cache().limits().budget_bytes)));
}

}  // namespace cellar::apps
