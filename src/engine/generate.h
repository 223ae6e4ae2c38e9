#pragma once
// From a prompt to an answer: what the cache already holds is kept, the rest is run, then one token after the other is drawn.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/overflow.h"
#include "engine/sampler.h"

namespace cellar {

// How much of a prompt the cache already held, from where, and why not more.
struct Receipt {
    enum class Source : uint8_t {
        Nothing,
        Sequence,  // what the sequence held already
        Kept,      // a kept prefix, of this sequence or of another
    };
    enum class Reason : uint8_t {
        Nothing,       // neither the sequence nor a kept prefix had a first token in common with it
        All,           // everything but the last token, whose logits are wanted
        Differs,       // the token at `first_difference` is another one
        Shorter,       // what was found is a beginning of the prompt and nothing else
        Unrestorable,  // the rows behind `reused` are gone (a window slid past them)
    };
    // Up to kNeighbours tokens, and what they spell: control tokens too, whole characters, not escaped.
    struct Part {
        std::vector<int32_t> tokens;
        std::string text;
    };
    static constexpr int kNeighbours = 8;

    int32_t prompt = 0;
    int32_t reused = 0;
    Source source = Source::Nothing;
    int32_t first_difference = -1;  // position; -1: none
    Reason reason = Reason::Nothing;
    bool pure = true;            // what was reused is what a fresh run computes
    double seconds_saved = 0.0;  // by the cost of reading that this engine has measured
    // Around a first difference: what stands before it on both sides, and what the cache and the prompt have from there on.
    Part before;
    Part cached;
    Part wanted;
};
std::string_view name(Receipt::Reason reason);
std::string_view name(Receipt::Source source);
// In one line for people, control characters escaped: "reused 96 of 140 tokens (kept prefix, pure): behind 'door is ' the cache has '4821', ..."
std::string explain(const Receipt& receipt);

enum class StopReason : uint8_t {
    EndOfTurn,   // the model ended its answer
    StopString,  // one of the texts that end an answer
    MaxTokens,   // GenerateOptions::max_tokens, or as many as the context holds
    Context,     // no room behind the last token
    Cancelled,
};
std::string_view name(StopReason reason);

struct GenerateOptions {
    SamplerOptions sampler;
    int64_t max_tokens = -1;         // -1: until the model ends or the context is full, also where make_room would empty it again
    std::vector<std::string> stops;  // the answer ends before the first of these
    bool ignore_end = false;         // end tokens are text like any other
    bool render_special = false;     // spell control tokens in the text
    bool continues_text = true;      // the answer continues a text: a leading space is kept
    // Asked when there is no room behind the last token; gets the tokens of the answer so far, of which the last one is not in the sequence yet.
    // True: the sequence has become shorter, and the answer goes on.
    std::function<bool(std::span<const int32_t> answer)> make_room;
    // Asked when an answer has ended, however it did. True: that is an error, so that whoever asked for the answer takes back what he said.
    std::function<bool()> failed;
};

struct Timings {
    double prompt_seconds = 0.0;
    double generate_seconds = 0.0;
    int64_t prompt_tokens = 0;     // that were run, reused ones not counted
    int64_t generated_tokens = 0;  // that were run: the first one of an answer comes out of the prompt
    [[nodiscard]] double prompt_tokens_per_second() const { return prompt_seconds > 0.0 ? static_cast<double>(prompt_tokens) / prompt_seconds : 0.0; }
    [[nodiscard]] double generate_tokens_per_second() const {
        return generate_seconds > 0.0 ? static_cast<double>(generated_tokens) / generate_seconds : 0.0;
    }
};

struct Answer {
    std::vector<int32_t> tokens;  // every sampled token, the one that ended it included
    std::string text;             // without the end token and without a stop string
    StopReason stop = StopReason::EndOfTurn;
    std::string full;     // with StopReason::Context: what was full
    Forgotten forgotten;  // by the conversation, to make room for this turn
    Receipt receipt;
    Timings timings;
};

// Whole characters of the answer, as soon as they cannot be the start of a stop string. False cancels.
using TakeText = std::function<bool(std::string_view)>;

// Takes what the sequence or a kept prefix has of the prompt, whichever is longer, trims the rest away, runs what is missing and answers.
// Afterwards the sequence holds the prompt and all tokens of the answer but the last, and its pure part is kept for others. Input errors (a prompt
// that is empty, or does not fit, with both numbers; token ids outside the vocabulary; logits that are not finite) leave the sequence as it was, or
// at the last chunk that was done.
Result<Answer> generate(Engine& engine, SeqId seq, std::span<const int32_t> prompt, const GenerateOptions& options, const TakeText& take = {},
                        const Cancel* cancel = nullptr, const Progress& progress = {});

}  // namespace cellar
