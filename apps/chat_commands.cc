// What /help lists.
#include <map>

#include <fmt/format.h>

#include "apps/chat_loop.h"
#include "apps/terminal.h"
#include "base/text_escape.h"
#include "base/units.h"

namespace cellar::apps {
namespace {

constexpr std::string_view kHelp =
    "/help               this\n"
    "/exit               leave (also Ctrl-D)\n"
    "/save [FILE]        save the chat and its branches; with --session this happens after each turn\n"
    "/load FILE          go on from another session file, and save there from then on\n"
    "/fork NAME          go on in a new branch that shares everything so far; up to 32 at a time\n"
    "/switch [NAME]      go on in another branch; without a name: list them\n"
    "/drop NAME          forget a branch for good, and give its room back\n"
    "/undo               take back the last turn\n"
    "/goto [N]           take back all turns behind the first N; without a number: list them\n"
    "/regen              answer the last message again\n"
    "/clear              forget the conversation, keep the system text\n"
    "/cells              a picture of the cache: who holds which blocks, and what stands in them\n"
    "/stats              what the cache holds, and what the last answer cost\n"
    "/set [NAME VALUE]   change a sampling setting; alone: list them\n"
    "/system TEXT        the system text from the next turn on\n"
    "A line that ends with \\ goes on in the next one; a line of \"\"\" begins and ends a text of several lines.\n"
    "Ctrl-C stops the answer, not the program.\n";

static_assert(kMostBranches == 32, "the help says how many");

void report(const Result<std::string>& result) {
    say(result ? *result : result.error().message);
}

// The beginning of a message, on one line.
std::string shortened(const std::string& text) {
    constexpr size_t kMost = 60;
    std::string out;
    for (std::string_view rest = text; !rest.empty() && out.size() < kMost;) rest.remove_prefix(append_escaped(rest, EscapeKeep::Nothing, out));
    return out.size() < kMost ? out : out + "...";
}

}  // namespace

void ChatLoop::show_stats() const {
    const kv::CacheStats stats = engine_.cache().stats();
    const Conversation& chat = branches_.current();
    const kv::Cache& cache = engine_.cache();
    print_aside("context   {} of {} tokens, {} of them pure; when it is full: {}\n", cache.length(chat.seq()), engine_.context(),
                cache.pure(chat.seq()), name(chat.overflow()));
    for (size_t g = 0; g < stats.groups.size(); ++g) {
        const kv::GroupStats& group = stats.groups[g];
        print_aside("group {}   {} of {} blocks in use, {} each\n", g, group.blocks_used, group.blocks, format_bytes(group.block_bytes));
    }
    print_aside("cache     {}{}\n", format_bytes(stats.ledger_bytes),
                cache.limits().budget_bytes == 0 ? "" : " of " + format_bytes(cache.limits().budget_bytes));
    print_aside("kept      {} tokens of prefixes, which give way when room is needed\n", engine_.index().stats().tokens);
    if (!last_) return;
    print_aside("last      {}\n", summary(engine_, branches_.current().seq(), *last_));
    print_aside("reuse     {}\n", explain(last_->receipt));
}

void ChatLoop::set(const std::string& rest) {
    const size_t space = rest.find_first_of(" \t");
    if (rest.empty()) {
        for (const std::string& name : sampling_names()) print_aside("{:<20}{}\n", name, sampling_value(settings_.sampling, name));
        return;
    }
    if (space == std::string::npos) return say("/set wants a name and a value: /set temperature 0.7");
    const size_t value = rest.find_first_not_of(" \t", space);
    if (auto done = set_sampling(settings_.sampling, rest.substr(0, space), value == std::string::npos ? "" : rest.substr(value)); !done)
        return say(done.error().message);
    branches_.changed();
}

// Sampling settings that were saved with the chat.
void ChatLoop::take_settings() {
    for (const auto& [name, value] : branches_.current().settings())
        if (auto done = set_sampling(settings_.sampling, name, value); !done) say(done.error().message);
}

void ChatLoop::leave_settings() {
    std::map<std::string, std::string> out;
    for (const std::string& name : sampling_names())
        if (name != "seed" || settings_.sampling.seed_given) out[name] = sampling_value(settings_.sampling, name);
    branches_.current().set_settings(std::move(out));
}

bool ChatLoop::load(const std::string& path) {
    leave_settings();
    const auto done = branches_.load(path);
    report(done);
    if (done) take_settings();
    if (branches_.open_branches() > 0) return true;
    exit_ = kExitError;
    return false;
}

void ChatLoop::show_turns() const {
    int turn = 0;
    for (const Message& message : branches_.current().messages())
        if (message.role == "user") print_aside("{:4}  {}\n", ++turn, shortened(message.content));
    if (turn == 0) say("there is no turn yet");
}

void ChatLoop::go_to_turn(const std::string& rest) {
    if (rest.empty()) return show_turns();
    Conversation& chat = branches_.current();
    const int turns = chat.turns();
    const auto wanted = parse_integer(rest, "/goto", 0, turns);
    if (!wanted) return say(wanted.error().message);
    chat.rewind(static_cast<int>(*wanted));
    branches_.changed();
    say(fmt::format("this is the chat behind turn {} of {} again", *wanted, turns));
}

void ChatLoop::undo() {
    const bool undone = branches_.current().undo();
    if (undone) branches_.changed();
    say(undone ? "the last turn is taken back" : "there is no turn to take back");
}

void ChatLoop::change_system(const std::string& text) {
    branches_.current().set_system(text);
    branches_.changed();
    say(text.empty() ? "no system text from now on" : "system text changed; the conversation is read again with the next message");
}

bool ChatLoop::command(const std::string& line) {
    const size_t space = line.find_first_of(" \t");
    const std::string name = line.substr(0, space);
    const size_t at = space == std::string::npos ? std::string::npos : line.find_first_not_of(" \t", space);
    const std::string rest = at == std::string::npos ? "" : line.substr(at);
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/help") {
        print_aside(kHelp);
    } else if (name == "/clear") {
        branches_.current().clear();
        branches_.changed();
        say("forgotten");
    } else if (name == "/regen") {
        if (branches_.current().messages().empty()) {
            say("there is no turn to answer again");
        } else {
            answer(Turn::Again, "");
        }
    } else if (name == "/undo") {
        undo();
    } else if (name == "/goto") {
        go_to_turn(rest);
    } else if (name == "/stats") {
        show_stats();
    } else if (name == "/cells") {
        print_aside(cells_picture(engine_.cache(), branches_.pictured(), stderr_is_terminal()));
    } else if (name == "/set") {
        set(rest);
    } else if (name == "/save") {
        leave_settings();
        const auto saved = branches_.save(rest);
        report(saved);
        if (!saved && !stdin_is_terminal()) exit_ = kExitError;
    } else if (name == "/load") {
        return load(rest);
    } else if (name == "/fork") {
        report(branches_.fork(rest));
    } else if (name == "/switch") {
        report(branches_.go_to(rest));
    } else if (name == "/drop") {
        report(branches_.drop(rest));
        save_changes();
    } else if (name == "/system") {
        change_system(rest);
    } else {
        say(fmt::format("there is no command '{}'; /help lists them", name));
    }
    return true;
}

}  // namespace cellar::apps
