#include "base/thread_team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <random>
#include <thread>
#include <vector>

namespace cellar {
namespace {

#ifdef CELLAR_REDUCED_TESTS
constexpr int kRounds = 300;
#else
constexpr int kRounds = 3000;
#endif

class ThreadTeamTest : public testing::TestWithParam<int> {};

TEST_P(ThreadTeamTest, LetsEachMemberWorkAloneInsideABody) {
    ThreadTeam team(GetParam());
    std::vector<int64_t> sums(200);
    team.run(200, [&](int64_t piece, int member) {
        team.alone(member).run(piece, [&](int64_t inner, int alone_member) {
            ASSERT_EQ(alone_member, 0);
            sums[static_cast<size_t>(piece)] += inner;
        });
    });
    for (int64_t piece = 0; piece < 200; ++piece) EXPECT_EQ(sums[static_cast<size_t>(piece)], piece * (piece - 1) / 2);
    EXPECT_EQ(team.alone(0).size(), 1);
}

// Plain, unguarded counters: what the members wrote must be visible to the caller, and no piece may run twice.
TEST_P(ThreadTeamTest, RunsEachPieceOnceAndPublishesIt) {
    ThreadTeam team(GetParam());
    ASSERT_EQ(team.size(), GetParam());
    std::mt19937 random(7);
    std::vector<int64_t> runs(2000);
    for (int round = 0; round < kRounds; ++round) {
        const int64_t pieces = random() % 10 == 0 ? static_cast<int64_t>(random() % 2000) : static_cast<int64_t>(random() % 9);
        std::fill(runs.begin(), runs.end(), 0);
        team.run(pieces, [&](int64_t piece, int member) {
            ASSERT_GE(member, 0);
            ASSERT_LT(member, team.size());
            ++runs[static_cast<size_t>(piece)];
        });
        for (int64_t i = 0; i < 2000; ++i) ASSERT_EQ(runs[static_cast<size_t>(i)], i < pieces ? 1 : 0) << round << " " << i;
    }
}

// What one job writes the next one reads on another member.
TEST_P(ThreadTeamTest, OneJobSeesWhatTheLastOneWrote) {
    ThreadTeam team(GetParam());
    std::vector<int64_t> values(64, 1);
    for (int round = 0; round < kRounds; ++round) {
        team.run(64, [&](int64_t piece, int) { values[static_cast<size_t>(63 - piece)] += round; });
        team.run(64, [&](int64_t piece, int) { values[static_cast<size_t>(piece)] -= round - 1; });
    }
    for (int64_t value : values) ASSERT_EQ(value, 1 + kRounds);
}

// Two pieces never run at the same time on one member, so scratch space per member is safe.
TEST_P(ThreadTeamTest, AMemberWorksOnOnePieceAtATime) {
    ThreadTeam team(GetParam());
    std::vector<std::atomic<int>> inside(static_cast<size_t>(team.size()));
    for (int round = 0; round < kRounds / 10; ++round) {
        team.run(100, [&](int64_t, int member) {
            ASSERT_EQ(inside[static_cast<size_t>(member)].fetch_add(1), 0);
            inside[static_cast<size_t>(member)].fetch_sub(1);
        });
    }
}

TEST_P(ThreadTeamTest, WakesMembersThatFellAsleep) {
    ThreadTeam team(GetParam());
    std::atomic<int> count = 0;
    for (int round = 0; round < 20; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        team.run(8, [&](int64_t, int) { count.fetch_add(1); });
    }
    ASSERT_EQ(count.load(), 160);
}

TEST_P(ThreadTeamTest, ComesAndGoesWithoutWork) {
    for (int i = 0; i < 50; ++i) {
        ThreadTeam team(GetParam());
        if (i % 2 == 0) team.run(3, [](int64_t, int) {});
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadTeamTest, testing::Values(1, 2, 3, 8));

// The work of a member that is held up goes to the others: only the piece it holds is waited for.
TEST(ThreadTeamSharing, ASlowPieceDoesNotHoldTheOthers) {
    ThreadTeam team(2);
    std::atomic<int> others = 0;
    std::atomic<bool> saw_all = false;
    team.run(40, [&](int64_t piece, int) {
        if (piece != 0) {
            others.fetch_add(1);
            return;
        }
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (others.load() < 39 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        saw_all = others.load() == 39;
    });
    ASSERT_TRUE(saw_all.load());
}

// An idle team costs nothing: the whole process uses next to no CPU time while it waits.
TEST(ThreadTeamIdle, SleepsWhenThereIsNoWork) {
    ThreadTeam team(2);
    team.run(2, [](int64_t, int) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    timespec before{};
    timespec after{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const double used = static_cast<double>(after.tv_sec - before.tv_sec) + static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9;
    ASSERT_LT(used, 0.02);
}

// The time of a job that needs both members, shown rather than judged: other work on the machine decides it. The bound catches only a
// barrier that sleeps each time it need not.
TEST(ThreadTeamSpeed, StartsAndEndsAJobQuickly) {
    if (usable_cpus() < 2) GTEST_SKIP() << "one CPU";
    ThreadTeam team(2);
    double best = 1e9;
    for (int attempt = 0; attempt < 20; ++attempt) {
        const auto begin = std::chrono::steady_clock::now();
        constexpr int kJobs = 500;
        for (int i = 0; i < kJobs; ++i) {
            std::atomic<int> inside = 0;
            team.run(2, [&](int64_t, int) {
                inside.fetch_add(1);
                for (int spins = 0; inside.load() < 2; ++spins) {
                    if (spins > 2000) std::this_thread::yield();
                }
            });
        }
        best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / kJobs);
    }
    std::printf("a job that two members meet in: %.2f us\n", best);
    ASSERT_LT(best, 1000);
}

TEST(UsableCpus, FollowsTheAffinityMask) {
    ASSERT_GE(usable_cpus(), 1);
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    ASSERT_LE(usable_cpus(), CPU_COUNT(&before));
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &before)) continue;
        CPU_SET(cpu, &one);
        break;
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_cpus(), 1);
    ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace cellar
