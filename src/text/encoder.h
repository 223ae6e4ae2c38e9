#pragma once
// The three ways in which a vocabulary turns plain text (no special tokens inside) into ids. All take any bytes.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/piece_index.h"
#include "text/vocabulary.h"

namespace cellar::text {

class Encoder {
  public:
    virtual ~Encoder() = default;
    // Appends the ids. Requires: text.size() < 2^31.
    virtual void encode(std::string_view text, std::vector<int32_t>& out) const = 0;
};

// What an encoder is made of. All of it must outlive the encoder.
struct EncoderInput {
    const VocabularyData& data;
    const PieceIndex& index;
    const std::vector<TokenType>& types;  // [tokens]
    int32_t unknown;                      // id, or -1
};

// Tokens for the bytes that no piece spells: "<0x00>" to "<0xFF>".
struct ByteTokens {
    std::array<int32_t, 256> ids;  // -1: there is none
    explicit ByteTokens(const EncoderInput& input);
    [[nodiscard]] bool complete() const;
};

// The byte that a piece like "<0x0A>" stands for, or -1.
int byte_of_piece(std::string_view piece);

// True for tokens that text may become without being asked for: not control, unknown or byte tokens.
bool is_text(TokenType type);

// Merges neighbouring pieces as long as the result is a piece, the highest score first. Characters that are no piece become byte
// tokens, or the unknown token. Spaces must be U+2581 already.
[[nodiscard]] Result<std::unique_ptr<Encoder>> make_score_encoder(const EncoderInput& input);

// Cuts text into words, writes each byte as a character, and merges neighbours in the order of the merge list. A byte whose
// character is no piece becomes the unknown token; if there is none, U+FFFD.
[[nodiscard]] Result<std::unique_ptr<Encoder>> make_byte_encoder(const EncoderInput& input);

struct SpaceRules {
    bool add_prefix;    // one space before the first word
    bool remove_extra;  // a run of spaces counts as one; none at the ends
};
// Normalises, and finds the pieces whose scores have the largest sum. Spaces become U+2581. Characters that are no piece become
// byte tokens where all 256 are there, else the unknown token, one for a run of them.
[[nodiscard]] Result<std::unique_ptr<Encoder>> make_unigram_encoder(const EncoderInput& input, SpaceRules spaces);

// The characters by which byte-level pieces spell bytes: itself for a printable byte, U+0100 and up for the others.
uint32_t character_of_byte(uint8_t byte);
// The byte that a character spells, or -1.
int byte_of_character(uint32_t code_point);

}  // namespace cellar::text
