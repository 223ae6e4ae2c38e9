#pragma once
// Vocabularies of a few tokens, one of each kind, for tests and fuzz targets.
#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "text/encoder.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace cellar::text {

inline int64_t add_piece(VocabularyData& data, std::string_view piece, float score = 0, TokenType type = TokenType::Normal) {
    data.pieces.add(piece);
    data.scores.push_back(score);
    data.types.push_back(type);
    return static_cast<int64_t>(data.pieces.size()) - 1;
}

inline void add_byte_pieces(VocabularyData& data) {
    for (int byte = 0; byte < 256; ++byte) add_piece(data, fmt::format("<0x{:02X}>", byte), 0, TokenType::Byte);
}

// "<unk>", "<s>", "</s>", the byte tokens, pieces over a, b, c and the space with scores, a user-defined "<tool>".
inline VocabularyData small_score_vocabulary() {
    VocabularyData data;
    data.model = "llama";
    data.unk = add_piece(data, "<unk>", 0, TokenType::Unknown);
    data.bos = add_piece(data, "<s>", 0, TokenType::Control);
    data.eos = add_piece(data, "</s>", 0, TokenType::Control);
    add_byte_pieces(data);
    float score = 0;
    for (const std::string_view piece : {"ab", "\u2581a", "abc", "bc", "\u2581\u2581", "\u2581ab", "ca", "aa", "aaaa", "\u00E9\u00E9"}) {
        add_piece(data, piece, score -= 1);
    }
    for (const std::string_view piece : {"\u2581", "a", "b", "c", "\u00E9"}) add_piece(data, piece, -100);
    add_piece(data, "<tool>", 0, TokenType::UserDefined);
    return data;
}

// The 256 byte characters, merges of them, "<|begin|>", "<|im_end|>" and a user-defined "<tool>".
inline VocabularyData small_byte_vocabulary(std::string_view pre = "gpt-2",
                                            std::initializer_list<std::string_view> merges = {"a b", "\u0120 a", "b c", "ab c", "\u0120a b", "a a",
                                                                                              "aa aa", "\u00C3 \u00A9", "1 2", "12 3"}) {
    VocabularyData data;
    data.model = "gpt2";
    data.pre = pre;
    for (int byte = 0; byte < 256; ++byte) {
        std::string piece;
        append_utf8(character_of_byte(static_cast<uint8_t>(byte)), piece);
        add_piece(data, piece);
    }
    for (const std::string_view merge : merges) {
        data.merges.add(merge);
        std::string piece(merge);
        piece.erase(piece.find(' ', 1), 1);
        add_piece(data, piece);
    }
    data.bos = add_piece(data, "<|begin|>", 0, TokenType::Control);
    data.eos = add_piece(data, "<|im_end|>", 0, TokenType::Control);
    add_piece(data, "<tool>", 0, TokenType::UserDefined);
    return data;
}

// "<pad>", "</s>", "<unk>", pieces over a, b, c and the space with scores, a user-defined "<tool>".
inline VocabularyData small_unigram_vocabulary(bool byte_tokens = false) {
    VocabularyData data;
    data.model = "t5";
    data.pad = add_piece(data, "<pad>", 0, TokenType::Control);
    data.eos = add_piece(data, "</s>", 0, TokenType::Control);
    data.unk = add_piece(data, "<unk>", 0, TokenType::Unknown);
    data.add_space_prefix = true;
    data.remove_extra_whitespaces = true;
    float score = -1;
    for (const std::string_view piece : {"ab", "\u2581a", "abc", "bc", "\u2581ab", "ca", "aa"}) add_piece(data, piece, score -= 0.7f);
    for (const std::string_view piece : {"\u2581", "a", "b", "c", "\u00E9"}) add_piece(data, piece, score -= 0.3f);
    if (byte_tokens) add_byte_pieces(data);
    add_piece(data, "<tool>", 0, TokenType::UserDefined);
    return data;
}

}  // namespace cellar::text
