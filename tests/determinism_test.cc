// Logits depend on tokens, weights and formats; on nothing else.
#include <gtest/gtest.h>

#include "kv/verify.h"
#include "support/engine_case.h"
#include "support/numbers.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

#ifdef CELLAR_REDUCED_TESTS
constexpr size_t kTokens = 220;
#else
constexpr size_t kTokens = 1300;  // more than one segment of 1,024 positions
#endif

struct Case {
    const char* recipe;
    kv::RowFormat k;
    kv::RowFormat v;
};

class Determinism : public testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        options_ = tiny::options();
        options_.formats = {GetParam().k, GetParam().v};
        options_.context = 2048;
        options_.max_seqs = 8;
        options_.cells = 4 * 2048;
        options_.max_outputs = 4;
        model_ = tiny::model(GetParam().recipe);
        ids_ = tiny::tokens(*model_, kTokens);
        expected_ = tiny::fresh_logits(*tiny::engine(model_, options_), ids_);
    }

    EngineOptions options_;
    std::shared_ptr<const model::Model> model_;
    std::vector<int32_t> ids_;
    std::vector<float> expected_;
};

TEST_P(Determinism, ChunkSizeDoesNotMatter) {
    auto engine = tiny::engine(model_, options_);
    for (const size_t chunk : {1, 7, 32, 512}) EXPECT_TRUE(same_bits(tiny::fresh_logits(*engine, ids_, chunk), expected_)) << "chunks of " << chunk;
}

TEST_P(Determinism, ThreadsDoNotMatter) {
    for (const int threads : {1, 2, 3}) {
        options_.threads = threads;
        EXPECT_TRUE(same_bits(tiny::fresh_logits(*tiny::engine(model_, options_), ids_), expected_)) << threads << " threads";
    }
}

// Sequences that grow in turn interleave their blocks, so none of them lies in one piece.
TEST_P(Determinism, WhereTheRowsLieDoesNotMatter) {
    auto engine = tiny::engine(model_, options_);
    kv::Cache& cache = engine->cache();
    std::vector<SeqId> seqs;
    std::vector<std::vector<int32_t>> texts;
    for (uint64_t s = 0; s < 3; ++s) {
        seqs.push_back(*cache.open());
        texts.push_back(s == 1 ? ids_ : tiny::tokens(*model_, kTokens, s + 7));
    }
    std::vector<float> logits;
    for (size_t at = 0; at < kTokens; at += 23) {
        for (size_t s = 0; s < seqs.size(); ++s) {
            const auto result = engine->append(seqs[s], std::span<const int32_t>(texts[s]).subspan(at, std::min<size_t>(23, kTokens - at)));
            ASSERT_TRUE(result) << result.error().message;
            if (s == 1) logits.assign(result->begin(), result->end());
        }
    }
    EXPECT_EQ(kv::verify(cache), "");
    const bool keeps_all = cache.spec().groups[0].keep == kv::Keep::all();
    EXPECT_GT(cache.runs(seqs[1], 0).size(), keeps_all ? kTokens / 40 : 0);
    EXPECT_TRUE(same_bits(logits, expected_));
}

// A token that is run beside tokens of other sequences gets the logits it would get alone.
TEST_P(Determinism, CompanyInTheBatchDoesNotMatter) {
    auto engine = tiny::engine(model_, options_);
    kv::Cache& cache = engine->cache();
    const SeqId mine = *cache.open();
    const SeqId decoding = *cache.open();
    const SeqId reading = *cache.open();
    ASSERT_TRUE(engine->append(mine, std::span<const int32_t>(ids_).first(kTokens - 1)));
    ASSERT_TRUE(engine->append(decoding, tiny::tokens(*model_, 50, 3)));
    const auto token = [&](SeqId seq, int32_t id) { return Token{id, cache.length(seq), 0}; };
    const std::vector<Token> last{token(mine, ids_.back())};
    const std::vector<Token> other{token(decoding, 5)};
    std::vector<Token> prompt;
    for (int32_t i = 0; i < 40; ++i) prompt.push_back({tiny::tokens(*model_, 40, 9)[static_cast<size_t>(i)], i, 0});
    const std::vector<kv::Append> appends{{decoding, other}, {reading, prompt}, {mine, last}};
    const auto logits = engine->step(appends);
    ASSERT_TRUE(logits) << logits.error().message;
    EXPECT_TRUE(same_bits({logits->row(2), logits->row(2) + logits->cols}, expected_));
    EXPECT_TRUE(same_bits({logits->row(1), logits->row(1) + logits->cols},
                          tiny::fresh_logits(*tiny::engine(model_, options_), tiny::tokens(*model_, 40, 9))));
}

// Warm equals cold: whatever was shared or cut, the same tokens give the same bits.
TEST_P(Determinism, AForkAndATrimAnswerLikeAFreshRun) {
    auto engine = tiny::engine(model_, options_);
    kv::Cache& cache = engine->cache();
    const SeqId first = *cache.open();
    ASSERT_TRUE(engine->append(first, ids_));
    for (const int32_t at : {1, 31, 32, 33, 100, static_cast<int32_t>(kTokens) - 1}) {
        const auto fork = cache.fork(first, at);
        ASSERT_TRUE(fork) << fork.error().message;
        const int32_t reached = cache.length(*fork);
        ASSERT_LE(reached, at);
        ASSERT_TRUE(engine->append(*fork, tiny::tokens(*model_, 37, 11)));
        EXPECT_EQ(cache.trim(*fork, reached), reached);
        const auto logits = engine->append(*fork, std::span<const int32_t>(ids_).subspan(static_cast<size_t>(reached)));
        ASSERT_TRUE(logits) << logits.error().message;
        EXPECT_TRUE(same_bits({logits->begin(), logits->end()}, expected_)) << "forked at " << at;
        EXPECT_EQ(kv::verify(cache), "");
        cache.close(*fork);
    }
}

std::vector<Case> cases() {
    using enum kv::RowFormat;
    return {{"qwen3-hd64", F32, F32}, {"qwen3-hd64", F16, F16}, {"qwen3-hd64", BF16, BF16}, {"qwen3-hd80", Q8_0, Q8_0},
            {"llama", Q8_0, F16},     {"llama-moe", F16, Q8_0}, {"olmo2", F16, F16},        {"olmo2", Q8_0, Q8_0}};
}

INSTANTIATE_TEST_SUITE_P(Formats, Determinism, testing::ValuesIn(cases()), [](const auto& info) {
    return case_name(info.param.recipe, {info.param.k, info.param.v});
});

}  // namespace
}  // namespace cellar
