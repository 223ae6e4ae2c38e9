#include "text/pretokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "text/utf8.h"

namespace cellar::text {
namespace {

using Words = std::vector<std::string>;

Words split(const Pretokenizer& pretokenizer, std::string_view text) {
    std::vector<size_t> ends;
    pretokenizer.split(text, ends);
    Words words;
    size_t begin = 0;
    for (const size_t end : ends) {
        words.emplace_back(text.substr(begin, end - begin));
        begin = end;
    }
    return words;
}

Words split(std::string_view name, std::string_view text) {
    return split(Pretokenizer::make(name).value(), text);
}

TEST(Pretokenizer, EveryNameCoversAnyText) {
    Words texts = {"",
                   " ",
                   "  ",
                   "\n",
                   "a",
                   "Hello World's 1234567 \t\n\n  x ",
                   "\u4F60\u597D\u3001 \u00E9t\u00E9 \u0915\u094D\u0937 \u3000\u180E",
                   std::string(700, ' '),
                   std::string(700, ' ') + "x",
                   "\xFF\xFE a\xC3",
                   "don't DON'T I'LL",
                   "IMGIMGABCZ <sentinel:12>"};
    std::string all;
    for (uint32_t point = 0; point < 0x3100; ++point) append_utf8(point, all);
    texts.push_back(all);
    for (const std::string_view name : known_pretokenizers()) {
        const Pretokenizer pretokenizer = Pretokenizer::make(name).value();
        for (const std::string& text : texts) {
            std::string joined;
            for (const std::string& word : split(pretokenizer, text)) {
                EXPECT_FALSE(word.empty()) << name;
                joined += word;
            }
            EXPECT_EQ(joined, text) << name;
        }
    }
}

RC_GTEST_PROP(Pretokenizer, AnyBytesAreCoveredAndGoodTextIsCutBetweenCharacters, (const std::vector<uint8_t>& bytes)) {
    static const Pretokenizer pretokenizers[] = {Pretokenizer::make("llama-bpe").value(), Pretokenizer::make("deepseek-llm").value(),
                                                 Pretokenizer::make("afmoe").value(), Pretokenizer::make("kimi-k2").value()};
    const std::string text(bytes.begin(), bytes.end());
    for (const Pretokenizer& pretokenizer : pretokenizers) {
        std::string joined;
        for (const std::string& word : split(pretokenizer, text)) {
            RC_ASSERT(!word.empty());
            RC_ASSERT(!is_utf8(text) || is_utf8(word));
            joined += word;
        }
        RC_ASSERT(joined == text);
    }
}

TEST(Pretokenizer, BadBytesCountAsOneSymbolEach) {
    EXPECT_EQ(split("gpt-2", "ab\xFF\xFE cd"), (Words{"ab", "\xFF\xFE", " cd"}));
    EXPECT_EQ(split("gpt-2", "ab\uFFFD\uFFFD cd"), (Words{"ab", "\uFFFD\uFFFD", " cd"}));
    EXPECT_EQ(split("starcoder",
                    "\xFF"
                    "12\xE2\x82"),
              (Words{"\xFF", "1", "2", "\xE2\x82"}));
}

TEST(Pretokenizer, Words) {
    EXPECT_EQ(split("gpt-2", "Hello World's   12345 !? x"), (Words{"Hello", " World", "'s", "  ", " 12345", " !?", " x"}));
    EXPECT_EQ(split("gpt-2", "IT'S"), (Words{"IT", "'", "S"}));
    EXPECT_EQ(split("llama-bpe", "IT'S 12345\n\n x"), (Words{"IT", "'S", " ", "123", "45", "\n\n", " x"}));
    EXPECT_EQ(split("llama-bpe", "a  \n \n b\n"), (Words{"a", "  \n \n", " b", "\n"}));
    EXPECT_EQ(split("qwen2", "x=123;"), (Words{"x", "=", "1", "2", "3", ";"}));
    EXPECT_EQ(split("qwen2", "\u0915\u094D\u0937"), (Words{"\u0915", "\u094D\u0937"}));
    EXPECT_EQ(split("qwen35", "\u0915\u094D\u0937"), (Words{"\u0915\u094D\u0937"}));
    EXPECT_EQ(split("ufakzeka", "Ankara'da"), (Words{"Ankara", "'da"}));
    EXPECT_EQ(split("starcoder", "in 2024\n"), (Words{"in", " ", "2", "0", "2", "4", "\n"}));
    EXPECT_EQ(split("falcon", "a$1234 b"), (Words{"a", "$", "123", "4", " b"}));
    EXPECT_EQ(split("default", "a!1234"), (Words{"a", "!", "123", "4"}));
    EXPECT_EQ(split("bloom", "Hello, world. a b"), (Words{"Hello", ",", " world", ".", " a", " b"}));
    EXPECT_EQ(split("viking", "a12, b"), (Words{"a", "1", "2", ",", " b"}));
    EXPECT_EQ(split("seed-coder", "x!\n12"), (Words{"x", "!", "\n", "1", "2"}));
    EXPECT_EQ(split("laguna", "a\n\n b"), (Words{"a", "\n\n", " b"}));
    EXPECT_EQ(split("minicpm5", "a12345"), (Words{"a", "123", "45"}));
    EXPECT_EQ(split("bailingmoe2", "it's 12\n\n"), (Words{"it", "'s", " ", "1", "2", "\n\n"}));
    EXPECT_EQ(split("chameleon", "a.12IMGIMGABZ    b"), (Words{"a", ".", "1", "2", "IMGIMGABZ", "    ", "b"}));
}

TEST(Pretokenizer, CasedWords) {
    EXPECT_EQ(split("gpt-4o", "camelCaseWords HTTPServer I'LL 1234"), (Words{"camel", "Case", "Words", " HTTPServer", " I'LL", " ", "123", "4"}));
    EXPECT_EQ(split("tekken", "camelCase 12 \u00C9TAT\u00E9"), (Words{"camel", "Case", " ", "1", "2", " \u00C9TAT\u00E9"}));
    EXPECT_EQ(split("tekken", "a/\n/b"), (Words{"a", "/\n/", "b"}));
    EXPECT_EQ(split("kimi-k2", "abc\u4E2D\u6587Def12"), (Words{"abc", "\u4E2D\u6587", "Def", "12"}));
    EXPECT_EQ(split("kimi-k2", "\u3042\u4E2D"), (Words{"\u3042", "\u4E2D"}));
    EXPECT_EQ(split("youtu", "\uD55C\uAD6D12 \u4E2D\u3042a"), (Words{"\uD55C\uAD6D", "1", "2", " ", "\u4E2D\u3042", "a"}));
}

TEST(Pretokenizer, Deepseek) {
    EXPECT_EQ(split("deepseek-llm", "ab 12\u4E2Dc  \n  "), (Words{"ab", " ", "1", "2", "\u4E2D", "c", "  ", "\n", "  "}));
    EXPECT_EQ(split("deepseek-llm", "x   1"), (Words{"x", "   ", "1"}));
    EXPECT_EQ(split("deepseek-coder", "a,b 12"), (Words{"a", ",", "b", " ", "1", "2"}));
    EXPECT_EQ(split("deepseek-v3", "a.b 1234\u3042!\n"), (Words{"a", ".b", " ", "123", "4", "\u3042", "!\n"}));
}

TEST(Pretokenizer, DigitsInGroupsFromTheRight) {
    EXPECT_EQ(split("afmoe", "x1234567"), (Words{"x", "1", "234", "567"}));
    EXPECT_EQ(split("afmoe", "123456"), (Words{"123", "456"}));
    EXPECT_EQ(split("afmoe", "\u0661\u0662\u0663\u0664"), (Words{"\u0661", "\u0662\u0663\u0664"}));
    EXPECT_EQ(split("superbpe", "a b 12345 c"), (Words{"a b ", "12", "345", " c"}));
    EXPECT_EQ(split("tiny_aya", "1234567 x"), (Words{"1", "234", "567", " x"}));
    EXPECT_EQ(split("tiny_aya", "1234x"), (Words{"123", "4", "x"})) << "a letter right behind: cut from the left";
}

TEST(Pretokenizer, LongRunsOfSpaces) {
    const std::string half(512, ' ');
    EXPECT_EQ(split("jais-2", std::string(1100, ' ') + "x"), (Words{half, half, std::string(64, ' '), std::string(8, ' '), "  ", " ", " x"}));
    EXPECT_EQ(split("jais-2", "  \n  \n   x"), (Words{"  \n  \n", "  ", " x"}));
    EXPECT_EQ(split("jais-2", "!\n  \n x"), (Words{"!\n", "  \n", " x"}));
}

TEST(Pretokenizer, WhiteSpaceIsUnicodes) {
    EXPECT_EQ(split("gpt-2", "\u3000\u3000a"), (Words{"\u3000", "\u3000", "a"}));
    EXPECT_EQ(split("gpt-2", "a\u180E"), (Words{"a", "\u180E"}));
    EXPECT_EQ(split("gpt-2", "!\u180E"), (Words{"!\u180E"})) << "U+180E is no white space";
    EXPECT_EQ(split("gpt-2", "!\u0085"), (Words{"!", "\u0085"}));
}

TEST(Pretokenizer, UnknownNamesAreRefusedWithTheList) {
    const auto refused = Pretokenizer::make("lama-bpe");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Unsupported);
    EXPECT_NE(refused.error().message.find("'lama-bpe'"), std::string::npos) << refused.error().message;
    EXPECT_NE(refused.error().message.find("jina-v5-nano, joyai-llm, kanana2, kimi-k2, kormo, laguna, lfm2, llada-moe, llama-bpe"), std::string::npos)
        << refused.error().message;
    const auto names = known_pretokenizers();
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Pretokenizer, EveryNameIsDocumented) {
    std::ifstream in(CELLAR_SOURCE_DIR "/docs/text.md");
    const std::string page{std::istreambuf_iterator<char>(in), {}};
    ASSERT_FALSE(page.empty());
    for (const std::string_view name : known_pretokenizers()) EXPECT_NE(page.find(fmt::format("`{}`", name)), std::string::npos) << name;
}

TEST(Pretokenizer, Traits) {
    EXPECT_TRUE(pretokenizer_traits("llama-bpe")->ignore_merges);
    EXPECT_TRUE(pretokenizer_traits("tekken")->add_bos);
    EXPECT_FALSE(pretokenizer_traits("glm4")->default_bos);
    EXPECT_FALSE(pretokenizer_traits("")->add_bos);
    EXPECT_FALSE(pretokenizer_traits("no-such"));
}

}  // namespace
}  // namespace cellar::text
