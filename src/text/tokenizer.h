#pragma once
// Text to token ids and back, for one vocabulary.
//
// Thread rule: a Tokenizer does not change after make(); any number of threads may use it at once.
//
// 1. encode() takes any bytes. Where they are not UTF-8, byte-level vocabularies encode each bad byte as it is, the others see
//    U+FFFD in its place.
// 2. encode() costs O(n log n) in the length of the text, whatever stands in it.
// 3. Every id that encode() returns is in [0, size()).
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
    bool add_special = true;     // put the tokens around the text that the model expects there (BOS, EOS, SEP)
    bool parse_special = false;  // text that spells a control token becomes that token; user-defined tokens always do
};

class Tokenizer {
  public:
    // Errors: an unknown model or pre-tokenizer (with the list of known ones), no or equal pieces, counts that do not match,
    // ids outside the vocabulary, merges of unknown pieces, byte tokens that are missing or misspelt, a damaged charsmap.
    [[nodiscard]] static Result<std::unique_ptr<Tokenizer>> make(VocabularyData data);
    ~Tokenizer();
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;

    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

    // The bytes a token stands for; they may be a part of a character. Control and unknown tokens give nothing unless
    // render_special, which gives their spelling. A space that encode() added is still there (detokenizer.h drops it).
    // Requires: 0 <= id < size().
    [[nodiscard]] std::string decode(int32_t id, bool render_special = false) const;
    // All of them through a Detokenizer (detokenizer.h): valid UTF-8. Requires: as decode(id), for each.
    [[nodiscard]] std::string decode(const std::vector<int32_t>& ids, bool render_special = false) const;

    [[nodiscard]] int32_t size() const;
    [[nodiscard]] std::string_view piece(int32_t id) const;  // as the file has it. Requires: 0 <= id < size()
    [[nodiscard]] TokenType type(int32_t id) const;          // Requires: 0 <= id < size()
    [[nodiscard]] std::optional<int32_t> find(std::string_view piece) const;

    [[nodiscard]] std::optional<int32_t> bos() const;
    [[nodiscard]] std::optional<int32_t> eos() const;
    [[nodiscard]] std::optional<int32_t> eot() const;  // end of a turn
    [[nodiscard]] std::optional<int32_t> unk() const;
    [[nodiscard]] std::optional<int32_t> pad() const;
    [[nodiscard]] bool adds_bos() const;  // with add_special
    [[nodiscard]] bool adds_eos() const;

    // EOS, EOT, EOM, what the vocabulary lists, and tokens whose spelling is known to end an answer: "<|im_end|>", "<|eot_id|>"...
    [[nodiscard]] bool is_end_of_generation(int32_t id) const;
    [[nodiscard]] std::vector<int32_t> end_of_generation() const;  // sorted

    // True if encode() puts a space before the text, which a Detokenizer then drops again.
    [[nodiscard]] bool adds_space() const;

    [[nodiscard]] const VocabularyData& data() const;

  private:
    struct Parts;
    explicit Tokenizer(std::unique_ptr<Parts> parts);
    std::unique_ptr<const Parts> parts_;
};

// The models ("llama", "gpt2", "t5") that make() knows, sorted.
[[nodiscard]] std::vector<std::string_view> known_models();

}  // namespace cellar::text
