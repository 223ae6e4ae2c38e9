#pragma once
// What a conversation does when its context is full, and what it let go.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/engine.h"

namespace cellar {

// Neither the system text nor the message that is being answered is ever let go.
enum class Overflow : uint8_t {
    Stop,       // the answer ends, a prompt that is too long is refused
    DropTurns,  // the oldest whole turns go, an eighth of the context at least
    Shift,      // the oldest tokens go, an eighth of the context, of turns and then of the answer itself
    Slide,      // the same, a block at a time
};
std::string_view name(Overflow overflow);
// "stop", "drop-turns", "shift", "slide". `what` names the flag or option.
Result<Overflow> parse_overflow(const std::string& text, const std::string& what);

struct Forgotten {
    int32_t turns = 0;  // that are gone as a whole
    int32_t tokens = 0;
    friend bool operator==(const Forgotten&, const Forgotten&) = default;
};
// "forgot 3 turns, 412 tokens"
std::string explain(const Forgotten& forgotten);

// How many tokens go at a time.
int32_t tokens_to_free(const Engine& engine, Overflow overflow);

// Takes the oldest tokens of an answer in progress out of its sequence and closes the gap; the cut lies between whole characters. The answer
// begins at position `begin`; `answer` are its tokens that are in the sequence. Returns how many went: 0 where the policy forbids it or the prompt
// leaves less than an eighth of the context, so that nothing sensible could be written.
int32_t forget_of_answer(Engine& engine, SeqId seq, int32_t begin, std::span<const int32_t> answer, Overflow overflow);

}  // namespace cellar
