// Vocabularies of real models against recorded ids: shared/tokenizers holds NAME.gguf, NAME.gguf.inp (texts between separator
// lines) and NAME.gguf.out (one line of ids for each text, without BOS and EOS, special tokens not parsed).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "model/gguf.h"
#include "model/vocabulary_from_gguf.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace cellar {
namespace {

const std::filesystem::path kFolder = CELLAR_SOURCE_DIR "/../shared/tokenizers";

std::string read_file(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> read_texts(const std::filesystem::path& path) {
    const std::string separator = "\n__ggml_vocab_test__\n";
    const std::string all = read_file(path);
    std::vector<std::string> texts;
    size_t begin = 0;
    for (size_t at; (at = all.find(separator, begin)) != std::string::npos; begin = at + separator.size())
        texts.push_back(all.substr(begin, at - begin));
    return texts;
}

std::vector<std::vector<int32_t>> read_ids(const std::filesystem::path& path) {
    std::istringstream lines(read_file(path));
    std::vector<std::vector<int32_t>> all;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream numbers(line);
        all.emplace_back(std::istream_iterator<int32_t>(numbers), std::istream_iterator<int32_t>());
    }
    return all;
}

std::vector<std::filesystem::path> vocabularies() {
    std::vector<std::filesystem::path> paths;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder, error)) {
        if (entry.path().extension() == ".gguf") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

class TokenizerGolden : public testing::TestWithParam<std::string> {
  protected:
    void SetUp() override {
        const std::filesystem::path path = kFolder / (GetParam() + ".gguf");
        if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here: the recorded vocabularies are not part of the repository";
        auto file = gguf::File::open(path.string());
        ASSERT_TRUE(file) << file.error().message;
        ASSERT_TRUE(model::has_vocabulary(*file));
        auto data = model::read_vocabulary(*file);
        ASSERT_TRUE(data) << data.error().message;
        auto made = text::Tokenizer::make(std::move(*data));
        ASSERT_TRUE(made) << made.error().message;
        tokenizer_ = std::move(*made);
        texts_ = read_texts(path.string() + ".inp");
        ids_ = read_ids(path.string() + ".out");
        ASSERT_EQ(texts_.size(), ids_.size());
        ASSERT_GE(texts_.size(), 46u);
    }

    std::unique_ptr<text::Tokenizer> tokenizer_;
    std::vector<std::string> texts_;
    std::vector<std::vector<int32_t>> ids_;
};

TEST_P(TokenizerGolden, EncodesEveryText) {
    for (size_t i = 0; i < texts_.size(); ++i) {
        EXPECT_EQ(tokenizer_->encode(texts_[i], {.add_special = false}), ids_[i]) << "text " << i << ": '" << texts_[i] << "'";
    }
}

TEST_P(TokenizerGolden, DecodesEveryText) {
    for (size_t i = 0; i < texts_.size(); ++i) EXPECT_EQ(tokenizer_->decode(ids_[i]), texts_[i]) << "text " << i;
}

TEST_P(TokenizerGolden, EndOfSequenceEndsGeneration) {
    ASSERT_TRUE(tokenizer_->eos());
    EXPECT_TRUE(tokenizer_->is_end_of_generation(*tokenizer_->eos()));
    EXPECT_EQ(tokenizer_->decode(*tokenizer_->eos()), "");
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerGolden,
                         testing::Values("ggml-vocab-deepseek-llm", "ggml-vocab-falcon", "ggml-vocab-gpt-2", "ggml-vocab-llama-bpe",
                                         "ggml-vocab-llama-spm", "ggml-vocab-phi-3", "ggml-vocab-qwen2", "ggml-vocab-starcoder"),
                         [](const auto& info) {
                             std::string name = info.param.substr(11);
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(TokenizerGoldenFolder, HasNoOtherFiles) {
    const auto paths = vocabularies();
    if (paths.empty()) GTEST_SKIP() << kFolder << " is not here";
    EXPECT_EQ(paths.size(), 8u) << "a recorded vocabulary that no test reads";
}

}  // namespace
}  // namespace cellar
