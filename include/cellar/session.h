#pragma once
// A session: a sequence of tokens in the cache, and a conversation on it if you like. Engine::open_session and fork() make them.
//
// Thread rule: one thread at a time for one Session; different sessions of one engine may live on different threads, and their calls wait for
// each other. A session keeps its engine alive. Closed, moved-from and default sessions refuse everything, length 0.
//
// 1. What the cache holds of a prompt, in this session or as a prefix that another one left, is not run again, and the answer is the one of a
//    fresh run, bit for bit; its Receipt has the numbers.
// 2. After an answer the session holds the prompt and all tokens of the answer but the last, which the next call runs.
// 3. Full and Cancelled while a prompt is read leave the session at the last chunk that was done; an input error leaves it as it was.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cellar/options.h>
#include <cellar/status.h>

namespace cellar::v1 {

struct Message {
    std::string role;  // "system" (first only), "user", "assistant", or what the template knows
    std::string content;
    friend bool operator==(const Message&, const Message&) = default;
};

// Where what was reused came from. The numbers are those of cellar.h.
enum class ReuseSource {
    Nothing = 0,
    Session = 1,  // the session held it
    Kept = 2,     // a kept prefix: what this session or another one had once
};
std::string_view name(ReuseSource source);

// How much of a prompt the cache already held, and why not more. The numbers are those of cellar.h.
enum class ReuseReason {
    Nothing = 0,       // neither the session nor a kept prefix has a first token in common with it
    All = 1,           // everything but the last token, whose logits are wanted
    Differs = 2,       // the token at first_difference is another one
    Shorter = 3,       // what was found is a beginning of the prompt and nothing else
    Unrestorable = 4,  // the rows behind `reused` are gone: a window slid past them
};
std::string_view name(ReuseReason reason);

struct Receipt {
    int64_t prompt = 0;             // tokens
    int64_t reused = 0;             // of these
    int64_t first_difference = -1;  // position; -1: none
    ReuseReason reason = ReuseReason::Nothing;
    bool pure = true;            // what was reused is what a fresh run computes
    double seconds_saved = 0.0;  // by the cost of reading that this engine has measured
    ReuseSource source = ReuseSource::Nothing;
    // Around first_difference, up to 8 tokens each, control tokens spelled: what stands before it, and what the cache and the prompt have from it on.
    // As it is: text from anywhere, to be escaped before a terminal shows it.
    std::string before, cached, wanted;
    int32_t cached_token = -1, wanted_token = -1;  // at first_difference
    std::string explanation;                       // all of this in one line for people, escaped
};

// What a conversation let go to make room, by SessionOptions::overflow.
struct Forgotten {
    int64_t turns = 0;  // that are gone as a whole
    int64_t tokens = 0;
};

// Why an answer ended. The numbers are those of cellar.h.
enum class StopReason { EndOfTurn = 0, StopString = 1, MaxTokens = 2, Context = 3, Cancelled = 4 };
std::string_view name(StopReason reason);

struct Timings {
    int64_t prompt_tokens = 0;     // that were run, reused ones not counted
    int64_t generated_tokens = 0;  // that were run: the first one of an answer comes out of the prompt
    double prompt_seconds = 0.0;
    double generate_seconds = 0.0;
};

struct Answer {
    std::string text;             // without the end token and without a stop string
    std::vector<int32_t> tokens;  // every sampled token, the one that ended it included
    StopReason stop = StopReason::EndOfTurn;
    Receipt receipt;
    Timings timings;
    Forgotten forgotten;
};

class Session {
  public:
    Session() = default;
    Session(Session&&) noexcept = default;
    Session& operator=(Session&&) noexcept = default;

    // --- conversation. Needs a vocabulary and a chat template. On an error the messages stay as they were; the answer of a cancelled
    // turn, as far as it came, is kept.
    Result<Answer> say(std::string_view text, const GenerateOptions& options = {});  // adds what the user says
    // The same from a whole conversation, which replaces the messages so far; what it has in common with them is not run again.
    Result<Answer> chat(const std::vector<Message>& messages, const GenerateOptions& options = {});
    Result<Answer> again(const GenerateOptions& options = {});  // answers the last user message once more
    Result<bool> undo();                                        // takes back the last turn; false when there is none
    [[nodiscard]] Result<std::vector<Message>> messages() const;

    // --- raw text and tokens, without a template. Keeps what the prompt begins with, trims the rest away, runs what is missing, answers.
    Result<Answer> generate(std::string_view prompt, const GenerateOptions& options = {});
    Result<Answer> generate_tokens(std::span<const int32_t> prompt, const GenerateOptions& options = {});
    // Runs tokens behind what is there; the logits behind the last one, [vocabulary].
    Result<std::vector<float>> append(std::span<const int32_t> ids);

    // --- the sequence
    [[nodiscard]] int64_t length() const;                       // tokens in the cache
    [[nodiscard]] Result<std::vector<int32_t>> tokens() const;  // [length()]
    // A session that goes on from the first `at` tokens (-1: all) and shares their cells; nothing is copied. The messages come along.
    // Its length is the longest up to `at` that can be restored. Full: max_sessions are open.
    Result<Session> fork(int64_t at = -1);
    // Shortens to n tokens, or to the longest length below that can be restored, and returns it. The messages stay.
    Result<int64_t> trim(int64_t n);

    [[nodiscard]] bool is_open() const { return state_ != nullptr; }
    void close() { state_.reset(); }  // gives its cells back; what is pure of them stays as a kept prefix until room is needed

  private:
    friend class Engine;
    struct State;
    explicit Session(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
};

}  // namespace cellar::v1
