// cellar chat: a conversation in the terminal.
#include <fmt/format.h>

#include <random>

#include "apps/chat_branches.h"
#include "apps/commands.h"
#include "apps/terminal.h"
#include "base/units.h"
#include "engine/conversation.h"
#include "engine/thinking_filter.h"

namespace cellar::apps {
namespace {

constexpr std::string_view kHelp =
    "/help               this\n"
    "/exit               leave (also Ctrl-D)\n"
    "/save [FILE]        save the chat and its branches; with --session this happens after each turn\n"
    "/fork NAME          go on in a new branch that shares everything so far\n"
    "/switch [NAME]      go on in another branch; without a name: list them\n"
    "/clear              forget the conversation, keep the system text\n"
    "/regen              answer the last message again\n"
    "/undo               take back the last turn\n"
    "/stats              what the cache holds, and what the last answer cost\n"
    "/set                the sampling settings\n"
    "/set NAME VALUE     change one\n"
    "/system TEXT        the system text from the next turn on\n"
    "A line that ends with \\ goes on in the next one; a line of \"\"\" begins and ends a text of several lines.\n"
    "Ctrl-C stops the answer, not the program.\n";

class ChatLoop {
  public:
    ChatLoop(Engine& engine, ChatBranches& branches, SamplingSettings sampling, int64_t max_tokens, Thinking thinking)
        : engine_(engine), branches_(branches), sampling_(std::move(sampling)), max_tokens_(max_tokens), thinking_(thinking) {}

    int loop();

  private:
    enum class Turn { Say, Again };
    struct Input {
        std::string text;
        bool quoted = false;  // never a command
    };
    std::optional<Input> read_message();
    bool command(const std::string& line);  // false: leave
    void answer(Turn turn, const std::string& text);
    void show_stats() const;
    void set(const std::string& rest);
    static void report(const Result<std::string>& result) { say(result ? *result : result.error().message); }

