// The memory limit holds: one ledger for live cells, kept prefixes, tables and transients.
#include <gtest/gtest.h>

#include "base/memory.h"
#include "engine/conversation.h"
#include "kv/verify.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

// An engine whose cache may take this many bytes beside the transients.
std::unique_ptr<Engine> engine_with(const std::shared_ptr<const model::Model>& model, size_t cache_bytes, EngineOptions options) {
    const size_t transients = tiny::engine(model, options)->transient_bytes();
    options.budget_bytes = transients + cache_bytes;
    auto engine = tiny::engine(model, options);
    EXPECT_EQ(engine->budget_bytes(), options.budget_bytes);
    return engine;
}

class EngineBudget : public testing::TestWithParam<kv::RowFormat> {
  protected:
    void SetUp() override {
        model_ = tiny::model("llama");
        options_ = tiny::options(GetParam());
        options_.context = 1024;
    }
    std::shared_ptr<const model::Model> model_;
    EngineOptions options_;
};

TEST_P(EngineBudget, TheLedgerNeverExceedsIt) {
    const size_t cell = tiny::engine(model_, options_)->cache().spec().bytes_per_token();
    auto engine = engine_with(model_, 600 * cell + (size_t{128} << 10), options_);
    GenerateOptions generation;
    generation.max_tokens = 20;
    generation.ignore_end = true;
    const auto watch = [&](int64_t, int64_t) { ASSERT_LE(engine->ledger_bytes(), engine->budget_bytes()); };
    for (uint64_t i = 0; i < 30; ++i) {
        const SeqId seq = *engine->cache().open();
        const auto answer = generate(*engine, seq, tiny::tokens(*model_, 100 + 10 * i, i), generation, {}, nullptr, watch);
        ASSERT_TRUE(answer) << answer.error().message;
        EXPECT_EQ(answer->tokens.size(), 20U) << answer->full;
        ASSERT_LE(engine->ledger_bytes(), engine->budget_bytes());
        EXPECT_EQ(kv::verify(engine->cache()), "");
        EXPECT_EQ(kv::verify(engine->index()), "");
        engine->cache().close(seq);
    }
    EXPECT_GT(engine->index().stats().tokens, 100) << "what there is room for is kept";
    // More than there is room for is refused, and others go on.
    const SeqId large = *engine->cache().open();
    const auto refused = engine->append(large, tiny::tokens(*model_, 1000));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Full);
    ASSERT_LE(engine->ledger_bytes(), engine->budget_bytes());
    engine->cache().close(large);
    EXPECT_TRUE(generate(*engine, *engine->cache().open(), tiny::tokens(*model_, 200, 99), generation));
}

TEST_P(EngineBudget, TheEstimateIsTheLedgerByteForByte) {
    options_.chunk = 64;
    for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{1}, {32}, {33}, {700}, {100, 1, 1024}}) {
        auto engine = tiny::engine(model_, options_);
        const auto estimate = engine->estimate(lengths);
        ASSERT_TRUE(estimate) << estimate.error().message;
        for (const int64_t length : lengths) ASSERT_TRUE(engine->append(*engine->cache().open(), tiny::tokens(*model_, static_cast<size_t>(length))));
        EXPECT_EQ(engine->ledger_bytes(), *estimate);
    }
}

TEST_P(EngineBudget, WhatIsLetGoLeavesTheLedgerWhereItWas) {
    auto engine = tiny::engine(model_, options_);
    const size_t before = engine->ledger_bytes();
    for (uint64_t i = 0; i < 20; ++i) {
        const SeqId seq = *engine->cache().open();
        ASSERT_TRUE(engine->append(seq, tiny::tokens(*model_, 150, i)));
        EXPECT_EQ(engine->keep(seq), 150);
        engine->cache().close(seq);
    }
    EXPECT_GT(engine->ledger_bytes(), before);
    engine->index().clear();
    EXPECT_EQ(engine->ledger_bytes(), before);
}

#if !defined(CELLAR_REDUCED_TESTS)  // sanitizers keep memory of their own
TEST_P(EngineBudget, ResidentMemoryStaysWithinTheLedger) {
    options_.poison = false;
    options_.context = 8192;
    tiny::fresh_logits(*tiny::engine(model_, options_), tiny::tokens(*model_, 600));  // what the process takes once
    const auto before = static_cast<int64_t>(resident_bytes());
    auto engine = tiny::engine(model_, options_);
    for (uint64_t i = 0; i < 20; ++i) {
        const SeqId seq = *engine->cache().open();
        ASSERT_TRUE(engine->append(seq, tiny::tokens(*model_, 3000, i)));
        engine->keep(seq);
        engine->cache().close(seq);
    }
    const auto grown = static_cast<int64_t>(resident_bytes()) - before;
    int64_t rows = 0;
    for (const kv::GroupSpec& group : engine->cache().spec().groups)
        for (const kv::RowSpec& row : group.rows) rows += int64_t{group.planes} * row.heads;
    // A page at each end of each row, and lists, graphs and the like.
    EXPECT_LE(grown, static_cast<int64_t>(engine->ledger_bytes()) + rows * 2 * 4096 + (int64_t{2} << 20));
    EXPECT_GT(engine->cache().ledger_bytes(), size_t{8} << 20) << "enough to be seen";
}
#endif

INSTANTIATE_TEST_SUITE_P(Formats, EngineBudget, testing::Values(kv::RowFormat::F32, kv::RowFormat::F16, kv::RowFormat::Q8_0),
                         [](const auto& info) { return std::string(kv::name(info.param)); });

// Whatever the length of a step; were one to need more than the longest, the cache would have less.
TEST(EngineBudgetSteps, NoLengthOfAStepExceedsIt) {
    for (const char* recipe : {"llama", "llama-moe", "olmo2", "qwen3-hd80"}) {
        const auto model = tiny::model(recipe);
        for (const int chunk : {37, 64, 130}) {
            EngineOptions options = tiny::options();
            options.context = 256;
            options.chunk = chunk;
            options.threads = 3;
            const size_t cell = tiny::engine(model, options)->cache().spec().bytes_per_token();
            auto engine = engine_with(model, 400 * cell + (size_t{192} << 10), options);
            for (int round = 0; round < 2; ++round) {
                for (int length = 1; length <= chunk; ++length) {
                    const SeqId seq = *engine->cache().open();
                    const auto done = engine->append(seq, tiny::tokens(*model, static_cast<size_t>(length), static_cast<uint64_t>(length)));
                    ASSERT_TRUE(done) << done.error().message;
                    ASSERT_LE(engine->ledger_bytes(), engine->budget_bytes()) << recipe << ", " << length << " of " << chunk;
                    ASSERT_EQ(kv::verify(engine->cache()), "");
                    engine->keep(seq);
                    engine->cache().close(seq);
                }
            }
        }
    }
}

TEST(EngineBudgetNotes, TheBudgetIsSaidAtTheStart) {
    EngineOptions options = tiny::options();
    options.context = 512;
    auto engine = tiny::engine(tiny::model("llama"), options);
    EXPECT_NE(engine->budget_summary().find("(automatic)"), std::string::npos) << engine->budget_summary();
    options.budget_bytes = 1000;
    const auto refused = Engine::make(tiny::model("llama"), options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Full);
}

}  // namespace
}  // namespace cellar
