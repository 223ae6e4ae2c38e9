#include "engine/overflow.h"

#include <algorithm>

namespace cellar {
namespace {

constexpr int64_t kShare = 8;  // of the context that is freed at a time
constexpr int32_t kSlideTokens = 32;

bool begins_inside_character(const Engine& engine, int32_t id) {
    const text::Tokenizer* words = engine.model().tokenizer();
    if (words == nullptr || id >= words->size()) return false;
    const std::string bytes = words->decode(id, true);
    return !bytes.empty() && (static_cast<unsigned char>(bytes.front()) & 0xC0U) == 0x80U;
}

}  // namespace

std::string_view name(Overflow overflow) {
    switch (overflow) {
        case Overflow::Stop:
            return "stop";
        case Overflow::DropTurns:
            return "drop-turns";
        case Overflow::Shift:
            return "shift";
        case Overflow::Slide:
            return "slide";
    }
    return "?";
}

Result<Overflow> parse_overflow(const std::string& text, const std::string& what) {
    for (const Overflow overflow : {Overflow::Stop, Overflow::DropTurns, Overflow::Shift, Overflow::Slide})
        if (text == name(overflow)) return overflow;
    return fail("{} is '{}'; known are stop, drop-turns, shift, slide", what, text);
}

std::string explain(const Forgotten& forgotten) {
    const auto count = [](int32_t n, std::string_view word) { return fmt::format("{} {}{}", n, word, n == 1 ? "" : "s"); };
    return fmt::format("forgot {}, {}", count(forgotten.turns, "turn"), count(forgotten.tokens, "token"));
}

int32_t tokens_to_free(const Engine& engine, Overflow overflow) {
    const auto share = static_cast<int32_t>((engine.context() + kShare - 1) / kShare);
    return overflow == Overflow::Slide ? std::min(share, kSlideTokens) : share;
}

int32_t forget_of_answer(Engine& engine, SeqId seq, int32_t begin, std::span<const int32_t> answer, Overflow overflow) {
    if (overflow != Overflow::Shift && overflow != Overflow::Slide) return 0;
    if ((engine.context() - begin) * kShare < engine.context()) return 0;
    size_t count = std::min(answer.size(), static_cast<size_t>(tokens_to_free(engine, overflow)));
    while (count < answer.size() && begins_inside_character(engine, answer[count])) ++count;
    if (count == 0) return 0;
    const auto gone = static_cast<int32_t>(count);
    if (!engine.cache().remove_and_shift(seq, {begin, begin + gone})) return 0;
    return gone;
}

}  // namespace cellar
