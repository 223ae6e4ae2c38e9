// What can be wrong with a command line, whatever the files hold; but which flags go with a file also depends on its kind.
#include "apps/commands.h"
#include "base/file.h"
#include "engine/overflow.h"
#include "engine/session_log.h"

namespace cellar::apps {
namespace {

template <class T>
Result<void> only_check(const Result<T>& result) {
    if (!result) return tl::unexpected<Error>(result.error());
    return {};
}

Result<void> check(const TalkArgs& args) {
    CELLAR_TRY_VOID(only_check(parse_max_tokens(args.max_tokens)));
    CELLAR_TRY_VOID(only_check(parse_thinking(args.thinking)));
    CELLAR_TRY_VOID(only_check(parse_overflow(args.overflow, "--overflow")));
    CELLAR_TRY_VOID(cellar::check(args.sampling.options));
    return check(args.engine);
}

// Flags that ask for what only a model has; --verbose asks for nothing.
bool speaks_of_model(const InspectArgs& args) {
    EngineSettings engine = args.engine;
    engine.verbose = false;
    return args.keys || args.tensors || args.sessions != 1 || engine != EngineSettings{};
}

}  // namespace

Result<void> check(const EngineSettings& settings) {
    return only_check(engine_options(settings));
}

Result<void> check(const RunArgs& args) {
    if (args.prompt && args.prompt_file) return fail("give the prompt with -p or with -f, not with both");
    if (args.raw && !args.talk.system.empty()) return fail("--system needs a chat template, but --raw leaves it out");
    if (args.talk.overflow == name(Overflow::DropTurns))
        return fail("--overflow drop-turns is for chats: one prompt has no turns before it; known here are stop, shift, slide");
    if (args.graph_form != "text" && args.graph_form != "dot") return fail("--dump-graph is '{}'; known are text, dot", args.graph_form);
    return check(args.talk);
}

Result<void> check(const ChatArgs& args) {
    if (args.session.empty() && args.session_new) return fail("--session-new needs --session FILE");
    if (args.session.empty() && args.session_prefix) return fail("--session-prefix needs --session FILE");
    if (args.session_new && args.session_prefix) return fail("--session-new begins anew, so there is nothing for --session-prefix to take");
    return check(args.talk);
}

Result<void> check(const InspectArgs& args) {
    if (const auto file = MappedFile::open(args.model); file && is_session(file->bytes()) && speaks_of_model(args))
        return fail("{}: it is a session file, and these flags are for models; of a session --json alone says something", args.model);
    if (args.sessions < 1 || args.sessions > 65535) return fail("--sessions is {}, but must lie in [1, 65535]", args.sessions);
    return check(args.engine);
}

Result<void> check(const SessionArgs& args) {
    const bool changes = args.prune || !args.drop.empty();
    if (changes && args.export_text) return fail("--export-text only reads; --prune and --drop are for a call of their own");
    if (args.json && (changes || args.export_text))
        return fail("--json says what is in the file; --export-text, --prune and --drop are for calls of their own");
    if (!args.branch.empty() && !args.export_text) return fail("--branch says whose text --export-text prints");
    return {};
}

Result<void> check(const BenchArgs& args) {
    if (args.prompt < 0 || args.gen < 0 || args.depth < 0 || args.reps < 1)
        return fail("--prompt, --gen and --depth must not be negative, and --reps at least 1");
    if (args.prompt == 0 && args.gen == 0) return fail("--prompt and --gen are both 0: there is nothing to measure");
    if (args.json && args.profile) return fail("--profile prints tables, for which --json has no place; give one of the two");
    return check(args.engine);
}

Result<void> check(const PerplexityArgs& args) {
    if (args.window < 2) return fail("--window is {}, but a window needs at least 2 tokens", args.window);
    return check(args.engine);
}

Result<void> check(const LogitsArgs& args) {
    if (args.last < 0) return fail("--last is {}, but must not be negative", args.last);
    return check(args.engine);
}

Result<void> check(const TokenizeArgs& args) {
    if (args.prompt && args.prompt_file) return fail("give the text with -p or with -f, not with both");
    return {};
}

Result<void> check(const TemplateArgs& args) {
    if (args.model.has_value() == args.file.has_value()) return fail("give a MODEL or --file TEMPLATE, one of the two");
    return {};
}

}  // namespace cellar::apps
