#include "apps/settings.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/terminal.h"
#include "base/environment.h"
#include "base/units.h"
#include "engine/budget.h"
#include "kv/plan.h"

namespace cellar::apps {
namespace {

struct Origin {
    std::string text;
    std::string from;  // empty: neither flag nor variable
};

Origin flag_or_variable(const std::string& flag_text, const char* flag, const char* variable) {
    if (!flag_text.empty()) return {flag_text, flag};
    if (variable != nullptr) {
        if (auto text = environment_text(variable); text && !text->empty()) return {*text, variable};
    }
    return {};
}

}  // namespace

Result<int64_t> parse_integer(const std::string& text, const std::string& what, int64_t low, int64_t high) {
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc::invalid_argument || stopped != end) return fail("{} is '{}', which is no whole number", what, text);
    if (error != std::errc() || value < low || value > high) return fail("{} is {}, but must lie in [{}, {}]", what, text, low, high);
    return value;
}

Result<double> parse_number(const std::string& text, const std::string& what) {
    double value = 0.0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stopped != end || !std::isfinite(value)) return fail("{} is '{}', which is no number", what, text);
    return value;
}

Result<EngineOptions> engine_options(const EngineSettings& settings) {
    EngineOptions out;
    if (const Origin o = flag_or_variable(settings.threads, "--threads", "CELLAR_THREADS"); !o.from.empty()) {
        CELLAR_TRY(const int64_t threads, parse_integer(o.text, o.from, 1, 1024));
        out.threads = static_cast<int>(threads);
    }
    if (const Origin o = flag_or_variable(settings.context, "--ctx", "CELLAR_CTX"); !o.from.empty()) {
        CELLAR_TRY(out.context, parse_integer(o.text, o.from, 1, kv::most_context));
    }
    if (const Origin o = flag_or_variable(settings.kv_budget, "--kv-budget", "CELLAR_KV_BUDGET"); !o.from.empty()) {
        CELLAR_TRY(out.budget_bytes, parse_budget(o.text, o.from));
    }
    if (const Origin o = flag_or_variable(settings.cpu_target, "--cpu-target", "CELLAR_CPU_TARGET"); !o.from.empty()) {
        if (!ops::limit_cpu_target(o.text))
            return fail("{} is '{}', which this machine or this build does not have; it has {}", o.from, o.text, ops::cpu_targets());
    }
    model::CacheRequest request{settings.cache_type, settings.cache_type_k, settings.cache_type_v,
                                environment_text("CELLAR_CACHE_TYPE").value_or("")};
    CELLAR_TRY(out.formats, model::choose_cache_formats(request));
    out.check_finite = settings.check_finite;
    out.reference_kernels = settings.reference_kernels;
    return out;
}

Result<std::vector<Setting>> settings_in_force(const EngineSettings& settings) {
    CELLAR_TRY(const EngineOptions options, engine_options(settings));
    const auto origin = [](const std::string& text, const char* flag, const char* variable) {
        const Origin o = flag_or_variable(text, flag, variable);
        return o.from.empty() ? std::string("default") : o.from;
    };
    std::vector<Setting> out;
    out.push_back({"ctx", options.context == 0 ? "automatic: the trained length, as far as memory allows" : fmt::to_string(options.context),
                   origin(settings.context, "--ctx", "CELLAR_CTX")});
    out.push_back(
        {"threads", fmt::to_string(options.threads == 0 ? usable_cpus() : options.threads), origin(settings.threads, "--threads", "CELLAR_THREADS")});
    const std::string general = origin(settings.cache_type, "--cache-type", "CELLAR_CACHE_TYPE");
    out.push_back({"cache-type-k", std::string(kv::name(options.formats.k)), settings.cache_type_k.empty() ? general : "--cache-type-k"});
    out.push_back({"cache-type-v", std::string(kv::name(options.formats.v)), settings.cache_type_v.empty() ? general : "--cache-type-v"});
    out.push_back({"kv-budget", options.budget_bytes == 0 ? "automatic: 90 % of the memory, less the weights" : format_bytes(options.budget_bytes),
                   origin(settings.kv_budget, "--kv-budget", "CELLAR_KV_BUDGET")});
    out.push_back({"cpu-target", std::string(ops::cpu_target()), origin(settings.cpu_target, "--cpu-target", "CELLAR_CPU_TARGET")});
    out.push_back({"weights", settings.no_pack ? "as in the file" : "packed for this machine", settings.no_pack ? "--no-pack" : "default"});
    out.push_back({"exact-activations", settings.exact_activations ? "on" : "off", settings.exact_activations ? "--exact-activations" : "default"});
    out.push_back({"check-finite", options.check_finite ? "on" : "off", options.check_finite ? "--check-finite" : "default"});
    return out;
}

