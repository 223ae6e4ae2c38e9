#include "kv/run_list.h"

#include <gtest/gtest.h>

namespace cellar::kv {
namespace {

using Runs = std::vector<Run>;  // a test has a Run of its own

TEST(RunsWithin, AreCutAtBothEndsWithTheirCells) {
    const Runs runs = {{0, 100, 10, 0}, {10, 50, 5, 3}, {20, 7, 4, 0}};
    EXPECT_EQ(runs_within(runs, {0, 24}), runs);
    EXPECT_EQ(runs_within(runs, {4, 22}), (Runs{{4, 104, 6, 0}, {10, 50, 5, 3}, {20, 7, 2, 0}}));
    EXPECT_EQ(runs_within(runs, {11, 13}), (Runs{{11, 51, 2, 3}}));
    EXPECT_TRUE(runs_within(runs, {15, 20}).empty());
    EXPECT_TRUE(runs_within(runs, {5, 5}).empty());
    EXPECT_TRUE(runs_within(runs, {24, 30}).empty());
}

}  // namespace
}  // namespace cellar::kv
