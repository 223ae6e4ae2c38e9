// The memory limit holds: one ledger for live cells, kept prefixes, tables and transients.
#include <gtest/gtest.h>

#include <optional>

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

// A model and a step of `outputs` sequences, a token each, that needs more workspace than the longest step and all that read one sequence.
struct Growing {
    std::shared_ptr<const model::Model> model;
    EngineOptions options;
    size_t more = 0;
};

std::optional<Growing> find_growing() {
    for (const char* recipe : {"qwen3moe", "minimax-m2", "llama", "mixtral"}) {
        for (int chunk = 4; chunk < 24; ++chunk) {
            Growing out{tiny::model(recipe), tiny::options(), 0};
            out.options.context = 64;
            out.options.cells = 4 * 64;
            out.options.max_seqs = 4;
            out.options.max_outputs = 4;
            out.options.chunk = chunk;
            auto engine = tiny::engine(out.model, out.options);
            const auto needs = [&](int32_t tokens, int32_t outputs) { return engine->graph({tokens, outputs}).workspace_bytes; };
            const size_t longest = needs(chunk, 4);
            bool others = needs(4, 4) <= longest;
            for (int t = 1; t <= chunk; ++t) others = others || needs(t, 0) > longest || needs(t, 1) > longest;
            if (others) continue;
            out.more = needs(4, 4) - longest;
            return out;
        }
    }
    return std::nullopt;
}

// Four sequences whose next tokens fit their blocks, in a budget that holds just these.
class WorkspaceBudget : public testing::Test {
  protected:
    void SetUp() override {
        const auto found = find_growing();
        ASSERT_TRUE(found) << "every step needs at most what the longest one does: find another model";
        growing_ = *found;
        const auto probe = tiny::engine(growing_.model, growing_.options);
        const kv::CacheStats stats = probe->cache().stats();
        EngineOptions options = growing_.options;
        options.budget_bytes = probe->transient_bytes() + stats.table_bytes + 4 * stats.log.block_bytes;
        for (const kv::GroupStats& group : stats.groups) options.budget_bytes += 8 * group.block_bytes;
        engine_ = tiny::engine(growing_.model, options);
        for (uint64_t i = 0; i < 4; ++i) seqs_.push_back(read(*engine_, 63, i));
        ASSERT_EQ(engine_->ledger_bytes(), engine_->budget_bytes());
        transients_ = engine_->transient_bytes();
    }
    SeqId read(Engine& engine, size_t tokens, uint64_t seed) {
        const SeqId seq = *engine.cache().open();
        const auto done = engine.append(seq, tiny::tokens(*growing_.model, tokens, seed));
        EXPECT_TRUE(done) << done.error().message;
        return seq;
    }
    // A token each.
    Result<std::vector<float>> step(Engine& engine, const std::vector<SeqId>& seqs) {
        std::vector<Token> tokens;
        std::vector<kv::Append> appends;
        for (const SeqId seq : seqs) tokens.push_back({7, engine.cache().length(seq), 0});
        for (size_t i = 0; i < seqs.size(); ++i) appends.push_back({seqs[i], std::span(tokens).subspan(i, 1)});
        CELLAR_TRY(const ops::Mat logits, engine.step(appends));
        std::vector<float> out;
        for (int64_t i = 0; i < logits.rows; ++i) out.insert(out.end(), logits.row(i), logits.row(i) + logits.cols);
        return out;
    }
    // What an engine without such a budget says behind the first three sequences and a fresh one of 5 tokens.
    std::vector<float> expected() {
        auto engine = tiny::engine(growing_.model, growing_.options);
        std::vector<SeqId> seqs;
        for (uint64_t i = 0; i < 3; ++i) seqs.push_back(read(*engine, 63, i));
        seqs.push_back(read(*engine, 5, 99));
        return *step(*engine, seqs);
    }
    void check() {
        EXPECT_EQ(kv::verify(engine_->cache()), "");
        EXPECT_LE(engine_->ledger_bytes(), engine_->budget_bytes());
    }

    Growing growing_;
    std::unique_ptr<Engine> engine_;
    std::vector<SeqId> seqs_;
    size_t transients_ = 0;
};

TEST_F(WorkspaceBudget, IsFullWhereLiveSequencesHaveIt) {
    const auto refused = step(*engine_, seqs_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Full);
    EXPECT_NE(refused.error().message.find("a step of 4 tokens needs"), std::string::npos) << refused.error().message;
    for (const SeqId seq : seqs_) EXPECT_EQ(engine_->cache().length(seq), 63);
    EXPECT_EQ(engine_->transient_bytes(), transients_);
    check();
    // As soon as one of them lets go, it is there.
    engine_->cache().close(seqs_.back());
    seqs_.back() = read(*engine_, 5, 99);
    const auto done = step(*engine_, seqs_);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(*done, expected());
    EXPECT_EQ(engine_->transient_bytes(), transients_ + growing_.more);
    check();
    // It is taken once.
    ASSERT_TRUE(step(*engine_, {seqs_[3]}));
    EXPECT_EQ(engine_->transient_bytes(), transients_ + growing_.more);
    check();
}

TEST_F(WorkspaceBudget, IsTakenFromWhatIsKept) {
    engine_->keep(seqs_.back());
    engine_->cache().close(seqs_.back());
    EXPECT_GT(engine_->index().stats().edges, 0);
    seqs_.back() = *engine_->cache().open();
    const auto done = step(*engine_, seqs_);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(engine_->index().stats().edges, 0);
    EXPECT_EQ(engine_->transient_bytes(), transients_ + growing_.more);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(engine_->cache().length(seqs_[i]), 64);
    check();
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
