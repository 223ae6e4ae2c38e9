#include "ops/cpu/attend_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace cellar::ops::cpu_impl {
namespace {

// Runs with and without gaps between them, of all lengths, some of them turned.
std::vector<kv::Run> some_runs(uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<kv::Run> runs;
    auto pos = static_cast<int32_t>(random() % 70);
    for (int i = 0; i < 40; ++i) {
        const auto len = static_cast<int32_t>(1 + random() % (i % 3 == 0 ? 150 : 20));
        runs.push_back({pos, static_cast<int32_t>(random() % 100'000), len, i % 4 == 3 ? -7 : 0});
        pos += len + static_cast<int32_t>(i % 5 == 4 ? random() % 90 : 0);
    }
    return runs;
}

void expect_lanes(const std::vector<kv::Run>& runs, int32_t start, const TileLanes& lanes) {
    bool one_covers_all = false;
    std::set<int32_t> turns;
    for (int lane = 0; lane < kTile; ++lane) {
        const int32_t pos = start + lane;
        const auto run = std::find_if(runs.begin(), runs.end(), [&](const kv::Run& r) { return r.pos <= pos && pos < r.end(); });
        ASSERT_EQ((lanes.present >> lane & 1U) != 0, run != runs.end()) << pos;
        if (run == runs.end()) continue;
        one_covers_all = one_covers_all || (run->pos <= start && start + kTile <= run->end());
        turns.insert(run->turn);
        ASSERT_EQ(lanes.neighbours ? lanes.cells[0] + lane : lanes.cells[lane], run->cell + pos - run->pos) << pos;
        ASSERT_EQ(lanes.turns[lanes.neighbours ? 0 : lane], run->turn) << pos;
    }
    ASSERT_EQ(lanes.neighbours, one_covers_all);
    if (!turns.empty()) {
        ASSERT_EQ(lanes.one_turn, turns.size() == 1);
    }
}

TEST(LaneFinder, FindsWhatRunsSayFromAnyTileOn) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
        const std::vector<kv::Run> runs = some_runs(seed);
        for (int32_t from = 0; from < runs.back().end() + 2 * kTile; from += kTile) {
            for (const int32_t step : {kTile, 3 * kTile}) {
                LaneFinder finder(runs, from);
                TileLanes lanes;
                for (int32_t start = from; start < runs.back().end() + 2 * kTile; start += step) {
                    finder.find(start, lanes);
                    ASSERT_NO_FATAL_FAILURE(expect_lanes(runs, start, lanes)) << "seed " << seed << ", from " << from << ", tile " << start;
                }
            }
        }
    }
    TileLanes lanes;
    LaneFinder({}, 64).find(64, lanes);
    EXPECT_EQ(lanes.present, 0U);
    EXPECT_FALSE(lanes.neighbours);
}

TEST(LanesIn, AreThoseOfTheInterval) {
    for (const int32_t lo : {0, 1, 31, 32, 33, 63, 64, 65, 200}) {
        for (const int32_t hi : {0, 1, 31, 32, 33, 63, 64, 65, 200}) {
            uint32_t expected = 0;
            for (int32_t pos = std::max(lo, 32); pos < std::min(hi, 64); ++pos) expected |= 1U << (pos - 32);
            EXPECT_EQ(lanes_in({lo, hi}, 32), expected) << lo << " to " << hi;
        }
    }
    EXPECT_EQ(lanes_in({0, INT32_MAX}, INT32_MAX - 31), 0x7FFFFFFFU);
}

}  // namespace
}  // namespace cellar::ops::cpu_impl
