#include "engine/prompt.h"

namespace cellar {

std::string spelling(const text::Tokenizer& words, std::optional<int32_t> id) {
    return id ? words.decode(*id, true) : std::string();
}

std::vector<int32_t> encode_prompt(const text::Tokenizer& words, std::string_view prompt, bool parse_special) {
    const std::string bos = spelling(words, words.bos());
    const bool has_bos = !bos.empty() && prompt.starts_with(bos);
    return words.encode(prompt, {!has_bos, parse_special});
}

bool ends_in_thinking(std::string_view prompt) {
    const size_t open = prompt.rfind("<think>");
    return open != std::string_view::npos && prompt.find("</think>", open) == std::string_view::npos;
}

}  // namespace cellar
