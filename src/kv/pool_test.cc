#include "kv/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/check.h"

namespace cellar::kv {
namespace {

TEST(Pool, GivesTheWishedBlockElseTheLowest) {
    Pool pool = *Pool::make(130, 32);
    EXPECT_EQ(pool.take(-1), 0);
    EXPECT_EQ(pool.take(1), 1);
    EXPECT_EQ(pool.take(70), 70);
    EXPECT_EQ(pool.take(70), 2);
    EXPECT_EQ(pool.take(130), 3);
    EXPECT_TRUE(pool.release(1));
    EXPECT_EQ(pool.take(71), 71);
    EXPECT_EQ(pool.take(-1), 1);
}

TEST(Pool, FullIsAnAnswer) {
    Pool pool = *Pool::make(65, 16);
    for (int32_t b = 0; b < 65; ++b) EXPECT_EQ(pool.take(-1), b);
    EXPECT_EQ(pool.take(-1), -1);
    EXPECT_EQ(pool.take(3), -1);
    EXPECT_EQ(pool.free(), 0);
    EXPECT_TRUE(pool.release(64));
    EXPECT_EQ(pool.take(-1), 64);
}

TEST(Pool, IsFreeOnlyAfterTheLastHolder) {
    Pool pool = *Pool::make(4, 32);
    const int32_t b = pool.take(-1);
    pool.set_fill(b, 20);
    pool.hold(b);
    pool.hold(b);
    EXPECT_FALSE(pool.release(b));
    EXPECT_FALSE(pool.release(b));
    EXPECT_EQ(pool.fill(b), 20);
    EXPECT_TRUE(pool.release(b));
    EXPECT_EQ(pool.fill(b), 0);
}

TEST(Pool, MatchesAMapUnderRandomOperations) {
    for (const int32_t blocks : {1, 63, 64, 65, 200}) {
        Pool pool = *Pool::make(blocks, 32);
        std::map<int32_t, int32_t> refs;
        std::mt19937 random(static_cast<uint32_t>(blocks));
        for (int i = 0; i < 4000; ++i) {
            auto any = refs.begin();
            if (!refs.empty()) std::advance(any, random() % refs.size());
            const uint32_t op = random() % 10;
            if (op < 4) {
                const auto wish = static_cast<int32_t>(random() % (static_cast<uint32_t>(blocks) + 2)) - 1;
                const int32_t b = pool.take(wish);
                if (refs.size() == static_cast<size_t>(blocks)) {
                    ASSERT_EQ(b, -1);
                    continue;
                }
                int32_t lowest = 0;
                while (refs.contains(lowest)) ++lowest;
                const bool granted = wish >= 0 && wish < blocks && !refs.contains(wish);
                ASSERT_EQ(b, granted ? wish : lowest);
                refs[b] = 1;
            } else if (!refs.empty() && op < 6) {
                pool.hold(any->first);
                ++any->second;
            } else if (!refs.empty() && op < 9) {
                ASSERT_EQ(pool.release(any->first), any->second == 1);
                if (--any->second == 0) refs.erase(any);
            } else if (!refs.empty() && refs.size() < static_cast<size_t>(blocks)) {
                int32_t to = 0;
                while (refs.contains(to)) ++to;
                const int32_t fill = static_cast<int32_t>(random() % 33);
                pool.set_fill(any->first, fill);
                pool.move(any->first, to);
                ASSERT_EQ(pool.fill(to), fill);
                refs[to] = any->second;
                refs.erase(any);
            }
            ASSERT_EQ(pool.used(), static_cast<int32_t>(refs.size()));
            for (int32_t b = 0; b < blocks; ++b) {
                ASSERT_EQ(pool.refs(b), refs.contains(b) ? refs[b] : 0);
                ASSERT_EQ(pool.is_free(b), !refs.contains(b));
            }
        }
    }
}

// 1,000,000 positions in blocks of 32, and what their table costs.
TEST(Pool, TablesOfALongContextAreSmall) {
    EXPECT_LT(Pool::table_bytes(31'250), 256U * 1024);
}

}  // namespace
}  // namespace cellar::kv
