#include "apps/flags.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <limits>

namespace cellar::apps {

void add_engine_flags(CLI::App* app, EngineSettings& s) {
    app->add_option("--ctx", s.context, "tokens of context (CELLAR_CTX; default: the trained length, as far as memory allows)");
    app->add_option("--threads", s.threads, "threads (CELLAR_THREADS; default: the CPUs this process may use)");
    app->add_option("--cache-type", s.cache_type, "format of the cache: f32, f16, bf16, q8_0 (CELLAR_CACHE_TYPE; default f16)");
    app->add_option("--cache-type-k", s.cache_type_k, "format of K alone");
    app->add_option("--cache-type-v", s.cache_type_v, "format of V alone");
    app->add_option("--kv-budget", s.kv_budget,
                    "memory of the cache and of steps: auto, 2GiB, 50% (CELLAR_KV_BUDGET; default auto: 90 % of the memory, less the weights)");
    app->add_option("--cpu-target", s.cpu_target, "highest instruction set to use (CELLAR_CPU_TARGET)");
    app->add_flag("--no-pack", s.no_pack, "read the weights as they lie in the file instead of packing them for this machine");
    app->add_flag("--exact-activations", s.exact_activations, "keep activations f32 where they meet BF16 weights, instead of rounding them to BF16");
    app->add_flag("--check-finite", s.check_finite, "look through every result and name the layer whose numbers went wrong");
    app->add_flag("--verbose", s.verbose, "say more on stderr");
}

void SamplingFlags::add(CLI::App* app, const char* flag, const char* name, const char* help) {
    app->add_option_function<std::string>(
        flag, [this, name](const std::string& value) { given_.emplace_back(name, value); }, help);
}

void SamplingFlags::add_to(CLI::App* app) {
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

template <class Int>
void add_whole_number(CLI::App* app, const std::string& flag, Int& value, const std::string& help) {
    const auto take = [flag, &value](const std::string& text) {
        const auto parsed = parse_integer(text, flag, std::numeric_limits<Int>::min(), std::numeric_limits<Int>::max());
        if (!parsed) throw CLI::ParseError(parsed.error().message, kExitUsage);
        value = static_cast<Int>(*parsed);
    };
    app->add_option_function<std::string>(flag, take, help);
}
template void add_whole_number(CLI::App*, const std::string&, int&, const std::string&);
template void add_whole_number(CLI::App*, const std::string&, int64_t&, const std::string&);

Result<void> SamplingFlags::apply(SamplingSettings& settings) const {
    for (const auto& [name, value] : given_) CELLAR_TRY_VOID(set_sampling(settings, name, value));
    settings.flags_given = !given_.empty();
    return {};
}

void add_talk_flags(CLI::App* app, TalkArgs& talk, SamplingFlags& sampling, const char* overflow_help) {
    app->add_option("model", talk.model, kModelHelp)->required();
    app->add_option("--system", talk.system, "system text");
    app->add_option("--template", talk.template_file, "a file with a chat template, instead of the model's");
    app->add_option("-n,--max-tokens", talk.max_tokens, "most tokens of an answer; -1: as many as the context holds (default)");
    app->add_option("--thinking", talk.thinking, "what to do with thinking: dim, show, hide (default dim)");
    app->add_option("--overflow", talk.overflow, overflow_help);
    sampling.add_to(app);
    add_engine_flags(app, talk.engine);
}

Result<std::vector<std::string>> settle_equals(const CLI::App& command, std::vector<std::string> arguments) {
    std::vector<std::string> out;
    const auto takes_value = [](const CLI::Option& option) { return option.get_expected_max() > 0; };
    bool is_value = false;
    bool flags_end = false;
    for (std::string& argument : arguments) {
        flags_end = flags_end || (!is_value && argument == "--");
        if (is_value || flags_end || !argument.starts_with('-')) {
            is_value = false;
            out.push_back(std::move(argument));
            continue;
        }
        const size_t equals = std::min(argument.find('='), argument.size());
        const std::string name = argument.substr(0, equals);
        const CLI::Option* option = command.get_option_no_throw(name);
        const bool has_equals = equals < argument.size();
        if (has_equals && option != nullptr) {
            if (!takes_value(*option)) return fail("{} takes no value, so no '=' either", name);
            const std::string value = argument.substr(equals + 1);
            if (!name.starts_with("--"))
                return fail("{}: behind a flag of one letter the value is an argument of its own: {} {}", argument, name, value);
            if (value.empty()) {
                out.push_back(name);
                out.emplace_back();
                continue;
            }
        }
        out.push_back(std::move(argument));
        is_value = !has_equals && option != nullptr && takes_value(*option);
    }
    return out;
}

}  // namespace cellar::apps
