#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "kv/cache_model_inl.h"

namespace cellar::kv {
namespace {

struct Mix {
    const char* name;
    std::vector<Keep> keeps;
};

const std::vector<Mix>& mixes() {
    static const std::vector<Mix> all = {
        {"All", {Keep::all()}},
        {"AllWindows", {Keep::all(), Keep::window(64), Keep::window(16)}},
        {"Chunk", {Keep::chunk(48)}},
        {"AllChunk", {Keep::chunk(32), Keep::all()}},
        {"Sinks", {Keep::window(20, 4), Keep::all()}},
        {"OneWindow", {Keep::window(1)}},
    };
    return all;
}

#ifdef CELLAR_REDUCED_TESTS
constexpr size_t choices_of_a_run = 1000;
constexpr int shrinking_runs = 15;
#else
constexpr size_t choices_of_a_run = 3000;
constexpr int shrinking_runs = 100;
#endif

class RandomOperations : public testing::TestWithParam<std::tuple<size_t, int>> {};

CacheLimits small(int block, int64_t blocks) {
    CacheLimits limits;
    limits.context = 300;
    limits.cells = blocks * block;
    limits.block = block;
    limits.max_seqs = 6;
    limits.max_step_tokens = 120;
    limits.poison = true;
    return limits;
}

TEST_P(RandomOperations, MatchAPlainModel) {
    const auto [mix, block] = GetParam();
    ScenarioCounts sum;
    for (uint64_t seed = 1; seed <= 2; ++seed) {
        // A pool for about one and a half contexts, so that it is often full; the second run meets a budget as well.
        Scenario scenario{mixes()[mix].keeps, small(block, 450 / block)};
        if (seed == 2) {
            const auto probe = Cache::make(model_spec(scenario.keeps), scenario.limits);
            ASSERT_TRUE(probe);
            const CacheStats stats = (*probe)->stats();
            scenario.limits.budget_bytes =
                stats.table_bytes + 12 * stats.log.block_bytes + static_cast<size_t>(300 / block) * stats.groups[0].block_bytes;
        }
        std::mt19937_64 random(seed);
        std::vector<uint32_t> choices(choices_of_a_run);
        for (uint32_t& choice : choices) choice = static_cast<uint32_t>(random());
        ScenarioCounts counts;
        EXPECT_EQ(run_scenario(scenario, choices, &counts), "") << mixes()[mix].name << " seed " << seed;
        sum.full += counts.full;
        sum.forks += counts.forks;
        sum.tokens += counts.tokens;
        sum.shifts += counts.shifts;
        sum.abandoned += counts.abandoned;
        sum.bakes += counts.bakes;
        sum.compacts += counts.compacts;
        sum.refused_shifts += counts.refused_shifts;
    }
    // A run that never meets these shows nothing.
    EXPECT_GT(sum.full, 0);
    EXPECT_GT(sum.forks, 3);
    EXPECT_GT(sum.shifts, 1);
    EXPECT_GT(sum.abandoned, 1);
    EXPECT_GT(sum.bakes, 1);
    EXPECT_GT(sum.compacts, 1);
    EXPECT_GT(sum.tokens, 500);
    const bool slides = std::any_of(mixes()[mix].keeps.begin(), mixes()[mix].keeps.end(),
                                    [](const Keep& keep) { return keep.kind != Keep::Kind::All && keep.size > 1; });
    EXPECT_EQ(sum.refused_shifts > 0, slides);
}

INSTANTIATE_TEST_SUITE_P(Mixes, RandomOperations, testing::Combine(testing::Range<size_t>(0, 6), testing::Values(16, 32, 64)),
                         [](const auto& info) { return fmt::format("{}_{}", mixes()[std::get<0>(info.param)].name, std::get<1>(info.param)); });

TEST(RandomOperationsShrinking, MatchAPlainModel) {
    rc::detail::TestParams params;
    params.maxSuccess = shrinking_runs;
    params.maxSize = 400;
    const auto result = rc::detail::checkTestable(
        [] {
            const Mix& mix = mixes()[*rc::gen::inRange<size_t>(0, mixes().size())];
            const int block = *rc::gen::element(16, 32, 64);
            const auto choices = *rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange<uint32_t>(0, 1000));
            RC_ASSERT(run_scenario({mix.keeps, small(block, 450 / block)}, choices) == "");
        },
        rc::detail::TestMetadata{}, params);
    std::ostringstream message;
    rc::detail::printResultMessage(result, message);
    EXPECT_TRUE(result.template is<rc::detail::SuccessResult>()) << message.str();
}

}  // namespace
}  // namespace cellar::kv
