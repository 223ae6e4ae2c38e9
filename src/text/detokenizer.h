#pragma once
// Token ids to text while they come: whole characters only.
//
// Thread rule: one thread at a time. The tokenizer must outlive the detokenizer.
//
// 1. What push() and finish() return, put together, is valid UTF-8, whatever the ids are.
// 2. It does not depend on how the bytes are spread over tokens.
// 3. Bytes that can no longer become a character turn into U+FFFD at once: one for each longest beginning of a character, or for
//    one byte that cannot begin one. At most 3 bytes are held back.
#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace cellar::text {

// Turns a stream of bytes into whole UTF-8 characters.
class Utf8Stream {
  public:
    // Appends to out what is complete after these bytes.
    void push(std::string_view bytes, std::string& out);
    // Appends U+FFFD if the beginning of a character is held back, and starts over.
    void finish(std::string& out);
    [[nodiscard]] bool holds_back() const { return !held_.empty(); }

  private:
    std::string held_;  // the beginning of a character: at most 3 bytes
};

struct DetokenizeOptions {
    bool render_special = false;  // spell control and unknown tokens
    // Nothing stands before the first id, or a token that stands for itself does: a space that encode() put there is dropped.
    bool at_start = true;
};

// The inverse of encode(), as far as there is one: where encode() adds a space, one space is dropped.
class Detokenizer {
  public:
    explicit Detokenizer(const Tokenizer& tokenizer, DetokenizeOptions options = {});

    // The characters that are complete after this token. Requires: 0 <= id < tokenizer.size().
    [[nodiscard]] std::string push(int32_t id);
    // What is still held back. The detokenizer is as new afterwards.
    [[nodiscard]] std::string finish();

  private:
    const Tokenizer* tokenizer_;
    DetokenizeOptions options_;
    bool drop_space_;
    Utf8Stream stream_;
};

}  // namespace cellar::text
