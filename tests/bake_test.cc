// A shift is done by turns, and a bake works the turns into the rows: what that costs in each format, and that nothing else changes.
#include <gtest/gtest.h>

#include "engine/bake.h"
#include "kv/verify.h"
#include "ops/row_store.h"
#include "support/engine_case.h"
#include "support/numbers.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

constexpr int32_t kTokens = 240;

// NMSE of logits behind a baked sequence, against the turned one. docs/kv.md names these numbers.
double allowed_once(kv::RowFormat format) {
    switch (format) {
        case kv::RowFormat::F32:
            return 1e-12;
        case kv::RowFormat::F16:
            return 2e-8;
        case kv::RowFormat::BF16:
            return 1e-6;
        case kv::RowFormat::Q8_0:
            return 3e-5;
    }
    return 0.0;
}

// Worse than fifty times that: a turn by one position moves slow pairs by less than a step of the format, and is lost each time.
double allowed_after_fifty(kv::RowFormat format) {
    switch (format) {
        case kv::RowFormat::F32:
            return 1e-12;
        case kv::RowFormat::F16:
            return 2e-5;
        case kv::RowFormat::BF16:
            return 5e-4;
        case kv::RowFormat::Q8_0:
            return 3e-3;
    }
    return 0.0;
}

// NMSE of keys that were rounded twice on the way: once when they were written and once when they were baked.
double allowed_in_keys(kv::RowFormat format) {
    switch (format) {
        case kv::RowFormat::F32:
            return 1e-12;
        case kv::RowFormat::F16:
            return 0x1p-20;
        case kv::RowFormat::BF16:
            return 0x1p-14;
        case kv::RowFormat::Q8_0:
            return 2e-4;
    }
    return 0.0;
}

class Bakes : public EngineCases {
  protected:
    void SetUp() override {
        EngineCases::SetUp();
        ids_.resize(kTokens);
    }
    kv::Cache& cache() { return engine_->cache(); }
    SeqId shifted(Engine& engine) {
        const SeqId seq = read(engine, ids_);
        EXPECT_TRUE(engine.cache().remove_and_shift(seq, {100, 150}));
        return seq;
    }
    // Behind a fork, so that the sequence stays what it is.
    std::vector<float> next_logits(SeqId seq) {
        const SeqId fork = *cache().fork(seq, cache().length(seq));
        const auto logits = engine_->append(fork, std::vector<int32_t>{1, 2, 3});
        EXPECT_TRUE(logits);
        std::vector<float> out(logits->begin(), logits->end());
        cache().close(fork);
        return out;
    }
    bool is_turned(SeqId seq) {
        for (size_t g = 0; g < cache().spec().groups.size(); ++g)
            for (const kv::Run& run : cache().runs(seq, static_cast<int>(g)))
                if (run.turn != 0) return true;
        return false;
    }
    // All rows in position order, as they lie.
    std::vector<std::byte> bytes(SeqId seq) {
        std::vector<std::byte> out;
        for (size_t g = 0; g < cache().spec().groups.size(); ++g)
            for (const kv::RowTable& row : cache().rows(static_cast<int>(g)))
                for (int plane = 0; plane < cache().spec().groups[g].planes; ++plane)
                    for (int head = 0; head < row.heads; ++head)
                        for (const kv::Run& run : cache().runs(seq, static_cast<int>(g))) {
                            const std::byte* first = row.at(plane, head, run.cell);
                            out.insert(out.end(), first, first + static_cast<size_t>(run.len) * row.row_bytes);
                        }
        return out;
    }
    // Keys of the first layer, which depend on nothing but the token and its place.
    static std::vector<float> first_keys(Engine& engine, SeqId seq) {
        const kv::LayerPlace place = engine.cache().spec().layers[0];
        const kv::RowTable& row = engine.cache().rows(place.group)[0];
        std::vector<float> out;
        std::vector<float> values(static_cast<size_t>(row.width));
        for (const kv::Run& run : engine.cache().runs(seq, place.group)) {
            for (int32_t i = 0; i < run.len; ++i) {
                for (int head = 0; head < row.heads; ++head) {
                    ops::decode_head_row(row.format, row.at(place.plane, head, run.cell + i), row.width, values.data());
                    out.insert(out.end(), values.begin(), values.end());
                }
            }
        }
        return out;
    }
};

TEST_P(Bakes, AnswersAsTheTurnedSequenceDoes) {
    const SeqId seq = shifted(*engine_);
    const std::vector<float> turned = next_logits(seq);
    const auto baked = bake(*engine_, seq);
    ASSERT_TRUE(baked) << baked.error().message;
    EXPECT_GE(baked->cells, kTokens - 150);
    EXPECT_FALSE(is_turned(seq));
    EXPECT_EQ(cache().length(seq), kTokens - 50);
    EXPECT_EQ(cache().pure(seq), 100);
    EXPECT_EQ(kv::verify(cache()), "");
    const double error = nmse(next_logits(seq), turned);
    RecordProperty("nmse", fmt::format("{:.1e}", error));
    EXPECT_LE(error, allowed_once(GetParam().format));
    // There is nothing left to do.
    const auto again = bake(*engine_, seq);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->cells, 0);
}

