// The program: its command line, and nothing else.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "apps/commands.h"
#include "apps/terminal.h"
#include "base/text_escape.h"

namespace {

using namespace cellar;
using namespace cellar::apps;

constexpr const char* kModelHelp = "GGUF file; of a split model the first part";

void add_engine_flags(CLI::App* app, EngineSettings& s) {
    app->add_option("--ctx", s.context, "tokens of context (CELLAR_CTX; default: the trained length, as far as memory allows)");
    app->add_option("--threads", s.threads, "threads (CELLAR_THREADS; default: the CPUs this process may use)");
    app->add_option("--cache-type", s.cache_type, "format of the cache: f32, f16, bf16, q8_0 (CELLAR_CACHE_TYPE; default f16)");
    app->add_option("--cache-type-k", s.cache_type_k, "format of K alone");
    app->add_option("--cache-type-v", s.cache_type_v, "format of V alone");
    app->add_option("--cpu-target", s.cpu_target, "highest instruction set to use (CELLAR_CPU_TARGET)");
    app->add_flag("--no-pack", s.no_pack, "read the weights as they lie in the file instead of packing them for this machine");
    app->add_flag("--exact-activations", s.exact_activations, "keep activations f32 where they meet BF16 weights, instead of rounding them to BF16");
    app->add_flag("--check-finite", s.check_finite, "look through every result and name the layer whose numbers went wrong");
    app->add_flag("--verbose", s.verbose, "say more on stderr");
}

// Sampling flags keep their text until all are read, so that messages name them.
struct SamplingTexts {
    std::vector<std::pair<std::string, std::string>> given;
    void add(CLI::App* app, const char* flag, const char* name, const char* help) {
        app->add_option_function<std::string>(
            flag, [this, name](const std::string& value) { given.emplace_back(name, value); }, help);
    }
    void add_all(CLI::App* app) {
        add(app, "--temperature,--temp", "temperature", "0 takes the most likely token (default 0)");
        add(app, "--top-k", "top_k", "draw among the k most likely; 0: all (default 40)");
        add(app, "--top-p", "top_p", "draw among the most likely that reach this share (default 0.95)");
        add(app, "--min-p", "min_p", "draw among those at least this fraction as likely as the best (default 0.05)");
        add(app, "--typical-p", "typical_p", "draw among the least surprising that reach this share (default 1: all)");
        add(app, "--repetition-penalty", "repetition_penalty", "against tokens that were used (default 1: none)");
        add(app, "--presence-penalty", "presence_penalty", "against tokens that were used, once (default 0)");
        add(app, "--frequency-penalty", "frequency_penalty", "against tokens that were used, each time (default 0)");
        add(app, "--penalty-last-n", "penalty_last_n", "how far back penalties look; -1: everything (default 64)");
        add(app, "--seed", "seed", "the same seed gives the same text (default: another each time)");
    }
    Result<void> apply(SamplingSettings& settings) const {
        for (const auto& [name, value] : given) CELLAR_TRY_VOID(set_sampling(settings, name, value));
        return {};
    }
};

struct CommandLine {
    RunArgs run;
    ChatArgs chat;
    InspectArgs inspect;
    BenchArgs bench;
    PerplexityArgs perplexity;
    LogitsArgs logits;
    TokenizeArgs tokenize;
    TemplateArgs render;
    EngineSettings config;
    SamplingTexts run_sampling, chat_sampling;

