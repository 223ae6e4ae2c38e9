#include "text/known_tokens.h"

#include <algorithm>
#include <string_view>

namespace cellar::text {

namespace {

struct Spelling {
    std::string_view piece;
    bool ends_turn = false;
    bool in_text = false;  // ordinary text has it too
};

// The more specific first: the first that a vocabulary has is its end of turn.
constexpr Spelling kEndings[] = {
    {"<|eot_id|>", true},
    {"<|im_end|>", true},
    {"<|end|>", true},
    {"<end_of_turn>", true},
    {"<|end_of_text|>", true},
    {"<|endoftext|>", true},
    {"<end_of_utterance>", true},
    {"<EOT>", true, true},
    {"_<EOT>", true, true},
    {"[EOT]", true, true},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     true},
    {"<|eom_id|>"},
    {"<|return|>"},
    {"<|call|>"},
    {"<|calls|>"},
    {"<|flush|>"},
    {"[e~["},
    {"[EOS]", false, true},
    {"<eos>", false, true},
    {"</s>", false, true},
};

}  // namespace

KnownTokens find_known_tokens(const PieceIndex& index, const std::vector<TokenType>& types) {
    const auto find = [&](std::string_view piece, bool in_text) -> std::optional<int32_t> {
        const int32_t id = index.find(piece);
        if (id < 0) return std::nullopt;
        const TokenType type = types[static_cast<size_t>(id)];
        if (in_text && type != TokenType::Control && type != TokenType::UserDefined) return std::nullopt;
        return id;
    };
    // Vocabularies with channels end every channel with "<|end|>", and the answer with one of the others.
    const bool has_return = find("<|return|>", false) && find("<|call|>", false);
    const bool has_flush = find("<|flush|>", false) && (find("<|call|>", false) || find("<|calls|>", false));
    const bool end_is_not_the_end = has_return || has_flush;

    KnownTokens known;
    known.eom = find("<|eom_id|>", false);
    for (const Spelling& spelling : kEndings) {
        const std::optional<int32_t> id = find(spelling.piece, spelling.in_text);
        if (!id || (end_is_not_the_end && spelling.piece == "<|end|>")) continue;
        if (spelling.ends_turn && !known.eot) known.eot = id;
        known.end_of_generation.push_back(*id);
    }
    std::sort(known.end_of_generation.begin(), known.end_of_generation.end());
    return known;
}

}  // namespace cellar::text
