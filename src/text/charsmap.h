#pragma once
// Normalisation by a table of replacements, as unigram vocabularies bring it along.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cellar::text {

// Layout of the bytes: u32 n; n bytes of a double array of u32 entries; replacements, each ended by a zero byte.
// An entry has a label in bits 0 to 7 (with bit 31: a value), bit 8: a value hangs below it, and an offset to its children.
class Charsmap {
  public:
    Charsmap() = default;  // replaces nothing
    // Errors: sizes that do not fit. Offsets are checked when they are used: what points outside is no replacement.
    [[nodiscard]] static Result<Charsmap> parse(std::string_view bytes);

    struct Replacement {
        std::string_view text;
        size_t consumed;  // bytes of the input; 0: there is none
    };
    // The replacement of the longest beginning of text that has one.
    [[nodiscard]] Replacement longest(std::string_view text) const;

  private:
    std::vector<uint32_t> entries_;
    std::string replacements_;
};

}  // namespace cellar::text
