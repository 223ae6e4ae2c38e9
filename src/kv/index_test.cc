#include "kv/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "kv/index_fixture.h"

namespace cellar::kv {
namespace {

TEST(Index, AHitLeavesOneTokenForTheLogits) {
    Conversations c({Keep::all()}, 512, 1024);
    const Tokens prompt = words({1, 2, 3, 4, 5});
    EXPECT_EQ(c.request("r", prompt), 0);
    EXPECT_EQ(c.request("r", prompt), 4);
    EXPECT_EQ(c.request("r", words({1, 2, 3})), 2);
    EXPECT_EQ(c.request("r", words({1, 2, 3, 4, 5, 6, 7})), 5);
    EXPECT_EQ(c.request("r", words({9})), 0);
    EXPECT_EQ(c.index->find("r", prompt).matched, 5);
    EXPECT_EQ(c.index->find("r", prompt).length, 4);
    EXPECT_EQ(c.index->find("r", {}).length, 0);
}

TEST(Index, AnEdgeSplitsAtTheExactToken) {
    Conversations c({Keep::all()}, 512, 1024);
    const Tokens common = repeat(7, 45);
    EXPECT_EQ(c.request("r", join(common, words({1, 1, 1}))), 0);
    EXPECT_EQ(c.request("r", join(common, words({2, 2, 2}))), 45);
    EXPECT_EQ(c.request("r", join(common, words({2, 2, 3, 3}))), 47);
    EXPECT_EQ(c.index->stats().edges, 7);
    EXPECT_EQ(c.request("r", join(common, words({1, 1, 1, 1}))), 48);
}

TEST(Index, RootsShareNothing) {
    Conversations c({Keep::all()}, 512, 1024);
    const Tokens prompt = repeat(3, 64);
    EXPECT_EQ(c.request("adapter a", prompt), 0);
    EXPECT_EQ(c.request("adapter b", prompt), 0);
    EXPECT_EQ(c.request("adapter a", prompt), 63);
    EXPECT_EQ(c.request("adapter a ", prompt), 0);
}

TEST(Index, TokensAreComparedWholeWithMediaAndRotary) {
    Conversations c({Keep::all()}, 512, 2048);
    Tokens prompt = repeat(65, 30);
    for (size_t i = 10; i < 20; ++i) prompt[i] = {9, 10, 0xaaaa};
    EXPECT_EQ(c.request("r", prompt), 0);
    Tokens other = prompt;
    for (size_t i = 10; i < 20; ++i) other[i].media = 0xbbbb;
    EXPECT_EQ(c.request("r", other), 10);
    other = prompt;
    other[25].id += 65536;
    EXPECT_EQ(c.request("r", other), 25);
    other = prompt;
    other[15].rotary += 1;
    EXPECT_EQ(c.request("r", other), 15);
}

// What has no hash needs no test with a hash that is always the same.
TEST(Index, NoHashDecidesAnything) {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(CELLAR_SOURCE_DIR "/src/kv")) {
        const std::string path = entry.path().string();
        if (path.ends_with("_test.cc")) continue;
        const auto source = read_file(path, size_t{1} << 20);
        ASSERT_TRUE(source);
        for (const char* hash : {"unordered_", "std::hash", "xxhash", "XXH3"})
            EXPECT_EQ(source->find(hash), std::string::npos) << path << ": " << hash;
        ++files;
    }
    EXPECT_GT(files, 30);
}

TEST(Index, OnlyThePurePartIsKept) {
    Conversations c({Keep::all()}, 512, 1024);
    const Tokens prompt = repeat(4, 50);
    const SeqId id = *c.cache->open();
    ASSERT_TRUE(c.prefill(id, prompt));
    ASSERT_TRUE(c.cache->remove_and_shift(id, {20, 30}));
    EXPECT_EQ(c.index->keep("r", id, 40), 20);
    EXPECT_EQ(c.index->find("r", prompt).matched, 20);
    c.cache->colour(id, 0);
    EXPECT_EQ(c.index->keep("other", id, 40), 0);
    c.check();
}

TEST(Index, AnOpenSequenceTakesAPrefixForWhatItHad) {
    Conversations c({Keep::all(), Keep::window(16)}, 512, 2048);
    const Tokens kept = repeat(4, 80);
    const Tokens other = repeat(8, 60);
    c.request("r", kept);
    const SeqId id = *c.cache->open();
    ASSERT_TRUE(c.prefill(id, other));
    const Index::Hit hit = c.index->take_into("r", join(kept, words({1, 2})), id);
    EXPECT_EQ(hit.id, id);
    EXPECT_EQ(hit.length, 80);
    c.check();
    c.check_rows(id, kept);
    EXPECT_EQ(c.index->take_into("r", other, id).length, 0);
    EXPECT_EQ(c.cache->length(id), 0);
    c.check();
}

TEST(Index, SaysWhatIsKeptBehindAMatch) {
    Conversations c({Keep::all()}, 512, 1024);
    const auto ids = [&](const Tokens& tokens, size_t most) {
        std::vector<int32_t> out;
        for (const Token& token : c.index->continuation("r", tokens, most)) out.push_back(token.id);
        return out;
    };
    EXPECT_TRUE(ids(words({1}), 4).empty());
    c.request("r", words({1, 2, 3, 4, 5, 6}));
    c.request("r", words({1, 2, 3, 7, 8}));
    EXPECT_EQ(ids(words({1, 9}), 2), (std::vector<int32_t>{2, 3})) << "in the middle of an edge";
    EXPECT_EQ(ids(words({1, 2, 3, 9}), 4).front(), 7) << "behind it, along the way used last";
    EXPECT_TRUE(ids(words({1, 2, 3, 7, 8}), 4).empty());
    EXPECT_EQ(ids({}, 1), std::vector<int32_t>{1});
}

// A step that finds no room asks for it before it is refused, and again as long as something comes of it.
TEST(Index, GivesWayWhenAStepFindsNoRoom) {
    Conversations c({Keep::all(), Keep::window(64)}, 512, 512);
    c.cache->set_reclaim([&](size_t bytes) { return c.index->evict(bytes, 0); });
    for (int i = 0; i < 10; ++i) {
        const SeqId id = *c.cache->open();
        ASSERT_TRUE(c.prefill(id, repeat(100 + i, 150)));
        EXPECT_EQ(c.index->keep("r", id, 150), 150);
        c.cache->close(id);
        c.check();
    }
    EXPECT_GT(c.index->stats().edges, 0);
    EXPECT_LT(c.index->stats().edges, 10);
    const SeqId one = *c.cache->open();
    ASSERT_TRUE(c.prefill(one, repeat(1, 512))) << "what is kept never stands in the way";
    EXPECT_EQ(c.index->stats().edges, 0);
    EXPECT_FALSE(c.prefill(*c.cache->open(), repeat(2, 1)));
    c.check();
}

TEST(Index, WhatWasTakenDoesNotChangeWhatIsKept) {
    Conversations c({Keep::all()}, 512, 1024);
    const Tokens prompt = repeat(5, 50);
    c.request("r", prompt);
    const auto first = *c.index->take("r", prompt);
    ASSERT_TRUE(c.prefill(first.id, join(repeat(5, 49), repeat(8, 50))));
    c.cache->trim(first.id, 10);
    ASSERT_TRUE(c.prefill(first.id, join(repeat(5, 10), repeat(9, 50))));
    const auto second = *c.index->take("r", prompt);
    EXPECT_EQ(second.length, 49);
    c.check_rows(second.id, prompt);
}

// Prompts that come round: more of them than fit. A cache that always drops the least recently used would never hit.
TEST(Index, CyclicPromptsDoNotWashEachOtherOut) {
    Conversations c({Keep::all()}, 512, 4 * 64 + 32);
    int hits = 0;
    for (int round = 0; round < 5; ++round) {
        for (int p = 0; p < 5; ++p) hits += c.request("r", join(words({100 + p}), repeat(p, 62))) > 0 ? 1 : 0;
    }
    EXPECT_GE(hits, 12) << "of 20 that could";
}

TEST(Index, AScanPassesThrough) {
    Conversations c({Keep::all()}, 512, 1024);
    const Tokens system = repeat(1, 200);
    c.request("r", system);
    EXPECT_GT(c.request("r", join(system, words({2, 3}))), 0);
    for (int i = 0; i < 30; ++i) c.request("r", join(words({1000 + i}), repeat(9, 150)));
    EXPECT_EQ(c.request("r", join(system, words({4, 4}))), 200);
}

TEST(Index, PinnedIsKeptUntilItsTime) {
    Conversations c({Keep::all(), Keep::window(8)}, 512, 1024);
    const Tokens a = repeat(1, 100);
    const Tokens b = repeat(2, 100);
    c.request("r", a);
    c.request("r", b);
    c.request("r", b);
    c.index->pin("r", a, 60.0);
    EXPECT_GT(c.index->evict(SIZE_MAX, 59.0), 0U);
    EXPECT_EQ(c.index->find("r", a).length, 99);
    EXPECT_EQ(c.index->find("r", b).matched, 0);
    EXPECT_GT(c.index->evict(SIZE_MAX, 60.0), 0U);
    EXPECT_EQ(c.index->find("r", a).matched, 0);
    EXPECT_EQ(c.index->stats().edges, 0);
    EXPECT_EQ(c.cache->ledger_bytes(), c.cache->stats().table_bytes);
    c.check();
}

TEST(Index, EvictingUnderALiveSequenceTakesNothingFromIt) {
    Conversations c({Keep::all()}, 512, 1024);
    const Tokens prompt = repeat(5, 80);
    c.request("r", prompt);
    const auto hit = *c.index->take("r", prompt);
    c.index->clear();
    c.check();
    c.check_rows(hit.id, prompt);
    EXPECT_EQ(c.index->find("r", prompt).matched, 0);
}

TEST(Index, TooManySequencesIsFull) {
    Conversations c({Keep::all()}, 64, 64, 1);
    const auto first = c.index->take("r", repeat(1, 5));
    ASSERT_TRUE(first);
    const auto second = c.index->take("r", repeat(1, 5));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::Full);
    EXPECT_EQ(c.index->stats().lookups, 1) << "counted once they succeeded";
}