    CLI::App* define_run(CLI::App& app) {
        CLI::App* c = app.add_subcommand("run", "one prompt, one answer");
        c->add_option("model", run.model, kModelHelp)->required();
        c->add_option("-p,--prompt", run.prompt, "the prompt");
        c->add_option("-f,--file", run.prompt_file, "a file with the prompt; - is stdin");
        c->add_option("--system", run.system, "system text");
        c->add_option("--template", run.template_file, "a file with a chat template, instead of the model's");
        c->add_flag("--raw", run.raw, "no template: the model continues the prompt");
        c->add_option("-n,--max-tokens", run.max_tokens, "most tokens of the answer; -1: no limit (default)");
        c->add_option("--stop", run.stops, "end the answer before this text; may be given several times")->expected(1)->take_all();
        c->add_flag("--ignore-eos", run.ignore_eos, "go on behind the end of the answer");
        c->add_flag("--special", run.special, "parse and print special tokens");
        c->add_option("--thinking", run.thinking, "what to do with thinking: dim, show, hide (default dim)");
        c->add_flag("--json", run.json, "text, tokens, timings and receipt as one line of JSON");
        c->add_option("--dump-graph", run.graph_form, "print the graph of a step instead: text, dot")->each([this](const std::string&) {
            run.dump_graph = true;
        });
        run_sampling.add_all(c);
        add_engine_flags(c, run.engine);
        return c;
    }
    CLI::App* define_chat(CLI::App& app) {
        CLI::App* c = app.add_subcommand("chat", "a conversation in the terminal");
        c->add_option("model", chat.model, kModelHelp)->required();
        c->add_option("--system", chat.system, "system text");
        c->add_option("--template", chat.template_file, "a file with a chat template, instead of the model's");
        c->add_option("-n,--max-tokens", chat.max_tokens, "most tokens of an answer; -1: no limit (default)");
        c->add_option("--thinking", chat.thinking, "what to do with thinking: dim, show, hide (default dim)");
        c->add_option("--session", chat.session, "a file that the chat is saved to after each turn, and goes on from");
        c->add_flag("--session-new", chat.session_new, "begin anew, whatever stands in the session file");
        chat_sampling.add_all(c);
        add_engine_flags(c, chat.engine);
        return c;
    }
    CLI::App* define_inspect(CLI::App& app) {
        CLI::App* c = app.add_subcommand("inspect", "what is in a model file, and the memory it takes");
        c->add_option("model", inspect.model, kModelHelp)->required();
        c->add_flag("--keys", inspect.keys, "all metadata");
        c->add_flag("--tensors", inspect.tensors, "all tensors");
        c->add_flag("--json", inspect.json, "as JSON");
        add_engine_flags(c, inspect.engine);
        return c;
    }
    CLI::App* define_bench(CLI::App& app) {
        CLI::App* c = app.add_subcommand("bench", "tokens per second, beside what the memory gives");
        c->add_option("model", bench.model, kModelHelp)->required();
        c->add_option("--prompt", bench.prompt, "tokens of the prompt (default 512)");
        c->add_option("--gen", bench.gen, "tokens to write (default 64)");
        c->add_option("--depth", bench.depth, "tokens of context before both (default 0)");
        c->add_option("--reps", bench.reps, "runs; the median counts (default 3)");
        c->add_flag("--json", bench.json, "as one line of JSON");
        c->add_flag("--profile", bench.profile, "where the time goes: a table of every operation, for the prompt and for writing");
        add_engine_flags(c, bench.engine);
        return c;
    }
    CLI::App* define_perplexity(CLI::App& app) {
        CLI::App* c = app.add_subcommand("perplexity", "how well a model predicts a text, and what the cache format costs");
        c->add_option("model", perplexity.model, kModelHelp)->required();
        c->add_option("-f,--file", perplexity.file, "the text; - is stdin")->required();
        c->add_option("--window", perplexity.window, "tokens that are read together (default 512)");
        c->add_flag("--json", perplexity.json, "as one line of JSON");
        add_engine_flags(c, perplexity.engine);
        return c;
    }
    CLI::App* define_logits(CLI::App& app) {
        CLI::App* c = app.add_subcommand("logits", "logits of token ids, as floats in a file");
        c->add_option("model", logits.model, kModelHelp)->required();
        c->add_option("--tokens", logits.tokens, "a file with token ids, separated by commas or spaces; - is stdin")->required();
        c->add_option("--out", logits.out, "where the floats go: [positions][vocabulary], little endian")->required();
        c->add_option("--last", logits.last, "only the last N positions");
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

int finish(const Result<int>& result) {
    if (result) return *result;
    say(result.error().message);
    return result.error().kind == ErrorKind::Cancelled ? kExitInterrupted : kExitError;
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
    CLI::App* inspect_command = line.define_inspect(app);
    CLI::App* bench_command = line.define_bench(app);
    CLI::App* perplexity_command = line.define_perplexity(app);
    CLI::App* logits_command = line.define_logits(app);
    CLI::App* tokenize_command = line.define_tokenize(app);
    CLI::App* template_command = line.define_template(app);
    CLI::App* config_command = app.add_subcommand("config", "what is in force: flag, then environment, then default");
    add_engine_flags(config_command, line.config);
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
    if (argc > 1 && argv[1][0] != '-' && std::find(names.begin(), names.end(), argv[1]) == names.end()) {
        say(fmt::format("there is no command '{}'; known are {}", argv[1], fmt::join(names, ", ")));
        return kExitUsage;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);
        say(fmt::format("{} (cellar --help, cellar COMMAND --help)", first_line(error.what())));
        return kExitUsage;
    }
    if (auto set = line.run_sampling.apply(line.run.sampling); !set) return say(set.error().message), kExitUsage;
    if (auto set = line.chat_sampling.apply(line.chat.sampling); !set) return say(set.error().message), kExitUsage;
    if (run_command->parsed()) return finish(run(line.run));
    if (chat_command->parsed()) return finish(chat(line.chat));
    if (inspect_command->parsed()) return finish(inspect(line.inspect));
    if (bench_command->parsed()) return finish(bench(line.bench));
    if (perplexity_command->parsed()) return finish(perplexity(line.perplexity));
    if (logits_command->parsed()) return finish(logits(line.logits));
    if (tokenize_command->parsed()) return finish(tokenize(line.tokenize));
    if (template_command->parsed()) return finish(render_template(line.render));
    return finish(config(line.config));
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run_main(argc, argv);
    } catch (const std::bad_alloc&) {
        say("out of memory");
        return kExitError;
    }
}
