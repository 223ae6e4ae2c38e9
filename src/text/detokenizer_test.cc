#include "text/detokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "text/small_vocabularies.h"
#include "text/utf8.h"

namespace cellar::text {
namespace {

std::unique_ptr<Tokenizer> make(VocabularyData data) {
    return std::move(Tokenizer::make(std::move(data)).value());
}

std::string through(const std::vector<std::string>& parts) {
    Utf8Stream stream;
    std::string out;
    for (const std::string& part : parts) {
        stream.push(part, out);
        EXPECT_TRUE(is_utf8(out));
    }
    stream.finish(out);
    return out;
}

TEST(Utf8Stream, EverySplitGivesTheSame) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"a\u00E9\u20AC\U0001F600z", "a\u00E9\u20AC\U0001F600z"},
        {"\xFF\xFE", "\uFFFD\uFFFD"},
        {"a\xE2\x82", "a\uFFFD"},
        {"\xE2\x82z", "\uFFFDz"},
        {"\xE2\x82\xE2\x82\xAC", "\uFFFD\u20AC"},
        {"\xF0\x9F\x98\xC3\xA9", "\uFFFD\u00E9"},
        {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
        {"\xC0\xAF", "\uFFFD\uFFFD"},
        {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
        {"\x80\x80", "\uFFFD\uFFFD"},
        {"\xF0", "\uFFFD"},
        {std::string("a\0b", 3), std::string("a\0b", 3)},
    };
    for (const auto& [bytes, expected] : cases) {
        for (uint32_t cuts = 0; cuts < 1u << (bytes.size() - 1); ++cuts) {
            std::vector<std::string> parts(1);
            for (size_t i = 0; i < bytes.size(); ++i) {
                parts.back() += bytes[i];
                if (cuts >> i & 1) parts.emplace_back();
            }
            ASSERT_EQ(through(parts), expected) << "cuts " << cuts;
        }
    }
}

TEST(Utf8Stream, HoldsNothingBackThatIsDecided) {
    Utf8Stream stream;
    std::string out;
    stream.push("\xF0\x9F", out);
    EXPECT_EQ(out, "");
    EXPECT_TRUE(stream.holds_back());
    stream.push("x", out);
    EXPECT_EQ(out, "\uFFFDx") << "the beginning cannot be completed any more";
    EXPECT_FALSE(stream.holds_back());
}

RC_GTEST_PROP(Detokenizer, StreamsValidUtf8ForAnyIds, (bool render, bool at_start)) {
    static const std::unique_ptr<Tokenizer> tokenizers[] = {make(small_score_vocabulary()), make(small_byte_vocabulary()),
                                                            make(small_unigram_vocabulary(true))};
    for (const auto& tokenizer : tokenizers) {
        const auto ids = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange<int32_t>(0, tokenizer->size()));
        Detokenizer detokenizer(*tokenizer, {render, at_start});
        std::string text;
        for (int round = 0; round < 2; ++round) {
            std::string again;
            for (const int32_t id : ids) {
                const std::string part = detokenizer.push(id);
                RC_ASSERT(is_utf8(part));
                again += part;
            }
            again += detokenizer.finish();
            if (round == 1) RC_ASSERT(again == text);
            text = again;
        }
        RC_ASSERT(is_utf8(text));
        if (at_start) RC_ASSERT(tokenizer->decode(ids, render) == text);
    }
}

RC_GTEST_PROP(Detokenizer, UndoesEncode, ()) {
    static const std::unique_ptr<Tokenizer> tokenizers[] = {make(small_score_vocabulary()), make(small_byte_vocabulary())};
    const auto parts = *rc::gen::container<std::vector<std::string>>(
        rc::gen::element<std::string>("a", "b", "abc", " ", "  ", "<tool>", "<s>", "<|im_end|>", "\u00E9", "\u4E2D", "\n", "x"));
    std::string text;
    for (const std::string& part : parts) text += part;
    for (const auto& tokenizer : tokenizers) {
        for (const bool parse : {false, true}) {
            const auto ids = tokenizer->encode(text, {.add_special = false, .parse_special = parse});
            RC_ASSERT(tokenizer->decode(ids, true) == text);
        }
    }
}

TEST(Detokenizer, SpacesThatEncodeAdded) {
    const auto tokenizer = make(small_score_vocabulary());
    const auto ids = tokenizer->encode("a a<tool>a");
    EXPECT_EQ(tokenizer->decode(ids), "a a<tool>a");
    EXPECT_EQ(tokenizer->decode(ids, true), "<s>a a<tool>a");

    const int32_t space_a = *tokenizer->find("\u2581a");
    Detokenizer answer(*tokenizer, {.at_start = false});
    EXPECT_EQ(answer.push(space_a), " a") << "an answer goes on behind text";
    EXPECT_EQ(answer.push(*tokenizer->find("<tool>")), "<tool>");
    EXPECT_EQ(answer.push(space_a), "a");
    EXPECT_EQ(answer.push(space_a), " a");

    Detokenizer bytes(*tokenizer);
    EXPECT_EQ(bytes.push(*tokenizer->find("<0xE2>")), "");
    EXPECT_EQ(bytes.push(*tokenizer->find("<0x82>")), "");
    EXPECT_EQ(bytes.push(*tokenizer->find("<0xAC>")), "\u20AC");
    EXPECT_EQ(bytes.push(*tokenizer->find("<0xE2>")), "");
    EXPECT_EQ(bytes.push(*tokenizer->find("a")),
              "\uFFFD"
              "a");
    EXPECT_EQ(bytes.push(*tokenizer->find("<0xE2>")), "");
    EXPECT_EQ(bytes.finish(), "\uFFFD");
    EXPECT_EQ(bytes.finish(), "");
}

}  // namespace
}  // namespace cellar::text
