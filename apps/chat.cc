// cellar chat: a conversation in the terminal.
#include <fmt/format.h>

#include "apps/answer_printer.h"
#include "apps/chat_loop.h"
#include "apps/terminal.h"
#include "engine/conversation.h"

namespace cellar::apps {

ChatLoop::ChatLoop(Engine& engine, ChatBranches& branches, const Settings& settings) : engine_(engine), branches_(branches), settings_(settings) {
    if (!settings_.sampling.flags_given) take_settings();
}

// A message of one or several lines; nothing at the end of input.
Result<std::optional<ChatLoop::Input>> ChatLoop::read_message() {
    std::string message;
    bool quoted = false;
    bool more = false;
    bool asked = false;  // whether to leave
    while (true) {
        CELLAR_TRY(auto line, read_line(quoted || more ? ". " : "> "));
        if (line && line->interrupted) {
            if (asked && !line->typed) return std::nullopt;
            asked = true;
            message.clear();
            quoted = more = false;
            say("Ctrl-C again, or /exit, leaves");
            continue;
        }
        if (!line) return message.empty() ? std::nullopt : std::optional(Input{message, quoted});
        asked = false;
        std::string& text = line->text;
        if (text == "\"\"\"") {
            if (quoted) return Input{message, true};
            quoted = true;
            continue;
        }
        if (quoted) {
            message += text + "\n";
            continue;
        }
        more = text.ends_with('\\');
        if (more) text.back() = '\n';
        message += text;
        if (!more && message.find_first_not_of(" \t\n") != std::string::npos) return Input{message, false};
        if (!more) message.clear();
    }
}

// `what` is full, with its numbers.
void ChatLoop::say_what_is_full(const std::string& what) const {
    std::string others;
    if (branches_.open_branches() > 1)
        others = fmt::format("; {} other branches hold room too, /drop NAME lets one go", branches_.open_branches() - 1);
    say(fmt::format("{}; /undo, /goto or /clear makes room here, --ctx and --kv-budget make it larger{}", what, others));
}

void ChatLoop::answer(Turn turn, const std::string& text) {
    GenerateOptions options;
    options.sampler = settings_.sampling.options;
    if (!settings_.sampling.seed_given || turn == Turn::Again) options.sampler.seed = seeds_() >> 1;
    options.max_tokens = settings_.max_tokens;
    StatusLine status;
    Conversation& chat = branches_.current();
    bool begins_inside = false;
    if (auto prompt = turn == Turn::Say ? chat.render_with(text) : chat.render()) begins_inside = ends_in_thinking(*prompt);
    AnswerPrinter printer(settings_.thinking, begins_inside);
    const TakeText take = [&](std::string_view part) { return printer.push(part); };
    Cancel& cancel = interrupts();
    cancel.store(false);
    auto result = turn == Turn::Say ? chat.say(text, options, take, &cancel, prompt_progress(status))
                                    : chat.again(options, take, &cancel, prompt_progress(status));
    cancel.store(false);
    status.clear();
    printer.finish();
    branches_.changed();
    if (!result) {
        const bool full = result.error().kind == ErrorKind::Full;
        if (full) {
            say_what_is_full(result.error().message);
        } else {
            say(result.error().message);
        }
        if (result.error().kind != ErrorKind::Cancelled && !stdin_is_terminal()) exit_ = full ? kExitContext : kExitError;
        return;
    }
    print_text("\n");
    if (output_error() != 0) return;
    if (const Forgotten& forgotten = chat.forgotten(); forgotten.tokens > 0)
        say(fmt::format("{} to make room in the context of {} tokens", explain(forgotten), engine_.context()));
    if (result->stop == StopReason::Context) {
        say_what_is_full(result->full + ", the answer ends here");
        if (!stdin_is_terminal()) exit_ = kExitContext;
    }
    if (result->stop == StopReason::MaxTokens && settings_.max_tokens < 0)
        say(fmt::format("the answer ends here: it has as many tokens as the context, {}; -n N sets another limit", engine_.context()));
    if (result->stop == StopReason::Cancelled) say("stopped; what was said so far is kept");
    if (settings_.verbose) say(explain(result->receipt));
    last_ = *std::move(result);
    save_changes();
}

// The same trouble is said once; it costs the exit code as long as it lasts.
void ChatLoop::save_changes() {
    leave_settings();
    auto saved = branches_.save_changes();
    const std::string trouble = saved ? "" : saved.error().message;
    if (!trouble.empty() && trouble != unsaved_) say(trouble);
    unsaved_ = trouble;
}

int ChatLoop::loop() {
    while (output_error() == 0) {
        const auto read = read_message();
        if (!read) {
            say(read.error().message);
            exit_ = kExitError;
        }
        if (!read || !*read) break;
        const Input& message = **read;
        if (message.quoted || !message.text.starts_with('/')) {
            answer(Turn::Say, message.text);
        } else if (!command(message.text)) {
            break;
        }
    }
    // What was changed without a turn: undone, forked, cleared.
    if (branches_.open_branches() > 0) save_changes();
    return unsaved_.empty() ? exit_ : kExitError;
}

Result<int> chat(const ChatArgs& args) {
    ChatLoop::Settings settings;
    settings.sampling = args.talk.sampling;
    settings.verbose = args.talk.engine.verbose;
    CELLAR_TRY(settings.max_tokens, parse_max_tokens(args.talk.max_tokens));
    CELLAR_TRY(settings.thinking, parse_thinking(args.talk.thinking));
    CELLAR_TRY(ConversationOptions options, conversation_options(args.talk));
    CELLAR_TRY(options.overflow, parse_overflow(args.talk.overflow, "--overflow"));
    CELLAR_TRY(const auto engine, start_engine(args.talk.model, args.talk.engine, 1, kMostBranches));
    if (!args.talk.engine.verbose) say(engine->budget_summary());
    const SessionRequest request{args.session, args.session_new, args.session_prefix ? Reading::Prefix : Reading::Whole};
    CELLAR_TRY(ChatBranches branches, ChatBranches::open(*engine, options, request));
    if (stdin_is_terminal()) say(fmt::format("{}, context {} tokens; /help lists the commands", engine->model().display_name(), engine->context()));
    return ChatLoop(*engine, branches, settings).loop();
}

}  // namespace cellar::apps
