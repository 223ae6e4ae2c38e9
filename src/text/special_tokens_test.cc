#include "text/special_tokens.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

namespace cellar::text {
namespace {

// Gives every byte an owner: a token, text, or nobody (eaten space). Slow and obvious.
std::vector<std::string> plain_split(std::vector<SpecialToken> tokens, const std::string& text, bool asked) {
    std::stable_sort(tokens.begin(), tokens.end(),
                     [](const auto& a, const auto& b) { return a.piece.size() != b.piece.size() ? a.piece.size() > b.piece.size() : a.id < b.id; });
    constexpr int kText = -1, kEaten = -2;
    std::vector<int> owner(text.size(), kText);
    std::vector<bool> starts(text.size() + 1, false);
    const auto is_space = [&](size_t i) { return text[i] == ' ' || text[i] == '\n'; };
    for (const SpecialToken& token : tokens) {
        if (token.only_when_asked && !asked) continue;
        for (size_t at = 0; at + token.piece.size() <= text.size(); ++at) {
            bool fits = true;
            for (size_t i = 0; i < token.piece.size(); ++i) fits &= text[at + i] == token.piece[i] && owner[at + i] == kText;
            if (!fits) continue;
            const size_t end = at + token.piece.size();
            std::fill(owner.begin() + static_cast<std::ptrdiff_t>(at), owner.begin() + static_cast<std::ptrdiff_t>(end), token.id);
            starts[at] = true;
            for (size_t i = at; token.eats_left && i > 0 && owner[i - 1] == kText && is_space(i - 1); --i) owner[i - 1] = kEaten;
            for (size_t i = end; token.eats_right && i < text.size() && owner[i] == kText && is_space(i); ++i) owner[i] = kEaten;
        }
    }
    std::vector<std::string> parts;
    for (size_t i = 0; i < text.size(); ++i) {
        if (owner[i] >= 0) {
            if (starts[i]) parts.push_back("#" + std::to_string(owner[i]));
        } else if (owner[i] == kText) {
            if (i == 0 || owner[i - 1] != kText) parts.emplace_back();
            parts.back() += text[i];
        }
    }
    return parts;
}

std::vector<std::string> split(const SpecialTokens& tokens, const std::string& text, bool asked) {
    std::vector<std::string> parts;
    for (const Fragment& fragment : tokens.split(text, asked)) {
        parts.push_back(fragment.token >= 0 ? "#" + std::to_string(fragment.token) : std::string(fragment.text));
    }
    return parts;
}

RC_GTEST_PROP(SpecialTokens, SplitsLikeAPlainModel, ()) {
    const auto word = rc::gen::container<std::string>(rc::gen::element('<', '>', 'a', ' '));
    auto pieces = *rc::gen::container<std::set<std::string>>(word);
    pieces.erase("");
    const std::string text = *rc::gen::resize(60, word);
    std::vector<SpecialToken> tokens;
    for (const std::string& piece : pieces) {
        tokens.push_back(
            {static_cast<int32_t>(tokens.size()), piece, *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>()});
    }
    const SpecialTokens special(tokens);
    for (const bool asked : {false, true}) RC_ASSERT(split(special, text, asked) == plain_split(tokens, text, asked));
}

TEST(SpecialTokens, LongerOnesWinEvenWhereTheyBeginLater) {
    const SpecialTokens special({{0, "ab", true}, {1, "bcd", true}});
    EXPECT_EQ(split(special, "abcd", true), (std::vector<std::string>{"a", "#1"}));
    EXPECT_EQ(split(special, "abab", true), (std::vector<std::string>{"#0", "#0"}));
    EXPECT_EQ(split(special, "abcd", false), (std::vector<std::string>{"abcd"}));
    EXPECT_TRUE(special.split("", true).empty());
}

}  // namespace
}  // namespace cellar::text
