#pragma once
// A vocabulary as plain data: what a model file says about its tokens. Tokenizer::make (tokenizer.h) checks it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cellar::text {

// Many short strings in one buffer: no allocation for each. A view lives until the next add() or a move of the pool.
class StringPool {
  public:
    void reserve(size_t strings, size_t bytes);
    void add(std::string_view text);
    [[nodiscard]] size_t size() const { return ends_.size(); }
    [[nodiscard]] bool empty() const { return ends_.empty(); }
    // Requires: i < size().
    [[nodiscard]] std::string_view operator[](size_t i) const {
        const size_t begin = i == 0 ? 0 : ends_[i - 1];
        return std::string_view(bytes_).substr(begin, ends_[i] - begin);
    }

  private:
    std::string bytes_;
    std::vector<size_t> ends_;  // [size()] where string i ends in bytes_
};

// The numbers are those of model files.
enum class TokenType : uint8_t { Undefined = 0, Normal = 1, Unknown = 2, Control = 3, UserDefined = 4, Unused = 5, Byte = 6 };

struct VocabularyData {
    std::string model;             // "llama": pieces with scores; "gpt2": merges over bytes; "t5": unigram
    std::string pre;               // how "gpt2" cuts text into words (pretokenizer.h); empty: "default"
    StringPool pieces;             // [tokens] as the file has them: U+2581 for a space, or bytes as printable characters
    std::vector<float> scores;     // [tokens] or empty: all 0
    std::vector<TokenType> types;  // [tokens] or empty: all Normal
    StringPool merges;             // "left right", the most important first; only "gpt2"

    // Ids that the file names. An unset one gets the default of its model, if there is one and it lies inside the vocabulary.
    std::optional<int64_t> bos, eos, eot, eom, unk, sep, pad, mask;
    std::optional<int64_t> fim_prefix, fim_suffix, fim_middle, fim_pad, fim_repository, fim_separator;
    std::vector<int64_t> end_of_generation;  // further ids that end an answer

    // Unset: the default of the model and its pre-tokenizer (docs/text.md).
    std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;

    std::string precompiled_charsmap;  // normalisation of "t5" (charsmap.h); empty: none

    // Names by which exceptions are known (spaces around special tokens): general.architecture and general.name.
    std::string architecture, name;
};

}  // namespace cellar::text