#ifdef CELLAR_REDUCED_TESTS
constexpr int random_requests = 80;
#else
constexpr int random_requests = 250;
#endif

TEST(Index, RandomConversationsEqualFreshRuns) {
    const std::vector<std::vector<Keep>> mixes = {{Keep::all()}, {Keep::all(), Keep::window(24, 2)}, {Keep::chunk(32), Keep::all(), Keep::window(5)}};
    for (size_t mix = 0; mix < mixes.size(); ++mix) {
        // Little enough room that kept prefixes must go now and then.
        Conversations c(mixes[mix], 400, 1600, 6);
        std::mt19937 random(static_cast<uint32_t>(mix + 1));
        std::vector<std::pair<std::string, Tokens>> kept;
        std::vector<std::pair<SeqId, Tokens>> live;
        bool evicted = false;
        int64_t reused = 0;
        for (int i = 0; i < random_requests; ++i) {
            const std::string root = random() % 4 == 0 ? "one" : "two";
            // A known conversation, cut somewhere and gone on with, or a new one.
            Tokens tokens;
            if (!kept.empty() && random() % 4 != 0) {
                tokens = kept[random() % kept.size()].second;
                if (random() % 2 == 0) tokens.resize(1 + random() % tokens.size());
            }
            const int id = static_cast<int>(random() % 3);
            const Tokens more = repeat(id, 1 + static_cast<int>(random() % 60));
            if (tokens.size() + more.size() <= 390) tokens = join(tokens, more);
            int32_t longest = 0;
            for (const auto& [r, k] : kept) {
                const auto differ = std::mismatch(k.begin(), k.end(), tokens.begin(), tokens.end()).first - k.begin();
                if (r == root) longest = std::max(longest, static_cast<int32_t>(differ));
            }
            const auto found = c.index->find(root, tokens);
            ASSERT_LE(found.matched, longest);
            ASSERT_TRUE(evicted || found.matched == longest);
            const auto hit = c.index->take(root, tokens);
            if (!hit) {
                c.cache->close(live.back().first);
                live.pop_back();
                continue;
            }
            ASSERT_EQ(hit->length, found.length);
            ASSERT_LT(hit->length, static_cast<int32_t>(tokens.size()));
            ASSERT_TRUE(mix != 0 || hit->length == std::min(found.matched, static_cast<int32_t>(tokens.size()) - 1));
            reused += hit->length;
            c.check();
            c.check_rows(hit->id, tokens);
            while (!c.prefill(hit->id, tokens)) {
                evicted = true;
                if (c.index->evict(1, 0) > 0) continue;
                ASSERT_FALSE(live.empty());
                c.cache->close(live.back().first);
                live.pop_back();
            }
            c.check_rows(hit->id, tokens);
            c.index->keep(root, hit->id, static_cast<int32_t>(tokens.size()));
            kept.emplace_back(root, tokens);
            c.check();
            if (random() % 3 == 0) {
                live.emplace_back(hit->id, tokens);
            } else {
                c.cache->close(hit->id);
            }
            if (random() % 10 == 0) c.cache->compact();
            for (const auto& [seq, log] : live) c.check_rows(seq, log);
        }
        EXPECT_TRUE(evicted);
        EXPECT_GT(reused, 1000);
        for (const auto& [seq, log] : live) c.cache->close(seq);
        c.index->clear();
        c.check();
        EXPECT_EQ(c.cache->ledger_bytes(), c.cache->stats().table_bytes);
    }
}

}  // namespace
}  // namespace cellar::kv
