#pragma once
// The commands of the program: what the command line filled in, and what runs it. Each returns the exit code, or an error that
// the program prints as one line. check() refuses what is wrong whatever the files hold: a wrong command line has its own exit code. Commands
// require that it was called.
#include <optional>
#include <string>
#include <vector>

#include "apps/settings.h"
#include "engine/conversation.h"

namespace cellar::apps {

enum class Thinking { Dim, Show, Hide };  // what happens with the text between <think> and </think>

// What decides an answer, in a chat or alone.
struct TalkArgs {
    std::string model;
    std::string system;
    std::optional<std::string> template_file;
    std::string max_tokens;  // -n
    std::string thinking = "dim";
    std::string overflow;
    SamplingSettings sampling;
    EngineSettings engine;
};

struct RunArgs {
    TalkArgs talk;
    std::optional<std::string> prompt;       // -p
    std::optional<std::string> prompt_file;  // -f; "-" is stdin
    bool raw = false;
    std::vector<std::string> stops;
    bool ignore_eos = false;
    bool special = false;
    bool json = false;
    bool dump_graph = false;
    std::string graph_form = "text";
};
Result<int> run(const RunArgs& args);

struct ChatArgs {
    TalkArgs talk;
    std::string session;          // saved after each turn, and taken up again
    bool session_new = false;     // a file that is there is replaced
    bool session_prefix = false;  // of a file that is damaged or too long, the beginning is taken
};
Result<int> chat(const ChatArgs& args);

struct InspectArgs {
    std::string model;  // or a session file
    bool tensors = false;
    bool keys = false;
    bool json = false;
    int sessions = 1;
    EngineSettings engine;
};
Result<int> inspect(const InspectArgs& args);

struct SessionArgs {
    std::string file;
    bool export_text = false;
    std::string branch;  // whose text; empty: the first
    bool prune = false;
    std::vector<std::string> drop;
    bool json = false;
};
Result<int> session(const SessionArgs& args);

struct BenchArgs {
    std::string model;
    int64_t prompt = 512;
    int64_t gen = 64;
    int64_t depth = 0;
    int reps = 3;
    bool json = false;
    bool profile = false;
    EngineSettings engine;
};
Result<int> bench(const BenchArgs& args);

struct PerplexityArgs {
    std::string model;
    std::string file;
    int64_t window = 512;
    bool json = false;
    EngineSettings engine;
};
Result<int> perplexity(const PerplexityArgs& args);

struct LogitsArgs {
    std::string model;
    std::string tokens;
    std::string out;
    int64_t last = 0;  // 0: all
    EngineSettings engine;
};
Result<int> logits(const LogitsArgs& args);

struct TokenizeArgs {
    std::string model;
    std::optional<std::string> prompt;
    std::optional<std::string> prompt_file;
    bool ids = false;
    bool no_bos = false;
    bool special = false;
};
Result<int> tokenize(const TokenizeArgs& args);

struct TemplateArgs {
    std::optional<std::string> model;
    std::optional<std::string> file;
    std::string input;
};
Result<int> render_template(const TemplateArgs& args);

Result<int> config(const EngineSettings& settings);

Result<void> check(const RunArgs& args);
Result<void> check(const ChatArgs& args);
Result<void> check(const InspectArgs& args);
Result<void> check(const SessionArgs& args);
Result<void> check(const BenchArgs& args);
Result<void> check(const PerplexityArgs& args);
Result<void> check(const LogitsArgs& args);
Result<void> check(const TokenizeArgs& args);
Result<void> check(const TemplateArgs& args);
Result<void> check(const EngineSettings& settings);

// A prompt from -p, from -f, or from stdin when neither is given and stdin is no terminal.
Result<std::string> read_prompt(const std::optional<std::string>& text, const std::optional<std::string>& file);
// A text file of the user's, "-" for stdin.
Result<std::string> read_text(const std::string& path);
Result<Thinking> parse_thinking(const std::string& text);
// What the flag asked for; -1 without one.
Result<int64_t> parse_max_tokens(const std::string& text);
// The conversation that these flags ask for.
Result<ConversationOptions> conversation_options(const TalkArgs& args);
// A line for stderr: tokens, speed, what was reused, how full the sequence is, bytes of the cache.
std::string summary(const Engine& engine, SeqId seq, const Answer& answer);

}  // namespace cellar::apps
