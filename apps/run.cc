// cellar run: one prompt, one answer.
#include <sys/random.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/answer_printer.h"
#include "apps/commands.h"
#include "apps/terminal.h"
#include "engine/conversation.h"

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
    out["receipt"] = {{"prompt", r.prompt},       {"reused", r.reused}, {"source", name(r.source)},
                      {"reason", name(r.reason)}, {"pure", r.pure},     {"seconds_saved", r.seconds_saved},
                      {"explanation", explain(r)}};
    if (r.first_difference >= 0) {
        const auto part = [](const Receipt::Part& p) -> Json { return {{"tokens", p.tokens}, {"text", p.text}}; };
        out["receipt"]["first_difference"] = r.first_difference;
        out["receipt"]["before"] = part(r.before);
        out["receipt"]["cached"] = part(r.cached);
        out["receipt"]["wanted"] = part(r.wanted);
    }
    out["forgotten"] = {{"turns", answer.forgotten.turns}, {"tokens", answer.forgotten.tokens}};
    out["cache_bytes"] = engine.cache().ledger_bytes();
    return out;
}

// The prompt's tokens, through the template unless the user wants it raw.
Result<std::vector<int32_t>> prompt_tokens(Engine& engine, const RunArgs& args, const std::string& prompt, ConversationOptions options,
                                           bool& thinks) {
    const text::Tokenizer* words = engine.model().tokenizer();
    if (words == nullptr) return fail("{}", engine.model().why_no_tokenizer());
    if (args.raw || (!engine.model().chat_template() && !options.template_text)) {
        if (!args.raw) say("the model has no chat template: the prompt is used as it is");
        if (!options.system.empty()) return fail("--system needs a chat template, but the prompt is used as it is");
        return words->encode(prompt, {true, args.special});
    }
    CELLAR_TRY(auto chat, Conversation::make(engine, std::move(options)));
    CELLAR_TRY(const std::string text, chat->render_with(prompt));
    thinks = ends_in_thinking(text);
    return chat->encode_with(prompt);
}

Result<int> dump_graph(Engine& engine, const RunArgs& args) {
    const graph::Graph& graph = engine.graph({1, 1});
    if (args.graph_form == "text") {
        print_text(graph.text());
    } else {
        print_text(graph.graphviz());
    }
    return kExitOk;
}

}  // namespace

Result<int> run(const RunArgs& args) {
    const TalkArgs& talk = args.talk;
    GenerateOptions options;
    options.sampler = talk.sampling.options;
    if (!talk.sampling.seed_given) options.sampler.seed = fresh_seed();
    options.stops = args.stops;
    options.ignore_end = args.ignore_eos;
    options.render_special = args.special;
    CELLAR_TRY(options.max_tokens, parse_max_tokens(talk.max_tokens));
    CELLAR_TRY(const Thinking thinking, parse_thinking(talk.thinking));
    CELLAR_TRY(const Overflow overflow, parse_overflow(talk.overflow, "--overflow"));
    if (args.dump_graph) {
        CELLAR_TRY(const auto engine, start_engine(talk.model, talk.engine));
        return dump_graph(*engine, args);
    }
    CELLAR_TRY(const std::string prompt, read_prompt(args.prompt, args.prompt_file));
    if (prompt.empty()) return fail("the prompt is empty: there is nothing to answer");
    CELLAR_TRY(ConversationOptions conversation, conversation_options(talk));
    CELLAR_TRY(const auto engine, start_engine(talk.model, talk.engine));
    bool thinks = false;
    CELLAR_TRY(const std::vector<int32_t> tokens, prompt_tokens(*engine, args, prompt, std::move(conversation), thinks));
    CELLAR_TRY(const SeqId seq, engine->cache().open());
    StatusLine status;
    AnswerPrinter printer(thinking, thinks);
    const TakeText take = [&](std::string_view text) { return args.json || printer.push(text); };
    Forgotten forgotten;
    options.make_room = [&](std::span<const int32_t> so_far) {
        const auto gone = static_cast<size_t>(forgotten.tokens);
        const int32_t now =
            forget_of_answer(*engine, seq, static_cast<int32_t>(tokens.size()), so_far.subspan(gone, so_far.size() - 1 - gone), overflow);
        forgotten.tokens += now;
        return now > 0;
    };
    auto answer = generate(*engine, seq, tokens, options, take, &interrupts(), prompt_progress(status));
    status.clear();
    if (answer) answer->forgotten = forgotten;
    if (forgotten.tokens > 0) say(explain(forgotten));
    if (!answer) return pass(std::move(answer));
    if (args.json) {
        print_text(to_json(*engine, *answer).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    } else {
        printer.finish();
        if (!answer->text.ends_with('\n')) print_text("\n");
    }
    if (output_error() != 0) return kExitOk;  // what that means is for the caller to say
    say(summary(*engine, seq, *answer));
    if (talk.engine.verbose) say(explain(answer->receipt));
    if (answer->stop == StopReason::Cancelled) return kExitInterrupted;
    if (answer->stop != StopReason::Context) return kExitOk;
    say(fmt::format("{}: the answer ends here (--ctx, --kv-budget and --overflow make room)", answer->full));
    return kExitContext;
}

}  // namespace cellar::apps