    Engine& engine_;
    ChatBranches& branches_;
    SamplingSettings sampling_;
    int64_t max_tokens_;
    Thinking thinking_;
    std::optional<Answer> last_;
    int exit_ = kExitOk;
    std::mt19937_64 seeds_{std::random_device{}()};
};

// A message of one or several lines; nothing at the end of input.
std::optional<ChatLoop::Input> ChatLoop::read_message() {
    std::string message;
    bool quoted = false;
    bool more = false;
    bool interrupted_before = false;
    while (true) {
        bool interrupted = false;
        auto line = read_line(quoted || more ? ". " : "> ", interrupted);
        if (interrupted) {
            if (interrupted_before) return std::nullopt;
            interrupted_before = true;
            message.clear();
            quoted = more = false;
            say("Ctrl-C again, or /exit, leaves");
            continue;
        }
        if (!line) return message.empty() ? std::nullopt : std::optional(Input{message, quoted});
        interrupted_before = false;
        if (*line == "\"\"\"") {
            if (quoted) return Input{message, true};
            quoted = true;
            continue;
        }
        if (quoted) {
            message += *line + "\n";
            continue;
        }
        more = line->ends_with('\\');
        if (more) line->back() = '\n';
        message += *line;
        if (!more && message.find_first_not_of(" \t\n") != std::string::npos) return Input{message, false};
        if (!more) message.clear();
    }
}

void ChatLoop::answer(Turn turn, const std::string& text) {
    GenerateOptions options;
    options.sampler = sampling_.options;
    if (!sampling_.seed_given || turn == Turn::Again) options.sampler.seed = seeds_() >> 1;
    options.max_tokens = max_tokens_;
    StatusLine status;
    bool begins_inside = false;
    if (auto prompt = turn == Turn::Say ? branches_.current().render_with(text) : branches_.current().render())
        begins_inside = ends_in_thinking(*prompt);
    ThinkingFilter filter(begins_inside);
    const auto show = [&](std::string_view part, bool is_thought) {
        if (!is_thought || thinking_ == Thinking::Show) {
            print_text(part);
        } else if (thinking_ == Thinking::Dim) {
            print_dim(part);
        }
    };
    const TakeText take = [&](std::string_view part) {
        filter.push(part, show);
        return std::ferror(stdout) == 0;
    };
    Cancel& cancel = interrupts();
    cancel.store(false);
    auto result = turn == Turn::Say ? branches_.current().say(text, options, take, &cancel, prompt_progress(status))
                                    : branches_.current().again(options, take, &cancel, prompt_progress(status));
    cancel.store(false);
    status.clear();
    filter.finish(show);
    if (!result) {
        say(result.error().message);
        if (result.error().kind != ErrorKind::Cancelled && !stdin_is_terminal())
            exit_ = result.error().kind == ErrorKind::Full ? kExitContext : kExitError;
        return;
    }
    print_text("\n");
    if (result->stop == StopReason::Context) {
        say(fmt::format("the context of {} tokens is full: the answer ends here; /undo or /clear makes room, --ctx makes it larger",
                        engine_.context()));
        if (!stdin_is_terminal()) exit_ = kExitContext;
    }
    if (result->stop == StopReason::Cancelled) say("stopped; what was said so far is kept");
    last_ = *std::move(result);
    if (auto saved = branches_.save_if_wanted(); !saved) say(saved.error().message);
}

void ChatLoop::show_stats() const {
    const kv::CacheStats stats = engine_.cache().stats();
    fmt::print(stderr, "context   {} of {} tokens\n", engine_.cache().length(branches_.current().seq()), engine_.context());
    for (size_t g = 0; g < stats.groups.size(); ++g) {
        const kv::GroupStats& group = stats.groups[g];
        fmt::print(stderr, "group {}   {} of {} blocks in use, {} each\n", g, group.blocks_used, group.blocks, format_bytes(group.block_bytes));
    }
    fmt::print(stderr, "cache     {}\n", format_bytes(stats.ledger_bytes));
    if (!last_) return;
    const Receipt& r = last_->receipt;
    fmt::print(stderr, "last      {}\n", summary(engine_, *last_));
    fmt::print(stderr, "reuse     {} of {} tokens, {}{}{}, {:.2f} s saved\n", r.reused, r.prompt, name(r.reason),
               r.first_difference >= 0 ? fmt::format(" at {}", r.first_difference) : "", r.pure ? "" : ", coloured", r.seconds_saved);
}

void ChatLoop::set(const std::string& rest) {
    const size_t space = rest.find_first_of(" \t");
    if (rest.empty()) {
        for (const std::string& name : sampling_names()) fmt::print(stderr, "{:<20}{}\n", name, sampling_value(sampling_, name));
        return;
    }
    if (space == std::string::npos) return say("/set wants a name and a value: /set temperature 0.7");
    const size_t value = rest.find_first_not_of(" \t", space);
    if (auto done = set_sampling(sampling_, rest.substr(0, space), value == std::string::npos ? "" : rest.substr(value)); !done)
        say(done.error().message);
}

bool ChatLoop::command(const std::string& line) {
    const size_t space = line.find_first_of(" \t");
    const std::string name = line.substr(0, space);
    const size_t at = space == std::string::npos ? std::string::npos : line.find_first_not_of(" \t", space);
    const std::string rest = at == std::string::npos ? "" : line.substr(at);
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/help") {
        fmt::print(stderr, "{}", kHelp);
    } else if (name == "/clear") {
        branches_.current().clear();
        say("forgotten");
    } else if (name == "/regen") {
        answer(Turn::Again, "");
    } else if (name == "/undo") {
        say(branches_.current().undo() ? "the last turn is taken back" : "there is no turn to take back");
    } else if (name == "/stats") {
        show_stats();
    } else if (name == "/set") {
        set(rest);
    } else if (name == "/save") {
        report(branches_.save(rest));
    } else if (name == "/fork") {
        report(branches_.fork(rest));
    } else if (name == "/switch") {
        report(branches_.go_to(rest));
    } else if (name == "/system") {
        branches_.current().set_system(rest);
        say(rest.empty() ? "no system text from now on" : "system text changed; the conversation is read again with the next message");
    } else {
        say(fmt::format("there is no command '{}'; /help lists them", name));
    }
    return true;
}

int ChatLoop::loop() {
    while (auto message = read_message()) {
        if (!message->quoted && message->text.starts_with('/')) {
            if (!command(message->text)) break;
        } else {
            answer(Turn::Say, message->text);
        }
        if (std::ferror(stdout) != 0) break;
    }
    // What was changed without a turn: undone, forked, cleared.
    if (auto saved = branches_.save_if_wanted(); !saved) say(saved.error().message);
    return exit_;
}

}  // namespace

Result<int> chat(const ChatArgs& args) {
    CELLAR_TRY(const int64_t max_tokens, parse_max_tokens(args.max_tokens));
    CELLAR_TRY(const Thinking thinking, parse_thinking(args.thinking));
    CELLAR_TRY_VOID(check(args.sampling.options));
    CELLAR_TRY(const auto engine, start_engine(args.model, args.engine, 1, kMostBranches));
    ConversationOptions options;
    options.system = args.system;
    if (args.template_file) {
        CELLAR_TRY(options.template_text, read_text(*args.template_file));
    }
    CELLAR_TRY(ChatBranches branches, ChatBranches::open(*engine, options, args.session, args.session_new));
    if (stdin_is_terminal()) say(fmt::format("{}, context {} tokens; /help lists the commands", engine->model().display_name(), engine->context()));
    return ChatLoop(*engine, branches, args.sampling, max_tokens, thinking).loop();
}

}  // namespace cellar::apps
