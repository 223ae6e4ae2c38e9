// The program: its command line, and nothing else.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/terminal.h"
#include "base/text_escape.h"

namespace {

using namespace cellar;
using namespace cellar::apps;

struct CommandLine {
    RunArgs run;
    ChatArgs chat;
    InspectArgs inspect;
    BenchArgs bench;
    PerplexityArgs perplexity;
    LogitsArgs logits;
    TokenizeArgs tokenize;
    TemplateArgs render;
    SessionArgs session;
    EngineSettings config;
    SamplingFlags run_sampling, chat_sampling;

    CLI::App* define_run(CLI::App& app) {
        CLI::App* c = app.add_subcommand("run", "one prompt, one answer");
        run.talk.overflow = "stop";
        add_talk_flags(c, run.talk, run_sampling, "when the context is full: stop, or shift, slide over the answer (default stop)");
        c->add_option("-p,--prompt", run.prompt, "the prompt");
        c->add_option("-f,--file", run.prompt_file, "a file with the prompt; - is stdin");
        c->add_flag("--raw", run.raw, "no template: the model continues the prompt");
        c->add_option("--stop", run.stops, "end the answer before this text; may be given several times")->expected(1)->take_all();
        c->add_flag("--ignore-eos", run.ignore_eos, "go on behind the end of the answer");
        c->add_flag("--special", run.special, "parse and print special tokens");
        c->add_flag("--json", run.json, "text, tokens, timings and receipt as one line of JSON");
        c->add_option("--dump-graph", run.graph_form, "print the graph of a step instead: text, dot")->each([this](const std::string&) {
            run.dump_graph = true;
        });
        return c;
    }
    CLI::App* define_chat(CLI::App& app) {
        CLI::App* c = app.add_subcommand("chat", "a conversation in the terminal");
        chat.talk.overflow = "drop-turns";
        add_talk_flags(c, chat.talk, chat_sampling, "when the context is full: stop, drop-turns, shift, slide (default drop-turns)");
        c->add_option("--session", chat.session, "a file that the chat is saved to after each turn, and goes on from");
        c->add_flag("--session-new", chat.session_new, "begin anew; a session file that is there is kept as FILE.old");
        c->add_flag("--session-prefix", chat.session_prefix, "of a session that is damaged, or longer than the context, take what comes first");
        return c;
    }
    CLI::App* define_session(CLI::App& app) {
        CLI::App* c = app.add_subcommand("session", "what is in a session file");
        c->add_option("file", session.file, "session file")->required();
        c->add_flag("--export-text", session.export_text, "the conversation as text");
        c->add_option("--branch", session.branch, "the branch whose text is exported (default: the first)");
        c->add_flag("--prune", session.prune, "write the file anew without what nobody needs");
        c->add_option("--drop", session.drop, "forget a branch, and prune; may be given several times")->expected(1)->take_all();
        c->add_flag("--json", session.json, "as JSON");
        return c;
    }
    CLI::App* define_inspect(CLI::App& app) {
        CLI::App* c = app.add_subcommand("inspect", "what is in a model or session file, and the memory it takes");
        c->add_option("model", inspect.model, "GGUF file; of a split model the first part; or a session file")->required();
        c->add_flag("--keys", inspect.keys, "all metadata");
        c->add_flag("--tensors", inspect.tensors, "all tensors");
        c->add_flag("--json", inspect.json, "as JSON");
        add_whole_number(c, "--sessions", inspect.sessions, "how many sequences of --ctx tokens the memory is for (default 1)");
        add_engine_flags(c, inspect.engine);
        return c;
    }
    CLI::App* define_bench(CLI::App& app) {
        CLI::App* c = app.add_subcommand("bench", "tokens per second, beside what the memory gives");
        c->add_option("model", bench.model, kModelHelp)->required();
        add_whole_number(c, "--prompt", bench.prompt, "tokens of the prompt (default 512)");
        add_whole_number(c, "--gen", bench.gen, "tokens to write (default 64)");
        add_whole_number(c, "--depth", bench.depth, "tokens of context before both (default 0)");
        add_whole_number(c, "--reps", bench.reps, "runs; the median counts (default 3)");
        c->add_flag("--json", bench.json, "as one line of JSON");
        c->add_flag("--profile", bench.profile, "where the time goes: a table of every operation, for the prompt and for writing");
        add_engine_flags(c, bench.engine);
        return c;
    }
    CLI::App* define_perplexity(CLI::App& app) {
        CLI::App* c = app.add_subcommand("perplexity", "how well a model predicts a text, and what the cache format costs");
        c->add_option("model", perplexity.model, kModelHelp)->required();
        c->add_option("-f,--file", perplexity.file, "the text; - is stdin")->required();
        add_whole_number(c, "--window", perplexity.window, "tokens that are read together (default 512)");
        c->add_flag("--json", perplexity.json, "as one line of JSON");
        add_engine_flags(c, perplexity.engine);
        return c;
    }
    CLI::App* define_logits(CLI::App& app) {
        CLI::App* c = app.add_subcommand("logits", "logits of token ids, as floats in a file");
        c->add_option("model", logits.model, kModelHelp)->required();
        c->add_option("--tokens", logits.tokens, "a file with token ids, separated by commas or spaces; - is stdin")->required();
        c->add_option("--out", logits.out, "where the floats go: [positions][vocabulary], little endian")->required();
        add_whole_number(c, "--last", logits.last, "only the last N positions");
        c->add_flag("--reference", logits.engine.reference_kernels, "slow, obvious arithmetic");
        add_engine_flags(c, logits.engine);
        return c;
    }
    CLI::App* define_tokenize(CLI::App& app) {
        CLI::App* c = app.add_subcommand("tokenize", "a text as the tokens of a model");
        c->add_option("model", tokenize.model, "GGUF file, with or without weights")->required();
        c->add_option("-p,--prompt", tokenize.prompt, "the text");
        c->add_option("-f,--file", tokenize.prompt_file, "a file with the text; - is stdin, to its end");
        c->add_flag("--ids", tokenize.ids, "ids only, on one line");
        c->add_flag("--no-bos", tokenize.no_bos, "no tokens around the text");
        c->add_flag("--special", tokenize.special, "text that spells a special token becomes it");
        return c;
    }
    CLI::App* define_template(CLI::App& app) {
        CLI::App* c = app.add_subcommand("template", "what a chat template makes of a conversation");
        c->add_option("model", render.model, "GGUF file with the template");
        c->add_option("--file", render.file, "a file with the template");
        c->add_option("--input", render.input, "JSON: messages, tools, add_generation_prompt, bos_token, eos_token, now; - is stdin")->required();
        return c;
    }
};

// CLI11's own messages may span lines; one is enough.
std::string first_line(std::string text) {
    if (const size_t end = text.find('\n'); end != std::string::npos) text.resize(end);
    return text;
}

// Texts that say something even when they are empty.
bool may_be_empty(const CLI::Option* option) {
    return option->check_lname("prompt") || option->check_lname("system");
}

// A flag whose value is empty was meant to have one: a variable of a script that was not set.
const CLI::Option* empty_value(const CLI::App* command) {
    for (const CLI::Option* option : command->get_options()) {
        if (option->count() == 0 || option->get_expected_max() == 0 || may_be_empty(option)) continue;
        const std::vector<std::string>& values = option->results();
        if (std::find(values.begin(), values.end(), "") != values.end()) return option;
    }
    return nullptr;
}

int usage_error(const std::string& message) {
    say(message);
    return kExitUsage;
}

// What was printed counts only if it arrived. Nobody reading any more is no error.
int finish(const Result<int>& result) {
    if (!result) {
        say(result.error().message);
        return result.error().kind == ErrorKind::Cancelled ? kExitInterrupted : kExitError;
    }
    if (const int error = output_error(); error != 0 && error != EPIPE) {
        say(fmt::format("stdout: cannot be written: {}", std::strerror(error)));
        return kExitError;
    }
    return *result;
}

template <class Args>
int execute(const Args& args, Result<int> (*command)(const Args&)) {
    if (auto checked = check(args); !checked) return usage_error(checked.error().message);
    return finish(command(args));
}

int print_help(const CLI::App& app, const CLI::ParseError& error) {
    std::ostringstream out;
    app.exit(error, out, out);
    print_text(out.str());
    return finish(kExitOk);
}

int run_main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away ends the answer, not the program in the middle of it
    CLI::App app("cellar: language models on your own machine, built around the KV cache", "cellar");
    app.set_version_flag("--version", [] { return fmt::format("cellar {} ({})", CELLAR_VERSION, ops::cpu_target()); });
    app.require_subcommand(1);
    app.fallthrough(false);
    CommandLine line;
    CLI::App* run_command = line.define_run(app);
    CLI::App* chat_command = line.define_chat(app);
    CLI::App* session_command = line.define_session(app);
    CLI::App* inspect_command = line.define_inspect(app);
    CLI::App* bench_command = line.define_bench(app);
    CLI::App* perplexity_command = line.define_perplexity(app);
    CLI::App* logits_command = line.define_logits(app);
    CLI::App* tokenize_command = line.define_tokenize(app);
    CLI::App* template_command = line.define_template(app);
    CLI::App* config_command = app.add_subcommand("config", "what is in force: flag, then environment, then default");
    add_engine_flags(config_command, line.config);
    std::vector<std::string> names;
    const CLI::App* command = nullptr;
    std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    for (const CLI::App* known : app.get_subcommands(nullptr)) {
        names.push_back(known->get_name());
        if (!arguments.empty() && arguments[0] == known->get_name()) command = known;
    }
    if (!arguments.empty() && !arguments[0].starts_with('-') && command == nullptr)
        return usage_error(fmt::format("there is no command '{}'; known are {}", arguments[0], fmt::join(names, ", ")));
    if (command != nullptr) {
        auto taken = settle_equals(*command, std::move(arguments));
        if (!taken) return usage_error(taken.error().message);
        arguments = *std::move(taken);
    }
    try {
        std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
        app.parse(std::move(arguments));
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return print_help(app, error);
        return usage_error(fmt::format("{} (cellar --help, cellar COMMAND --help)", first_line(error.what())));
    }
    for (const CLI::App* command : app.get_subcommands())
        if (const CLI::Option* option = empty_value(command)) return usage_error(fmt::format("{} is empty", option->get_name()));
    if (auto set = line.run_sampling.apply(line.run.talk.sampling); !set) return usage_error(set.error().message);
    if (auto set = line.chat_sampling.apply(line.chat.talk.sampling); !set) return usage_error(set.error().message);
    if (run_command->parsed()) return execute(line.run, run);
    if (chat_command->parsed()) return execute(line.chat, chat);
    if (session_command->parsed()) return execute(line.session, session);
    if (inspect_command->parsed()) return execute(line.inspect, inspect);
    if (bench_command->parsed()) return execute(line.bench, bench);
    if (perplexity_command->parsed()) return execute(line.perplexity, perplexity);
    if (logits_command->parsed()) return execute(line.logits, logits);
    if (tokenize_command->parsed()) return execute(line.tokenize, tokenize);
    if (template_command->parsed()) return execute(line.render, render_template);
    return execute(line.config, config);
}

// A closed stdin, stdout or stderr would be the number of the next file that is opened, and what is said would go into it. Each becomes
// something that cannot be read or written, as it was.
void hold_standard_streams() {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

}  // namespace

int main(int argc, char** argv) {
    hold_standard_streams();
    try {
        return run_main(argc, argv);
    } catch (const std::bad_alloc&) {
        say("out of memory");
        return kExitError;
    }
}
