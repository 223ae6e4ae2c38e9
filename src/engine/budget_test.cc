#include "engine/budget.h"

#include <gtest/gtest.h>

#include "kv/plan.h"

namespace cellar {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

// 4 layers of 2 KV heads of width 64 in f16, K and V: 2 KiB for a cell.
kv::CacheSpec spec(kv::Keep keep = kv::Keep::all()) {
    kv::CacheSpec out;
    kv::GroupSpec group;
    group.keep = keep;
    group.planes = 4;
    group.rows = {{"k", 2, 64, kv::RowFormat::F16}, {"v", 2, 64, kv::RowFormat::F16}};
    out.groups = {group};
    for (int i = 0; i < 4; ++i) out.layers.push_back({0, i});
    return out;
}

BudgetRequest request() {
    BudgetRequest out;
    out.limits.max_seqs = 4;
    out.trained = 8192;
    out.transients = 10 * kMiB;
    out.weights = 100 * kMiB;
    out.memory = kGiB;
    return out;
}

BudgetPlan plan(const BudgetRequest& request, const kv::CacheSpec& s = spec()) {
    auto made = plan_budget(s, request);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : BudgetPlan{};
}

bool notes_have(const BudgetPlan& plan, const std::string& text) {
    return std::any_of(plan.notes.begin(), plan.notes.end(), [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

TEST(Budget, AutomaticIsNinetyPercentOfTheMemoryLessWeightsAndTransients) {
    const BudgetPlan made = plan(request());
    EXPECT_EQ(made.budget, kGiB / 100 * 90 - 100 * kMiB);
    EXPECT_EQ(made.limits.budget_bytes, made.budget - 10 * kMiB);
    EXPECT_EQ(made.limits.context, 8192);
    EXPECT_NE(made.summary.find("MiB (automatic)"), std::string::npos) << made.summary;
}

TEST(Budget, IsNeverSmallerThanEightBlocks) {
    BudgetRequest small = request();
    small.memory = 50 * kMiB;  // less than the weights
    small.limits.context = 1024;
    const BudgetPlan made = plan(small);
    EXPECT_GE(made.limits.cells, 8 * 32);
    const kv::Plan blocks = *kv::plan(spec(), made.limits);
    EXPECT_GE(made.limits.budget_bytes, blocks.table_bytes() + 8 * blocks.groups[0].block_bytes() + blocks.log.block_bytes());
    EXPECT_TRUE(notes_have(made, "does not fit")) << "a context that never fits is said so";
}

TEST(Budget, AnAutomaticContextShrinksToIt) {
    BudgetRequest small = request();
    small.budget = 10 * kMiB + 4 * kMiB;
    const BudgetPlan made = plan(small);
    EXPECT_LT(made.limits.context, 2048);
    EXPECT_GE(made.limits.context, 256);
    EXPECT_TRUE(notes_have(made, "8192"));
    const auto one = kv::estimate(spec(), made.limits, std::vector<int64_t>{made.limits.context});
    ASSERT_TRUE(one);
    EXPECT_TRUE(one->fits);
}

TEST(Budget, AnExplicitOneThatIsTooSmallIsRefusedWithTheNumbers) {
    BudgetRequest small = request();
    small.budget = 10 * kMiB + 1000;
    const auto refused = plan_budget(spec(), small);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Full);
    EXPECT_NE(refused.error().message.find("10.0 MiB"), std::string::npos) << refused.error().message;
    EXPECT_NE(refused.error().message.find("8 blocks"), std::string::npos) << refused.error().message;
}

TEST(Budget, CellsFollowFromItAndNotFromOneContext) {
    const BudgetPlan made = plan(request());
    EXPECT_GE(made.limits.cells, 2 * 4 * 8192) << "four sequences and as much again of kept prefixes";
    BudgetRequest small = request();
    small.budget = 42 * kMiB;
    EXPECT_NEAR(static_cast<double>(plan(small).limits.cells), 32.0 * kMiB / 2048, 64.0);
    small.limits.cells = 640;
    EXPECT_EQ(plan(small).limits.cells, 640);
}

TEST(Budget, WithoutAKnownMemoryThereIsNoLimitButTheCells) {
    BudgetRequest unknown = request();
    unknown.memory.reset();
    const BudgetPlan made = plan(unknown);
    EXPECT_EQ(made.limits.budget_bytes, 0U);
    EXPECT_EQ(made.budget, 0U);
    EXPECT_EQ(made.limits.context, 8192);
    EXPECT_GE(made.limits.cells, 2 * 4 * 8192);
}

TEST(Budget, AMillionTokensOfContextNeedNoMillionCells) {
    BudgetRequest large = request();
    large.limits.context = 1'000'000;
    const BudgetPlan made = plan(large);
    EXPECT_EQ(made.limits.context, 1'000'000);
    EXPECT_LE(static_cast<uint64_t>(made.limits.cells) * 2048, kGiB);
    EXPECT_TRUE(notes_have(made, "does not fit"));
}

TEST(Budget, IsReadStrictly) {
    EXPECT_EQ(*parse_budget("auto", "x"), 0U);
    EXPECT_EQ(*parse_budget("", "x"), 0U);
    EXPECT_EQ(*parse_budget("2GiB", "x"), 2 * kGiB);
    EXPECT_EQ(*parse_budget("1.5G", "x"), kGiB + kGiB / 2);
    const auto share = parse_budget("50%", "x");
    ASSERT_TRUE(share) << share.error().message;
    EXPECT_GT(*share, kMiB);
    for (const char* wrong : {"0", "0%", "Auto", "-1", "2 GiB", "lots", "101%"}) {
        const auto refused = parse_budget(wrong, "--kv-budget");
        ASSERT_FALSE(refused) << wrong;
        EXPECT_NE(refused.error().message.find("--kv-budget"), std::string::npos) << refused.error().message;
    }
}

}  // namespace
}  // namespace cellar
