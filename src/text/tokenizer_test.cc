#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "text/small_vocabularies.h"

namespace cellar::text {
namespace {

std::unique_ptr<Tokenizer> make(VocabularyData data) {
    auto made = Tokenizer::make(std::move(data));
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options) {
    std::vector<std::string> out;
    for (const int32_t id : tokenizer.encode(text, options)) out.emplace_back(tokenizer.piece(id));
    return out;
}

using Pieces = std::vector<std::string>;

TEST(StringPool, KeepsStringsInOrder) {
    StringPool pool;
    EXPECT_TRUE(pool.empty());
    for (const std::string_view text : {"a", "", "bc"}) pool.add(text);
    ASSERT_EQ(pool.size(), 3u);
    const StringPool copy = pool;
    EXPECT_EQ(copy[0], "a");
    EXPECT_EQ(copy[1], "");
    EXPECT_EQ(copy[2], "bc");
}

struct Refusal {
    const char* name;
    std::function<void(VocabularyData&)> damage;
    const char* reason;
};

void expect_refused(const VocabularyData& good, const std::vector<Refusal>& refusals) {
    ASSERT_TRUE(Tokenizer::make(good));
    for (const Refusal& refusal : refusals) {
        VocabularyData data = good;
        refusal.damage(data);
        const auto made = Tokenizer::make(std::move(data));
        ASSERT_FALSE(made) << refusal.name;
        EXPECT_NE(made.error().message.find(refusal.reason), std::string::npos) << refusal.name << ": " << made.error().message;
        EXPECT_EQ(made.error().message.find('\n'), std::string::npos);
    }
}

TEST(Tokenizer, RefusesWhatDoesNotFit) {
    expect_refused(small_byte_vocabulary(),
                   {
                       {"model", [](auto& data) { data.model = "rwkv"; }, "unknown model 'rwkv'; known are: gpt2, llama, t5"},
                       {"no model", [](auto& data) { data.model = ""; }, "unknown model ''"},
                       {"pre", [](auto& data) { data.pre = "nope"; }, "unknown pre-tokenizer 'nope'; known are: a.x-4.0, afmoe"},
                       {"no pieces", [](auto& data) { data.pieces = {}; }, "no tokens"},
                       {"duplicate", [](auto& data) { add_piece(data, "ab"); }, "tokens 256 and 269 are both 'ab'"},
                       {"scores", [](auto& data) { data.scores.pop_back(); }, "268 scores for 269 tokens"},
                       {"types", [](auto& data) { data.types.pop_back(); }, "268 token types for 269 tokens"},
                       {"score", [](auto& data) { data.scores[7] = std::nanf(""); }, "score of token 7"},
                       {"bos", [](auto& data) { data.bos = 269; }, "the BOS token is 269, but there are 269 tokens"},
                       {"eos", [](auto& data) { data.eos = -1; }, "the EOS token is -1"},
                       {"huge id", [](auto& data) { data.pad = int64_t{1} << 40; }, "the padding token is 1099511627776"},
                       {"fill-in", [](auto& data) { data.fim_middle = 5000; }, "the fill-in middle token is 5000"},
                       {"ending",
                        [](auto& data) {
                            data.end_of_generation = {3, 4000};
                        },
                        "the end-of-generation token is 4000"},
                       {"no merges", [](auto& data) { data.merges = {}; }, "needs merges"},
                       {"one piece", [](auto& data) { data.merges.add("ab"); }, "merge 10 is 'ab'"},
                       {"half a merge", [](auto& data) { data.merges.add("ab "); }, "merge 10 is 'ab '"},
                       {"unknown left", [](auto& data) { data.merges.add("zz b"); }, "needs the piece 'zz'"},
                       {"unknown right", [](auto& data) { data.merges.add("b zz"); }, "needs the piece 'zz'"},
                       {"unknown result", [](auto& data) { data.merges.add("b b"); }, "needs the piece 'bb'"},
                       {"long piece", [](auto& data) { add_piece(data, std::string(5000, 'q')); }, "token 269 has 5000 bytes"},
                   });
    expect_refused(small_score_vocabulary(),
                   {
                       {"byte", [](auto& data) { add_piece(data, "<0xZZ>", 0, TokenType::Byte); }, "is of type byte but is '<0xZZ>'"},
                       {"infinite score", [](auto& data) { data.scores[9] = -INFINITY; }, "score of token 9"},
                   });
    expect_refused(small_unigram_vocabulary(), {
                                                   {"charsmap", [](auto& data) { data.precompiled_charsmap = "abc"; }, "charsmap"},
                                               });
    VocabularyData tiny;
    tiny.model = "llama";
    add_piece(tiny, "a");
    const auto no_bos = Tokenizer::make(tiny);
    ASSERT_FALSE(no_bos);
    EXPECT_NE(no_bos.error().message.find("BOS is to be added"), std::string::npos) << no_bos.error().message;
}

TEST(Tokenizer, DefaultsOfTheModels) {
    const auto score = make(small_score_vocabulary());
    EXPECT_EQ(score->bos(), 1);
    EXPECT_TRUE(score->adds_bos());
    EXPECT_FALSE(score->adds_eos());
    EXPECT_TRUE(score->adds_space());
    VocabularyData unnamed = small_byte_vocabulary();
    unnamed.bos.reset();
    unnamed.eos.reset();
    const auto bytes = make(unnamed);
    EXPECT_EQ(bytes->bos(), 11);
    EXPECT_FALSE(bytes->adds_bos());
    EXPECT_FALSE(bytes->adds_space());
    unnamed.pre = "glm4";
    EXPECT_EQ(make(unnamed)->bos(), std::nullopt);
    unnamed.pre = "llama-bpe";
    EXPECT_TRUE(make(unnamed)->adds_bos());
    unnamed.add_bos = false;
    EXPECT_FALSE(make(unnamed)->adds_bos());
    EXPECT_TRUE(make(small_unigram_vocabulary())->adds_eos());
}

TEST(Tokenizer, SpecialTokensOnlyWhereAsked) {
    const auto tokenizer = make(small_byte_vocabulary());
    const std::string text = "a<|im_end|>b<tool>";
    EXPECT_EQ(pieces(*tokenizer, text, {false, true}), (Pieces{"a", "<|im_end|>", "b", "<tool>"}));
    const Pieces plain = pieces(*tokenizer, text, {false, false});
    EXPECT_EQ(std::count(plain.begin(), plain.end(), "<|im_end|>"), 0);
    EXPECT_EQ(plain.back(), "<tool>") << "user-defined tokens are always found";

    VocabularyData data = small_byte_vocabulary();
    data.add_bos = true;
    data.add_eos = true;
    EXPECT_EQ(pieces(*make(data), "a", {}), (Pieces{"<|begin|>", "a", "<|im_end|>"}));
    EXPECT_EQ(pieces(*make(data), "", {}), (Pieces{"<|begin|>", "<|im_end|>"}));
}

TEST(Tokenizer, MergesDoNotMakeControlTokens) {
    VocabularyData data = small_byte_vocabulary("gpt-2", {"a b", "ab c"});
    data.types[257] = TokenType::Control;  // "abc"
    const auto tokenizer = make(std::move(data));
    EXPECT_EQ(pieces(*tokenizer, "abc", {false, false}), (Pieces{"ab", "c"}));
    EXPECT_EQ(pieces(*tokenizer, "abc", {false, true}), (Pieces{"abc"}));
}

TEST(Tokenizer, SpacesBehindSpecialTokens) {
    VocabularyData data = small_score_vocabulary();
    EXPECT_EQ(pieces(*make(data), "a<tool>a <tool> a", {false, false}),
              (Pieces{"\u2581a", "<tool>", "\u2581a", "\u2581", "<tool>", "\u2581", "\u2581a"}));
    data.add_space_prefix = false;
    EXPECT_EQ(pieces(*make(data), "a<tool>a", {false, false}), (Pieces{"a", "<tool>", "a"}));
    data.name = "Phi-3 mini";
    EXPECT_EQ(pieces(*make(data), "a <tool> \n a<s> a", {false, true}), (Pieces{"a", "\u2581", "<tool>", "a", "<s>", "\u2581a"}));
}

TEST(Tokenizer, EndsOfGeneration) {
    VocabularyData data = small_byte_vocabulary();
    const auto eot = static_cast<int32_t>(add_piece(data, "<|eot_id|>"));  // some files forget the type
    const auto listed = static_cast<int32_t>(add_piece(data, "listed", 0, TokenType::Control));
    const auto in_text = static_cast<int32_t>(add_piece(data, "</s>"));
    const auto pad = static_cast<int32_t>(add_piece(data, "<|fim_pad|>", 0, TokenType::Control));
    data.end_of_generation = {listed};
    data.fim_pad = pad;
    const auto tokenizer = make(std::move(data));
    EXPECT_TRUE(tokenizer->is_end_of_generation(*tokenizer->eos()));
    EXPECT_TRUE(tokenizer->is_end_of_generation(eot));
    EXPECT_EQ(tokenizer->type(eot), TokenType::Control);
    EXPECT_EQ(tokenizer->eot(), eot);
    EXPECT_EQ(tokenizer->decode(eot), "");
    EXPECT_EQ(tokenizer->decode(eot, true), "<|eot_id|>");
    EXPECT_TRUE(tokenizer->is_end_of_generation(listed));
    EXPECT_TRUE(tokenizer->is_end_of_generation(pad));
    EXPECT_FALSE(tokenizer->is_end_of_generation(in_text)) << "struck-out text ends with it";
    EXPECT_FALSE(tokenizer->is_end_of_generation(0));
    EXPECT_EQ(tokenizer->end_of_generation(), (std::vector<int32_t>{static_cast<int32_t>(*tokenizer->eos()), eot, listed, pad}));
}

TEST(Tokenizer, ChannelsEndButNotTheAnswer) {
    VocabularyData data = small_byte_vocabulary();
    const auto end = static_cast<int32_t>(add_piece(data, "<|end|>", 0, TokenType::Control));
    EXPECT_TRUE(make(data)->is_end_of_generation(end));
    const auto done = static_cast<int32_t>(add_piece(data, "<|return|>", 0, TokenType::Control));
    const auto call = static_cast<int32_t>(add_piece(data, "<|call|>", 0, TokenType::Control));
    const auto tokenizer = make(std::move(data));
    EXPECT_FALSE(tokenizer->is_end_of_generation(end));
    EXPECT_TRUE(tokenizer->is_end_of_generation(done));
    EXPECT_TRUE(tokenizer->is_end_of_generation(call));
}

TEST(Tokenizer, WithoutTypes) {
    VocabularyData data = small_score_vocabulary();
    data.types.clear();
    const auto tokenizer = make(std::move(data));
    EXPECT_EQ(tokenizer->type(3), TokenType::Byte);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("x\u20AC", {.add_special = false})), "x\u20AC");
}

TEST(Tokenizer, EmptyPiecesAreNeverFound) {
    VocabularyData data = small_byte_vocabulary();
    add_piece(data, "");
    add_piece(data, "", 0, TokenType::Control);
    const auto tokenizer = make(std::move(data));
    EXPECT_EQ(tokenizer->find(""), std::nullopt);
    EXPECT_EQ(pieces(*tokenizer, "a", {false, true}), Pieces{"a"});
    EXPECT_EQ(tokenizer->decode(tokenizer->size() - 2), "");
}

TEST(Tokenizer, PiecesOutsideOfTheByteAlphabetAreThemselves) {
    VocabularyData data = small_byte_vocabulary();
    const auto id = static_cast<int32_t>(add_piece(data, "\u4E2D \xFF"));
    EXPECT_EQ(make(std::move(data))->decode(id), "\u4E2D \xFF");
}

}  // namespace
}  // namespace cellar::text
