#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/ranges.h>

#include "kv/cache_soak_inl.h"

namespace cellar::kv {
namespace {

#ifdef CELLAR_REDUCED_TESTS
constexpr size_t operations = 400;
constexpr uint64_t seeds = 6;
constexpr int64_t soak_operations = 8'000;
#else
constexpr size_t operations = 1500;
constexpr uint64_t seeds = 3;
constexpr int64_t soak_operations = 100'000;
#endif

class RandomOperations : public testing::TestWithParam<std::tuple<size_t, int>> {};

TEST_P(RandomOperations, MatchAPlainModel) {
    const auto [mix, block] = GetParam();
    RunCounts sum;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
        // A pool for about one and a half contexts, so that it is often full; every second of three runs meets a budget as well, the third has room.
        const Scenario limits = scenario(mix, block, seed % 3 == 0 ? 1800 : 450, seed % 3 == 2);
        RunCounts counts;
        EXPECT_EQ(run(limits, random_program(seed, operations), &counts), "") << "seed " << seed;
        for (int64_t RunCounts::*count :
             {&RunCounts::full, &RunCounts::forks, &RunCounts::tokens, &RunCounts::shifts, &RunCounts::abandoned, &RunCounts::bakes, &RunCounts::kept,
              &RunCounts::compacts, &RunCounts::refused_shifts, &RunCounts::hits, &RunCounts::reused, &RunCounts::evicted, &RunCounts::loaded})
            sum.*count += counts.*count;
    }
    // A run that never meets these shows nothing.
    EXPECT_GT(sum.full, 0);
    EXPECT_GT(sum.forks, 10);
    EXPECT_GT(sum.shifts, 5);
    EXPECT_GT(sum.abandoned, 5);
    EXPECT_GT(sum.bakes, 5);
    EXPECT_GT(sum.compacts, 2);
    EXPECT_GT(sum.tokens, 1000);
    EXPECT_GT(sum.hits, 50);
    EXPECT_GT(sum.reused, 200);
    EXPECT_GT(sum.evicted, 2);
    EXPECT_GT(sum.loaded, 2);
    const auto& keeps = scenario_mixes()[mix];
    const bool slides = std::any_of(keeps.begin(), keeps.end(), [](const Keep& keep) { return keep.kind != Keep::Kind::All && keep.size > 1; });
    EXPECT_EQ(sum.refused_shifts > 0, slides);
}

std::string name_of(const testing::TestParamInfo<std::tuple<size_t, int>>& info) {
    static const char* const names[] = {"All", "AllWindows", "Chunk", "AllChunk", "Sinks", "OneWindow", "SinksChunk"};
    return fmt::format("{}_{}", names[std::get<0>(info.param)], std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Mixes, RandomOperations, testing::Combine(testing::Range<size_t>(0, 7), testing::Values(16, 32, 64)), name_of);

// The ledger returns to its start, no block is left over, and memory does not creep.
TEST(CacheSoak, AHundredThousandOperationsLeaveNothingBehind) {
    const Soak done = soak(scenario(1, 32, 3000, true), soak_operations, 11);
    EXPECT_EQ(done.wrong, "");
#ifndef CELLAR_REDUCED_TESTS
    // Sanitizers keep what was freed.
    ASSERT_EQ(done.resident.size(), 10U);
    for (const auto& bytes : {done.resident, done.heap})
        EXPECT_LE(static_cast<double>(*std::max_element(bytes.begin(), bytes.end())), 1.02 * static_cast<double>(bytes[0]))
            << fmt::format("{}", fmt::join(bytes, " "));
#endif
}

TEST(CacheProgram, IsReadAsItWasWritten) {
    const Program program = random_program(7, 300);
    Program again;
    ASSERT_TRUE(parse("# a comment\n\n" + text(program), again));
    EXPECT_EQ(again, program);
    for (const char* wrong : {"append 1 2", "jump 1 2 3", "append x 2 3"}) {
        Program none;
        EXPECT_FALSE(parse(wrong, none)) << wrong;
    }
}

TEST(CacheProgram, EveryOperationComes) {
    std::vector<int> seen(op_names.size());
    for (const Op& op : random_program(1, 5000)) ++seen[static_cast<size_t>(op.kind)];
    for (size_t k = 0; k < seen.size(); ++k) EXPECT_GT(seen[k], 10) << op_names[k];
}

// Fails where a long trim comes anywhere behind a fork.
TEST(CacheProgram, ShrinksToWhatFails) {
    const auto fails = [](const Program& program) {
        bool forked = false;
        for (const Op& op : program) {
            forked = forked || op.kind == OpKind::Fork;
            if (forked && op.kind == OpKind::Trim && op.b > 100) return true;
        }
        return false;
    };
    const Program program = random_program(3, 500);
    ASSERT_TRUE(fails(program));
    const Program small = shrink(program, fails);
    ASSERT_EQ(small.size(), 2U);
    EXPECT_EQ(small[0], (Op{OpKind::Fork, 0, 0, 0}));
    EXPECT_EQ(small[1].kind, OpKind::Trim);
    EXPECT_TRUE(small[1].a == 0 && small[1].c == 0 && small[1].b > 100 && small[1].b < 220) << text(small);
}

}  // namespace
}  // namespace cellar::kv
