#pragma once
// Tokens that are known by their spelling, since model files do not always name them.
#include <optional>
#include <vector>

#include "text/piece_index.h"
#include "text/vocabulary.h"

namespace cellar::text {

struct KnownTokens {
    std::optional<int32_t> eot;              // end of a turn
    std::optional<int32_t> eom;              // end of a message that a tool answers
    std::vector<int32_t> end_of_generation;  // by their spelling only; sorted
};

// Spellings that occur in ordinary text too ("</s>") count only for control and user-defined tokens.
[[nodiscard]] KnownTokens find_known_tokens(const PieceIndex& index, const std::vector<TokenType>& types);

}  // namespace cellar::text
