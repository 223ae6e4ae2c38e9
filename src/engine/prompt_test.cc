#include "engine/prompt.h"

#include <gtest/gtest.h>

#include "text/small_vocabularies.h"

namespace cellar {
namespace {

TEST(EncodePrompt, PutsOneBosInFront) {
    text::VocabularyData data = text::small_score_vocabulary();
    data.add_bos = true;
    const auto words = *text::Tokenizer::make(std::move(data));
    const std::vector<int32_t> ids = encode_prompt(*words, "ab");
    ASSERT_GE(ids.size(), 2U);
    EXPECT_EQ(ids.front(), *words->bos());
    const std::vector<int32_t> spelled = encode_prompt(*words, "<s>ab");
    EXPECT_EQ(spelled.front(), *words->bos());
    EXPECT_NE(spelled.at(1), *words->bos()) << "it is there already";
    EXPECT_EQ(spelling(*words, words->bos()), "<s>");
    EXPECT_EQ(spelling(*words, std::nullopt), "");
}

TEST(Thinking, IsOpenUntilItIsClosed) {
    EXPECT_TRUE(ends_in_thinking("<|assistant|><think>"));
    EXPECT_TRUE(ends_in_thinking("<think>one</think>two<think>three"));
    EXPECT_FALSE(ends_in_thinking("<think>one</think>"));
    EXPECT_FALSE(ends_in_thinking("</think>"));
    EXPECT_FALSE(ends_in_thinking(""));
}

}  // namespace
}  // namespace cellar
