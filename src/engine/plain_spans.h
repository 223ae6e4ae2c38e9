#pragma once
// Which parts of a rendered prompt are what people said, and not what the template wrote: text in them that spells a control token is text.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cellar {

struct TextSpan {
    size_t begin = 0;
    size_t end = 0;
    friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

// What stands for content number i in a skeleton: no text that anybody types.
std::string content_mark(size_t i);

// `skeleton` is the prompt rendered with content_mark(i) in place of contents[i]. Finds in `prompt` what stands where the marks do; a template
// may trim contents, repeat or leave out some. Nothing when the prompt does not follow the skeleton.
std::optional<std::vector<TextSpan>> plain_spans(std::string_view prompt, std::string_view skeleton, const std::vector<std::string>& contents);

}  // namespace cellar
