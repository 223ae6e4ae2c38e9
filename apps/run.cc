// cellar run: one prompt, one answer.
#include <sys/random.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/terminal.h"
#include "engine/conversation.h"
#include "engine/thinking_filter.h"

namespace cellar::apps {
namespace {

using Json = nlohmann::ordered_json;

uint64_t fresh_seed() {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 1;
    return seed >> 1;
}

Json to_json(const Engine& engine, const Answer& answer) {
    Json out;
    out["text"] = answer.text;
    out["tokens"] = answer.tokens;
    out["stop"] = name(answer.stop);
    const Timings& t = answer.timings;
    out["timings"] = {{"prompt_tokens", t.prompt_tokens},
                      {"prompt_seconds", t.prompt_seconds},
                      {"prompt_tokens_per_second", t.prompt_tokens_per_second()},
                      {"generated_tokens", answer.tokens.size()},
                      {"generate_seconds", t.generate_seconds},
                      {"generate_tokens_per_second", t.generate_tokens_per_second()}};
    const Receipt& r = answer.receipt;
    out["receipt"] = {{"prompt", r.prompt}, {"reused", r.reused}, {"reason", name(r.reason)}, {"pure", r.pure}, {"seconds_saved", r.seconds_saved}};
    if (r.first_difference >= 0) out["receipt"]["first_difference"] = r.first_difference;
    out["cache_bytes"] = engine.cache().ledger_bytes();
    return out;
}

// The prompt's tokens, through the template unless the user wants it raw.
Result<std::vector<int32_t>> prompt_tokens(Engine& engine, const RunArgs& args, const std::string& prompt, std::optional<std::string> template_text,
                                           bool& thinks) {
    const text::Tokenizer* words = engine.model().tokenizer();
    if (words == nullptr) return fail("{}", engine.model().why_no_tokenizer());
    if (args.raw || (!engine.model().chat_template() && !args.template_file)) {
        if (!args.raw) say("the model has no chat template: the prompt is used as it is");
        if (!args.system.empty()) return fail("--system needs a chat template, but the prompt is used as it is");
        return words->encode(prompt, {true, args.special});
    }
    ConversationOptions options;
    options.system = args.system;
    options.template_text = std::move(template_text);
    CELLAR_TRY(auto chat, Conversation::make(engine, std::move(options)));
    CELLAR_TRY(const std::string text, chat->render_with(prompt));
    thinks = ends_in_thinking(text);
    return encode_prompt(*words, text);
}

Result<int> dump_graph(Engine& engine, const RunArgs& args) {
    const graph::Graph& graph = engine.graph({1, 1});
    if (args.graph_form == "text") {
        print_text(graph.text());
    } else if (args.graph_form == "dot") {
        print_text(graph.graphviz());
    } else {
        return fail("--dump-graph is '{}'; known are text, dot", args.graph_form);
    }
    return kExitOk;
}

}  // namespace

Result<int> run(const RunArgs& args) {
    GenerateOptions options;
    options.sampler = args.sampling.options;
    if (!args.sampling.seed_given) options.sampler.seed = fresh_seed();
    options.stops = args.stops;
    options.ignore_end = args.ignore_eos;
    options.render_special = args.special;
    CELLAR_TRY(options.max_tokens, parse_max_tokens(args.max_tokens));
    CELLAR_TRY(const Thinking thinking, parse_thinking(args.thinking));
    CELLAR_TRY_VOID(check(options.sampler));
    if (args.dump_graph) {
        CELLAR_TRY(const auto engine, start_engine(args.model, args.engine));
        return dump_graph(*engine, args);
    }
    CELLAR_TRY(const std::string prompt, read_prompt(args.prompt, args.prompt_file));
    if (prompt.empty()) return fail("the prompt is empty: there is nothing to answer");
    std::optional<std::string> template_text;
    if (args.template_file) {
        CELLAR_TRY(template_text, read_text(*args.template_file));
    }
    CELLAR_TRY(const auto engine, start_engine(args.model, args.engine));
    bool thinks = false;
    CELLAR_TRY(const std::vector<int32_t> tokens, prompt_tokens(*engine, args, prompt, std::move(template_text), thinks));
    CELLAR_TRY(const SeqId seq, engine->cache().open());
    StatusLine status;
    ThinkingFilter filter(thinks);
    const auto show = [&](std::string_view text, bool is_thought) {
        if (!is_thought || thinking == Thinking::Show) {
            print_text(text);
        } else if (thinking == Thinking::Dim) {
            print_dim(text);
        }
    };
    const TakeText take = [&](std::string_view text) {
        if (!args.json) filter.push(text, show);
        return std::ferror(stdout) == 0;
    };
    auto answer = generate(*engine, seq, tokens, options, take, &interrupts(), prompt_progress(status));
    status.clear();
    if (!answer && answer.error().kind == ErrorKind::Cancelled) {
        say(answer.error().message);
        return kExitInterrupted;
    }
    if (!answer) return pass(std::move(answer));
    if (args.json) {
        print_text(to_json(*engine, *answer).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    } else {
        filter.finish(show);
        if (!answer->text.ends_with('\n')) print_text("\n");
    }
    say(summary(*engine, *answer));
    if (answer->stop == StopReason::Cancelled) return kExitInterrupted;
    if (answer->stop != StopReason::Context) return kExitOk;
    say(fmt::format("the context of {} tokens is full: the answer ends here (--ctx makes it larger)", engine->context()));
    return kExitContext;
}

}  // namespace cellar::apps
