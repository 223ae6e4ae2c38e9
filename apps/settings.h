#pragma once
// What the commands share: how a flag, an environment variable and a default become one value, and how an engine is made of them.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/generate.h"

namespace cellar::apps {

// Exit codes; docs/cli.md says them too.
inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;    // a file, a model or a request is wrong
inline constexpr int kExitUsage = 2;    // the command line, or a variable that stands for a flag, is wrong
inline constexpr int kExitContext = 3;  // the context was full before the answer ended
inline constexpr int kExitInterrupted = 130;

// Texts as the user gave them; an empty one was not given.
struct EngineSettings {
    std::string context;     // --ctx, CELLAR_CTX
    std::string threads;     // --threads, CELLAR_THREADS
    std::string cache_type;  // --cache-type, CELLAR_CACHE_TYPE
    std::string cache_type_k;
    std::string cache_type_v;
    std::string kv_budget;   // --kv-budget, CELLAR_KV_BUDGET
    std::string cpu_target;  // --cpu-target, CELLAR_CPU_TARGET
    bool check_finite = false;
    bool reference_kernels = false;
    bool no_pack = false;
    bool exact_activations = false;
    bool verbose = false;
    friend bool operator==(const EngineSettings&, const EngineSettings&) = default;
};

// Where a value came from.
struct Setting {
    std::string name;  // "ctx"
    std::string value;
    std::string origin;  // "--ctx", "CELLAR_CTX", "default"
};

// Works flags and environment into options. Refuses what cannot be read, with the flag or the variable.
Result<EngineOptions> engine_options(const EngineSettings& settings);
// The same, for people: every setting, its value and where it came from.
Result<std::vector<Setting>> settings_in_force(const EngineSettings& settings);

// How weights are loaded for these settings.
model::LoadOptions load_options(const EngineSettings& settings, const EngineOptions& options);

// Opens the model, makes the engine and says what is worth saying on stderr.
Result<std::unique_ptr<Engine>> start_engine(const std::string& model_path, const EngineSettings& settings, int max_outputs = 1, int max_seqs = 2);

// The sampling flags, by the names that /set takes too.
struct SamplingSettings {
    SamplerOptions options;
    bool seed_given = false;
    bool flags_given = false;  // any of them: then what a session has saved does not count
};
// "temperature" "0.7" and so on; refuses unknown names with the list, and values out of range.
Result<void> set_sampling(SamplingSettings& settings, const std::string& name, const std::string& value);
std::vector<std::string> sampling_names();
std::string sampling_value(const SamplingSettings& settings, const std::string& name);

// Whole numbers and numbers, strictly: the whole text must be one, in the range. `what` names the flag, variable or command.
Result<int64_t> parse_integer(const std::string& text, const std::string& what, int64_t low, int64_t high);
Result<double> parse_number(const std::string& text, const std::string& what);

}  // namespace cellar::apps