TEST_P(Bakes, KeysOfTheFirstLayerAreThoseOfAFreshRun) {
    const SeqId seq = shifted(*engine_);
    ASSERT_TRUE(bake(*engine_, seq));
    std::vector<int32_t> rest(ids_);
    rest.erase(rest.begin() + 100, rest.begin() + 150);
    const std::vector<float> fresh = first_keys(*engine_, read(*engine_, rest));
    const std::vector<float> baked = first_keys(*engine_, seq);
    ASSERT_EQ(baked.size(), fresh.size());
    EXPECT_LE(nmse(baked, fresh), allowed_in_keys(GetParam().format));
}

TEST_P(Bakes, ShiftsByTurnsDoNotDrift) {
    const SeqId often = read(*engine_, ids_);
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(cache().remove_and_shift(often, {100, 101}));
    const SeqId once = shifted(*engine_);
    EXPECT_EQ(next_logits(often), next_logits(once)) << "fifty shifts are not the same as one";
    EXPECT_EQ(kv::verify(cache()), "");
}

TEST_P(Bakes, FiftyBakesStayClose) {
    const SeqId seq = read(*engine_, ids_);
    for (int i = 0; i < 50; ++i) {
        ASSERT_TRUE(cache().remove_and_shift(seq, {100, 101}));
        ASSERT_TRUE(bake(*engine_, seq));
    }
    const double error = nmse(next_logits(seq), next_logits(shifted(*engine_)));
    RecordProperty("nmse", fmt::format("{:.1e}", error));
    EXPECT_LE(error, allowed_after_fifty(GetParam().format));
    EXPECT_EQ(kv::verify(cache()), "");
}

TEST_P(Bakes, AForkKeepsItsTurnsAndItsBits) {
    const SeqId seq = shifted(*engine_);
    const SeqId fork = *cache().fork(seq, cache().length(seq));
    const std::vector<float> before = next_logits(fork);
    const std::vector<std::byte> rows = bytes(fork);
    ASSERT_TRUE(bake(*engine_, seq));
    EXPECT_TRUE(is_turned(fork));
    EXPECT_EQ(bytes(fork), rows);
    EXPECT_EQ(next_logits(fork), before);
}

TEST_P(Bakes, ACancelledBakeChangesNothing) {
    const SeqId seq = shifted(*engine_);
    const std::vector<float> before = next_logits(seq);
    const std::vector<std::byte> rows = bytes(seq);
    const size_t ledger = cache().ledger_bytes();
    // Before the first layer, and behind each but the last.
    int64_t planes = 0;
    for (const kv::GroupSpec& group : cache().spec().groups) planes += group.planes;
    for (int64_t behind = 0; behind < planes; ++behind) {
        SCOPED_TRACE(behind);
        Cancel cancel{behind == 0};
        const auto baked = bake(*engine_, seq, &cancel, [&](int64_t done, int64_t total) {
            EXPECT_EQ(total, planes);
            cancel.store(done == behind);
        });
        ASSERT_FALSE(baked);
        EXPECT_EQ(baked.error().kind, ErrorKind::Cancelled);
        EXPECT_EQ(kv::verify(cache()), "");
        EXPECT_EQ(cache().ledger_bytes(), ledger);
        EXPECT_EQ(bytes(seq), rows);
        EXPECT_EQ(next_logits(seq), before);
    }
    Cancel late{false};
    EXPECT_TRUE(bake(*engine_, seq, &late, [&](int64_t done, int64_t total) { late.store(done == total); })) << "all is done by then";
}

TEST_P(Bakes, IsFullBeforeTheFirstRowMoves) {
    options_.cells = kTokens + 32;  // the rows behind the gap do not fit beside those that are there
    options_.context = kTokens;
    engine_ = tiny::engine(model_, options_);
    const SeqId seq = shifted(*engine_);
    const std::vector<std::byte> rows = bytes(seq);
    const size_t ledger = cache().ledger_bytes();
    const auto baked = bake(*engine_, seq);
    ASSERT_FALSE(baked);
    EXPECT_EQ(baked.error().kind, ErrorKind::Full) << baked.error().message;
    EXPECT_EQ(kv::verify(cache()), "");
    EXPECT_EQ(cache().ledger_bytes(), ledger);
    EXPECT_EQ(bytes(seq), rows);
}

// Different ways of rotating: neighbours, halves, a part of each head, layers without positions.
INSTANTIATE_TEST_SUITE_P(Models, Bakes,
                         testing::Values(EngineCase{"llama", kv::RowFormat::F32}, EngineCase{"llama", kv::RowFormat::F16},
                                         EngineCase{"llama", kv::RowFormat::BF16}, EngineCase{"llama", kv::RowFormat::Q8_0},
                                         EngineCase{"qwen3-hd80", kv::RowFormat::F32}, EngineCase{"qwen3-hd64", kv::RowFormat::F16},
                                         EngineCase{"qwen3-hd80", kv::RowFormat::Q8_0}, EngineCase{"stablelm", kv::RowFormat::BF16},
                                         EngineCase{"smollm3", kv::RowFormat::Q8_0}),
                         EngineCase::name);

}  // namespace
}  // namespace cellar
