#include "engine/prefill_meter.h"

#include <gtest/gtest.h>

namespace cellar {
namespace {

double seconds(const kv::PrefillCost& truth, int32_t from, int32_t to) {
    return truth.seconds(from, to);
}

TEST(PrefillMeter, FindsTheCostOfTokensAndOfPairs) {
    const kv::PrefillCost truth{2e-3, 3e-7};
    PrefillMeter meter;
    EXPECT_FALSE(meter.has_measured());
    EXPECT_EQ(meter.cost().seconds_per_token, kv::PrefillCost{}.seconds_per_token);
    for (int32_t from = 0; from < 8192; from += 512) meter.add(from, from + 512, seconds(truth, from, from + 512));
    EXPECT_TRUE(meter.has_measured());
    EXPECT_NEAR(meter.cost().seconds_per_token, truth.seconds_per_token, 1e-6);
    EXPECT_NEAR(meter.cost().seconds_per_pair, truth.seconds_per_pair, 1e-10);
}

TEST(PrefillMeter, SaysNothingOfPairsWhereAllStepsWereAlike) {
    PrefillMeter meter;
    for (int i = 0; i < 5; ++i) meter.add(0, 100, 0.2);
    EXPECT_NEAR(meter.cost().seconds(0, 100), 0.2, 1e-9);
    EXPECT_EQ(meter.cost().seconds_per_pair, 0.0);
}

TEST(PrefillMeter, NeitherPartIsEverNegative) {
    PrefillMeter slower_at_first;
    slower_at_first.add(0, 100, 1.0);
    slower_at_first.add(100, 200, 0.5);
    EXPECT_GE(slower_at_first.cost().seconds_per_pair, 0.0);
    EXPECT_GT(slower_at_first.cost().seconds_per_token, 0.0);
    PrefillMeter only_pairs;
    only_pairs.add(0, 100, 0.0001);
    only_pairs.add(1000, 1100, 1.0);
    EXPECT_GE(only_pairs.cost().seconds_per_token, 0.0);
    EXPECT_GT(only_pairs.cost().seconds_per_pair, 0.0);
}

}  // namespace
}  // namespace cellar
