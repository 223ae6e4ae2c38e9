#include "engine/plain_spans.h"

#include <charconv>

namespace cellar {
namespace {

constexpr std::string_view kOpen = "\xEE\x80\x80";   // U+E000, private use
constexpr std::string_view kClose = "\xEE\x80\x81";  // U+E001

std::string_view trimmed_left(std::string_view text) {
    const size_t at = text.find_first_not_of(" \t\r\n\v\f");
    return at == std::string_view::npos ? std::string_view() : text.substr(at);
}

std::string_view trimmed_right(std::string_view text) {
    const size_t last = text.find_last_not_of(" \t\r\n\v\f");
    return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

// The text before the next mark, and the number of its content; -1 behind the last one.
struct Piece {
    std::string_view text;
    int content = -1;
};

std::vector<Piece> cut(std::string_view skeleton, size_t contents) {
    std::vector<Piece> out;
    size_t begin = 0;
    for (size_t at = skeleton.find(kOpen); at != std::string_view::npos; at = skeleton.find(kOpen, at + 1)) {
        const size_t end = skeleton.find(kClose, at);
        if (end == std::string_view::npos) break;
        const std::string_view digits = skeleton.substr(at + kOpen.size(), end - at - kOpen.size());
        int number = -1;
        const auto [stopped, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
        if (error != std::errc() || stopped != digits.data() + digits.size() || number < 0 || static_cast<size_t>(number) >= contents) continue;
        out.push_back({skeleton.substr(begin, at - begin), number});
        begin = end + kClose.size();
    }
    out.push_back({skeleton.substr(begin), -1});
    return out;
}

}  // namespace

std::string content_mark(size_t i) {
    return std::string(kOpen) + std::to_string(i) + std::string(kClose);
}

std::optional<std::vector<TextSpan>> plain_spans(std::string_view prompt, std::string_view skeleton, const std::vector<std::string>& contents) {
    std::vector<TextSpan> out;
    const std::vector<Piece> pieces = cut(skeleton, contents.size());
    size_t at = 0;
    for (size_t p = 0; p < pieces.size(); ++p) {
        if (!prompt.substr(at).starts_with(pieces[p].text)) return std::nullopt;
        at += pieces[p].text.size();
        if (pieces[p].content < 0) break;
        const std::string_view content = contents[static_cast<size_t>(pieces[p].content)];
        const std::string_view behind = pieces[p + 1].text;
        size_t end = std::string_view::npos;
        for (const std::string_view form : {content, trimmed_right(content), trimmed_left(content), trimmed_left(trimmed_right(content))}) {
            if (!prompt.substr(at).starts_with(form) || !prompt.substr(at + form.size()).starts_with(behind)) continue;
            end = at + form.size();
            break;
        }
        // The template made something else of it, as of thoughts that it leaves out.
        if (end == std::string_view::npos) end = behind.empty() ? prompt.size() : prompt.find(behind, at);
        if (end == std::string_view::npos) return std::nullopt;
        if (end > at) out.push_back({at, end});
        at = end;
    }
    return at == prompt.size() ? std::optional(out) : std::nullopt;
}

}  // namespace cellar
