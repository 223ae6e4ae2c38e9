#include "text/special_tokens.h"

#include <algorithm>

namespace cellar::text {

namespace {

bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

std::string_view without_left(std::string_view text) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    return text;
}

std::string_view without_right(std::string_view text) {
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
}

void cut_at(const SpecialToken& token, std::string_view text, std::vector<Fragment>& out) {
    while (!text.empty()) {
        const size_t at = text.find(token.piece);
        if (at == std::string_view::npos) break;
        std::string_view left = text.substr(0, at);
        if (token.eats_left) left = without_right(left);
        if (!left.empty()) out.push_back({left, -1});
        out.push_back({{}, token.id});
        text.remove_prefix(at + token.piece.size());
        if (token.eats_right) text = without_left(text);
    }
    if (!text.empty()) out.push_back({text, -1});
}

}  // namespace

SpecialTokens::SpecialTokens(std::vector<SpecialToken> tokens) : tokens_(std::move(tokens)) {
    std::stable_sort(tokens_.begin(), tokens_.end(), [](const SpecialToken& a, const SpecialToken& b) {
        return a.piece.size() != b.piece.size() ? a.piece.size() > b.piece.size() : a.id < b.id;
    });
    std::vector<PieceTrie::Entry> entries;
    entries.reserve(tokens_.size());
    for (size_t i = 0; i < tokens_.size(); ++i) entries.push_back({tokens_[i].piece, static_cast<int32_t>(i)});
    trie_ = PieceTrie(std::move(entries));
}

std::vector<int32_t> SpecialTokens::present(std::string_view text, bool when_asked) const {
    std::vector<int32_t> found;
    if (trie_.empty()) return found;
    std::vector<bool> seen(tokens_.size());
    for (size_t at = 0; at < text.size(); ++at) {
        uint32_t node = PieceTrie::kRoot;
        for (size_t next = at; next < text.size(); ++next) {
            node = trie_.step(node, static_cast<uint8_t>(text[next]));
            if (node == PieceTrie::kNone) break;
            const int32_t i = trie_.value(node);
            if (i < 0 || seen[static_cast<size_t>(i)] || (tokens_[static_cast<size_t>(i)].only_when_asked && !when_asked)) continue;
            seen[static_cast<size_t>(i)] = true;
            found.push_back(i);
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::vector<Fragment> SpecialTokens::split(std::string_view text, bool when_asked) const {
    std::vector<Fragment> fragments;
    if (text.empty()) return fragments;
    fragments.push_back({text, -1});
    for (const int32_t i : present(text, when_asked)) {
        std::vector<Fragment> cut;
        cut.reserve(fragments.size() + 2);
        for (const Fragment& fragment : fragments) {
            if (fragment.token >= 0) {
                cut.push_back(fragment);
            } else {
                cut_at(tokens_[static_cast<size_t>(i)], fragment.text, cut);
            }
        }
        fragments = std::move(cut);
    }
    return fragments;
}

}  // namespace cellar::text
