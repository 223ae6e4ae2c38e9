#pragma once
// What a chat consists of, and the text of it that a model reads.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace cellar {

struct Message {
    std::string role;  // "system", "user", "assistant"
    std::string content;
    friend bool operator==(const Message&, const Message&) = default;
};

// The tokens of a prompt, or of its beginning: BOS is put before it only where the text does not begin with it.
std::vector<int32_t> encode_prompt(const text::Tokenizer& words, std::string_view prompt, bool parse_special = true);

// The text of a token that a vocabulary may lack; empty without it.
std::string spelling(const text::Tokenizer& words, std::optional<int32_t> id);

// True when a prompt leaves the model in the middle of its thinking: the last <think> is open.
bool ends_in_thinking(std::string_view prompt);

}  // namespace cellar
