#pragma once
// Text to token ids and back, for one vocabulary.
//
// Thread rule: a Tokenizer does not change after make(); any number of threads may use it at once.
//
// 1. encode() takes any bytes. Those that are not UTF-8 are spelt as they are where the vocabulary has tokens for them ("gpt2",
//    and "llama" with byte tokens); else, and with "t5" always, each becomes U+FFFD or the unknown token.
// 2. encode() costs O(n log n) in the length of the text, whatever stands in it, plus O(n) for each different special token that
//    the text spells.
// 3. Every id that encode() returns is in [0, size()), and a control token is among them only as EncodeOptions say.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace cellar::text {

struct EncodeOptions {
    bool add_special = true;     // put the tokens around the text that the model expects there (BOS, EOS)
    bool parse_special = false;  // text that spells a control token becomes that token; user-defined tokens always do
};

class Tokenizer {
  public:
    // Errors: an unknown model or pre-tokenizer (with the list of known ones); no pieces, equal or oversized ones; counts that do
    // not match; scores that are not finite; ids outside the vocabulary; merges of unknown pieces; misspelt byte tokens; bytes that
    // would become nothing; a BOS or EOS to be added that is not there; a damaged charsmap.
    [[nodiscard]] static Result<std::unique_ptr<Tokenizer>> make(VocabularyData data);
    ~Tokenizer();
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;

    // Requires: text.size() < 2^31.
    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

    // The bytes a token stands for; they may be a part of a character. Control and unknown tokens give nothing unless
    // render_special, which gives their spelling. A space that encode() added is still there (detokenizer.h drops it).
    // Requires: 0 <= id < size().
    [[nodiscard]] std::string decode(int32_t id, bool render_special = false) const;
    // All of them through a Detokenizer (detokenizer.h) that begins a text: valid UTF-8. Requires: as above, for each.
    [[nodiscard]] std::string decode(const std::vector<int32_t>& ids, bool render_special = false) const;

    [[nodiscard]] int32_t size() const;
    [[nodiscard]] std::string_view piece(int32_t id) const;  // as the file has it. Requires: 0 <= id < size()
    // As the file has it, except that tokens that end an answer are control tokens. Requires: 0 <= id < size().
    [[nodiscard]] TokenType type(int32_t id) const;
    [[nodiscard]] std::optional<int32_t> find(std::string_view piece) const;

    [[nodiscard]] std::optional<int32_t> bos() const;
    [[nodiscard]] std::optional<int32_t> eos() const;
    [[nodiscard]] std::optional<int32_t> eot() const;  // end of a turn
    [[nodiscard]] std::optional<int32_t> unk() const;
    [[nodiscard]] std::optional<int32_t> sep() const;
    [[nodiscard]] std::optional<int32_t> pad() const;
    [[nodiscard]] bool adds_bos() const;  // with add_special
    [[nodiscard]] bool adds_eos() const;  // likewise

    // EOS, EOT, EOM, what the vocabulary lists, and tokens whose spelling is known to end an answer: "<|im_end|>", "<|eot_id|>"...
    [[nodiscard]] bool is_end_of_generation(int32_t id) const;
    [[nodiscard]] std::vector<int32_t> end_of_generation() const;  // sorted

    // True if encode() puts a space in front of a text, and of text behind a token that stands for itself.
    [[nodiscard]] bool adds_space() const;
    // True for tokens that stand for themselves: control, user-defined and unknown ones. Requires: 0 <= id < size().
    [[nodiscard]] bool stands_for_itself(int32_t id) const;

    // What make() was given, without the merges and the charsmap.
    [[nodiscard]] const VocabularyData& data() const;

  private:
    struct Parts;
    explicit Tokenizer(std::unique_ptr<Parts> parts);
    std::unique_ptr<const Parts> parts_;
};

// The models ("gpt2", "llama", "t5") that make() knows, sorted.
[[nodiscard]] std::vector<std::string_view> known_models();

}  // namespace cellar::text
