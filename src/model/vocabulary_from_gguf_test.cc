#include "model/vocabulary_from_gguf.h"

#include <gtest/gtest.h>

#include "model/gguf_writer.h"

namespace cellar::model {
namespace {

class VocabularyFromGguf : public testing::Test {
  protected:
    gguf::File parse() {
        bytes_ = writer_.to_bytes().value();
        return gguf::File::parse(bytes_, "test.gguf").value();
    }
    void expect_refused(std::string_view reason) {
        const gguf::File file = parse();
        const auto data = read_vocabulary(file);
        ASSERT_FALSE(data);
        EXPECT_NE(data.error().message.find(reason), std::string::npos) << data.error().message;
    }

    gguf::Writer writer_;
    std::vector<std::byte> bytes_;
};

TEST_F(VocabularyFromGguf, ReadsAllKeys) {
    writer_.add("general.architecture", "phi3");
    writer_.add("general.name", "Phi-3");
    writer_.add("tokenizer.ggml.model", "llama");
    writer_.add("tokenizer.ggml.pre", "default");
    writer_.add_strings("tokenizer.ggml.tokens", {"<unk>", "a", "", "bc"});
    writer_.add_array("tokenizer.ggml.scores", std::vector<float>{0, -1, -2, -3});
    writer_.add_array("tokenizer.ggml.token_type", std::vector<int32_t>{2, 1, 5, 6});
    writer_.add_strings("tokenizer.ggml.merges", {"a b"});
    writer_.add("tokenizer.ggml.bos_token_id", uint32_t{1});
    writer_.add("tokenizer.ggml.eos_token_id", uint32_t{4294967295u});
    writer_.add("tokenizer.ggml.seperator_token_id", int64_t{2});
    writer_.add("tokenizer.ggml.prefix_token_id", uint32_t{2});
    writer_.add("tokenizer.ggml.fim_pre_token_id", uint32_t{3});
    writer_.add("tokenizer.ggml.add_bos_token", false);
    writer_.add("tokenizer.ggml.remove_extra_whitespaces", true);
    writer_.add_array("tokenizer.ggml.precompiled_charsmap", std::vector<uint8_t>{1, 2, 255});
    const gguf::File file = parse();
    ASSERT_TRUE(has_vocabulary(file));
    const text::VocabularyData data = read_vocabulary(file).value();
    EXPECT_EQ(data.model, "llama");
    EXPECT_EQ(data.pre, "default");
    ASSERT_EQ(data.pieces.size(), 4u);
    EXPECT_EQ(data.pieces[3], "bc");
    EXPECT_EQ(data.scores, (std::vector<float>{0, -1, -2, -3}));
    using enum text::TokenType;
    EXPECT_EQ(data.types, (std::vector<text::TokenType>{Unknown, Normal, Unused, Byte}));
    ASSERT_EQ(data.merges.size(), 1u);
    EXPECT_EQ(data.merges[0], "a b");
    EXPECT_EQ(data.bos, 1);
    EXPECT_EQ(data.eos, 4294967295) << "whether an id makes sense is not checked here";
    EXPECT_EQ(data.sep, 2);
    EXPECT_EQ(data.pad, std::nullopt);
    EXPECT_EQ(data.fim_prefix, 3) << "the newer name counts";
    EXPECT_EQ(data.add_bos, false);
    EXPECT_EQ(data.add_eos, std::nullopt);
    EXPECT_EQ(data.add_space_prefix, std::nullopt);
    EXPECT_EQ(data.remove_extra_whitespaces, true);
    EXPECT_EQ(data.precompiled_charsmap, "\x01\x02\xFF");
    EXPECT_EQ(data.architecture, "phi3");
    EXPECT_EQ(data.name, "Phi-3");
}

TEST_F(VocabularyFromGguf, FilesWithoutOne) {
    EXPECT_FALSE(has_vocabulary(parse()));
    writer_.add("tokenizer.ggml.model", "no_vocab");
    EXPECT_FALSE(has_vocabulary(parse()));
    expect_refused("test.gguf: the file has no vocabulary");
}

TEST_F(VocabularyFromGguf, NeedsTokens) {
    writer_.add("tokenizer.ggml.model", "gpt2");
    expect_refused("tokenizer.ggml.tokens");
}

TEST_F(VocabularyFromGguf, RefusesTokenTypesThatAreNone) {
    writer_.add("tokenizer.ggml.model", "gpt2");
    writer_.add_strings("tokenizer.ggml.tokens", {"a"});
    writer_.add_array("tokenizer.ggml.token_type", std::vector<int32_t>{7});
    expect_refused("tokenizer.ggml.token_type");
}

TEST_F(VocabularyFromGguf, RefusesACharsmapThatIsNoBytes) {
    writer_.add("tokenizer.ggml.model", "t5");
    writer_.add_strings("tokenizer.ggml.tokens", {"a"});
    writer_.add("tokenizer.ggml.precompiled_charsmap", "abc");
    expect_refused("must be an array of bytes, but is string");
}

TEST_F(VocabularyFromGguf, RefusesKeysOfAnotherType) {
    writer_.add("tokenizer.ggml.model", uint32_t{3});
    EXPECT_TRUE(has_vocabulary(parse())) << "wrong is not the same as absent";
    expect_refused("tokenizer.ggml.model");
}

}  // namespace
}  // namespace cellar::model
