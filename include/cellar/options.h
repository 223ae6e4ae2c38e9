#pragma once
// What can be chosen. Defaults are those of the program `cellar`; the library reads no environment variables.
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cellar::v1 {

struct ModelOptions {
    bool pack = true;  // rewrite weights for this machine: faster, the same results, in memory of their own
    int threads = 0;   // that pack; 0: the CPUs this process may use
};

struct EngineOptions {
    int threads = 0;                // that compute; 0: the CPUs this process may use
    int64_t context = 0;            // most tokens of one session; 0: what the model was trained for, as far as memory allows
    std::string cache_type = {};    // f32, f16, bf16 or q8_0, spelled exactly so; empty: f16
    std::string cache_type_k = {};  // for keys only; empty: cache_type
    std::string cache_type_v = {};  // for values only; empty: cache_type
    int max_sessions = 4;           // open at once, [1, 65535]
    int64_t cache_tokens = 0;       // room of all sessions and of kept prefixes, what they share counted once; 0: what kv_budget has room for
    int chunk = 512;                // tokens of one step of a long prompt; does not change any result
    bool check_finite = false;      // look through every intermediate result; a number that is not finite is an error that names the layer
    // Memory of the cache and of steps: "2GiB", "50%" of what this process may use; "" or "auto": 90 % of that, less the weights.
    std::string kv_budget = {};
};

// What a conversation does when its context is full. Never let go are the system text and the message that is being answered. Behind what went
// nothing is run again; it was computed in the presence of what went, and receipts say so (pure is false). The numbers are those of cellar.h.
enum class Overflow {
    Stop = 0,       // the answer ends there; a prompt that is too long is refused
    DropTurns = 1,  // the oldest whole turns go, an eighth of the context at least
    Shift = 2,      // the oldest tokens go, an eighth of the context: of turns, then of the answer itself
    Slide = 3,      // the same, 32 tokens at a time
};

struct SessionOptions {
    std::string system = {};            // what the conversation begins with; empty: nothing
    std::string chat_template = {};     // instead of the model's own; empty: the model's
    std::optional<bool> thinking = {};  // the template's variable enable_thinking; unset: its default
    Overflow overflow = Overflow::Stop;
};

// How a token is drawn: penalties, then greedy or top_k, typical_p, top_p, min_p, temperature, one draw. The same options and the same
// logits give the same tokens on every run.
struct Sampling {
    float temperature = 0.0F;         // 0: greedy, and of the rest only the penalties apply
    int top_k = 40;                   // 0: all
    float top_p = 0.95F;              // 1: all
    float min_p = 0.05F;              // 0: all
    float typical_p = 1.0F;           // 1: all
    float repetition_penalty = 1.0F;  // 1: none
    float presence_penalty = 0.0F;
    float frequency_penalty = 0.0F;
    int penalty_last_n = 64;  // tokens that penalties look back at; 0: none, -1: all
    uint64_t seed = 0;
};

// Callbacks run on the calling thread, between steps. They may read sessions and the engine; what would change them is refused.
struct GenerateOptions {
    Sampling sampling = {};
    int64_t max_tokens = -1;              // -1: until the model ends, at most as many as the context holds
    std::vector<std::string> stops = {};  // the answer ends before the first of these
    bool ignore_end = false;              // tokens that end an answer are text like any other
    bool show_special = false;            // spell control tokens in the text
    bool parse_special = false;           // generate(): text that spells a control token becomes that token

    // Gets whole characters of the answer, as soon as they cannot be the start of a stop string. False ends the answer.
    std::function<bool(std::string_view text)> on_text = {};
    // done of total tokens of the prompt that had to be run are in the cache.
    std::function<void(int64_t done, int64_t total)> on_progress = {};
    // Set it from any thread or a signal handler: the call ends after the step it is in.
    const std::atomic<bool>* cancel = nullptr;
};

}  // namespace cellar::v1
