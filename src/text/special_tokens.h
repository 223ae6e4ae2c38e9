#pragma once
// Cuts a text at the tokens that stand for themselves: control, user-defined and unknown tokens.
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/piece_index.h"

namespace cellar::text {

struct SpecialToken {
    int32_t id;
    std::string_view piece;       // not empty; must outlive the SpecialTokens
    bool only_when_asked = true;  // control and unknown tokens
    bool eats_left = false;       // white space in front of it vanishes
    bool eats_right = false;      // white space behind it vanishes
};

struct Fragment {
    std::string_view text;  // not empty if it is text
    int32_t token = -1;     // >= 0: this token, no text
};

// Longer tokens are looked for before shorter ones, wherever they stand; of equally long ones the smaller id first. Each is taken
// from left to right in the text that earlier ones left over. Costs O(n m), where m is the number of different tokens that the
// text spells, plus O(n l) for their length l.
class SpecialTokens {
  public:
    SpecialTokens() = default;
    explicit SpecialTokens(std::vector<SpecialToken> tokens);

    // The fragments are views into text.
    [[nodiscard]] std::vector<Fragment> split(std::string_view text, bool when_asked) const;

  private:
    [[nodiscard]] std::vector<int32_t> present(std::string_view text, bool when_asked) const;  // indices into tokens_, sorted

    std::vector<SpecialToken> tokens_;  // in the order in which they are looked for
    PieceTrie trie_;                    // values are indices into tokens_
};

}  // namespace cellar::text
