// Everything that kv_fuzz ever found, and a few seeds.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "support/kv_case.h"

namespace cellar::tiny {
namespace {

#ifdef CELLAR_REDUCED_TESTS
constexpr uint64_t kSeeds = 12;
#else
constexpr uint64_t kSeeds = 24;
#endif

TEST(KvFuzz, WhatWasFoundStaysMended) {
    int cases = 0;
    for (const auto& entry : std::filesystem::directory_iterator(CELLAR_SOURCE_DIR "/tests/data/kv_cases")) {
        const auto source = read_file(entry.path().string(), size_t{1} << 20);
        ASSERT_TRUE(source);
        KvCase one;
        ASSERT_TRUE(parse_case(*source, one)) << entry.path();
        EXPECT_EQ(run_case(one), "") << entry.path();
        ++cases;
    }
    EXPECT_GT(cases, 0);
}

TEST(KvFuzz, WarmEqualsColdInEveryFormat) {
    KvCounts counts;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) EXPECT_EQ(run_case(random_case(seed, true), &counts), "") << "seed " << seed;
    EXPECT_GT(counts.compared, static_cast<int64_t>(10 * kSeeds));
    // A run that never meets these shows nothing.
    for (const auto& [name, count] : std::initializer_list<std::pair<const char*, int64_t>>{{"full", counts.met.full},
                                                                                            {"cancelled", counts.met.cancelled},
                                                                                            {"reused", counts.met.reused},
                                                                                            {"bakes", counts.met.bakes},
                                                                                            {"cancelled bakes", counts.met.cancelled_bakes},
                                                                                            {"compacted", counts.met.compacted},
                                                                                            {"shifts", counts.met.shifts},
                                                                                            {"evicted", counts.met.evicted},
                                                                                            {"loaded", counts.met.loaded}})
        EXPECT_GT(count, 0) << name;
}

TEST(KvFuzz, ACaseIsReadAsItWasWritten) {
    for (const bool recompute : {false, true}) {
        const KvCase one = random_case(5, recompute);
        KvCase again;
        ASSERT_TRUE(parse_case("# found one day\n" + text(one), again));
        EXPECT_EQ(text(again), text(one));
    }
    for (const char* wrong :
         {"", "rows\n", "rows 1 32 450\n", "recompute llama q8_0\n", "recompute llama q7 32 0\n", "columns 1\n", "rows 0 32 450 0\nfork 1\n"}) {
        KvCase none;
        EXPECT_FALSE(parse_case(wrong, none)) << wrong;
    }
}

}  // namespace
}  // namespace cellar::tiny