model::LoadOptions load_options(const EngineSettings& settings, const EngineOptions& options) {
    model::LoadOptions out;
    out.pack = !settings.no_pack && !options.reference_kernels;
    out.exact_activations = settings.exact_activations;
    out.threads = options.threads == 0 ? usable_cpus() : options.threads;
    return out;
}

Result<std::unique_ptr<Engine>> start_engine(const std::string& model_path, const EngineSettings& settings, int max_outputs, int max_seqs) {
    CELLAR_TRY(EngineOptions options, engine_options(settings));
    options.max_outputs = max_outputs;
    options.max_seqs = max_seqs;
    StatusLine status("loading " + model_path);
    CELLAR_TRY(auto model, model::Model::open(model_path, load_options(settings, options)));
    CELLAR_TRY(auto engine, Engine::make(model, options));
    status.clear();
    for (const std::string& note : model->network().notes) say(note);
    for (const std::string& note : engine->notes()) say(note);
    if (settings.verbose) {
        say(engine->budget_summary());
        say(fmt::format("{}: {}, {} weights, {} threads on {}, cache k {} v {}, {} per token", model->display_name(), model->config().architecture,
                        format_bytes(model->weight_bytes()), engine->threads(), ops::cpu_target(), kv::name(options.formats.k),
                        kv::name(options.formats.v), format_bytes(engine->cache().spec().bytes_per_token())));
    }
    return engine;
}

namespace {

struct SamplingField {
    const char* name;
    float SamplerOptions::*number;
    int SamplerOptions::*integer;
};

constexpr SamplingField kSampling[] = {
    {"temperature", &SamplerOptions::temperature, nullptr},
    {"top_k", nullptr, &SamplerOptions::top_k},
    {"top_p", &SamplerOptions::top_p, nullptr},
    {"min_p", &SamplerOptions::min_p, nullptr},
    {"typical_p", &SamplerOptions::typical_p, nullptr},
    {"repetition_penalty", &SamplerOptions::repetition_penalty, nullptr},
    {"presence_penalty", &SamplerOptions::presence_penalty, nullptr},
    {"frequency_penalty", &SamplerOptions::frequency_penalty, nullptr},
    {"penalty_last_n", nullptr, &SamplerOptions::penalty_last_n},
};

}  // namespace

std::vector<std::string> sampling_names() {
    std::vector<std::string> out;
    for (const SamplingField& field : kSampling) out.emplace_back(field.name);
    out.emplace_back("seed");
    return out;
}

Result<void> set_sampling(SamplingSettings& settings, const std::string& name, const std::string& value) {
    SamplerOptions changed = settings.options;
    if (name == "seed") {
        CELLAR_TRY(const int64_t seed, parse_integer(value, name, 0, INT64_MAX));
        settings.options.seed = static_cast<uint64_t>(seed);
        settings.seed_given = true;
        return {};
    }
    for (const SamplingField& field : kSampling) {
        if (name != field.name) continue;
        if (field.number != nullptr) {
            CELLAR_TRY(const double number, parse_number(value, name));
            changed.*field.number = static_cast<float>(number);
        } else {
            CELLAR_TRY(const int64_t number, parse_integer(value, name, INT32_MIN, INT32_MAX));
            changed.*field.integer = static_cast<int>(number);
        }
        CELLAR_TRY_VOID(check(changed));
        settings.options = changed;
        return {};
    }
    return fail("there is no setting '{}'; known are {}", name, fmt::join(sampling_names(), ", "));
}

std::string sampling_value(const SamplingSettings& settings, const std::string& name) {
    for (const SamplingField& field : kSampling)
        if (name == field.name)
            return field.number != nullptr ? fmt::format("{:g}", settings.options.*field.number) : fmt::to_string(settings.options.*field.integer);
    return fmt::to_string(settings.options.seed);
}

}  // namespace cellar::apps
