#pragma once
// Flags that several commands take, each group defined once.
#include <string>
#include <utility>
#include <vector>

#include "apps/commands.h"

namespace CLI {
class App;
}

namespace cellar::apps {

inline constexpr const char* kModelHelp = "GGUF file; of a split model the first part";

void add_engine_flags(CLI::App* app, EngineSettings& settings);

// Sampling flags keep their text until all are read, so that messages name them.
class SamplingFlags {
  public:
    void add_to(CLI::App* app);
    [[nodiscard]] Result<void> apply(SamplingSettings& settings) const;

  private:
    void add(CLI::App* app, const char* flag, const char* name, const char* help);
    std::vector<std::pair<std::string, std::string>> given_;
};

// The model and all that decides what it answers, and how the answer is shown.
void add_talk_flags(CLI::App* app, TalkArgs& talk, SamplingFlags& sampling, const char* overflow_help);

// A flag for an int or an int64_t.
template <class Int>
void add_whole_number(CLI::App* app, const std::string& flag, Int& value, const std::string& help);

// What stands behind the name of a command, with "--flag=" taken apart into the flag and its empty value: CLI11 takes the next argument for the
// value otherwise. Refuses '=' behind a flag that takes no value, and behind one of one letter, whose value it would belong to.
Result<std::vector<std::string>> settle_equals(const CLI::App& command, std::vector<std::string> arguments);

}  // namespace cellar::apps
