// What windows and chunks keep beside the tree, and which prompts that serves.
#include <gtest/gtest.h>

#include "kv/index_fixture.h"

namespace cellar::kv {
namespace {

TEST(IndexMarks, WindowsNeedAMark) {
    Conversations c({Keep::all(), Keep::window(16)}, 512, 2048);
    const Tokens turn1 = repeat(5, 100);
    EXPECT_EQ(c.request("r", turn1), 0);
    // The next turn repeats the first: the mark at its end serves it.
    const Tokens turn2 = join(turn1, repeat(6, 30));
    EXPECT_EQ(c.index->find("r", turn2).matched, 100);
    EXPECT_EQ(c.request("r", turn2), 100);
    // The same prompt again: the mark one before the end.
    EXPECT_EQ(c.request("r", turn1), 99);
    EXPECT_EQ(c.request("r", turn2), 129);
    // A prompt that leaves it in the middle finds rows, but no window.
    const auto hit = c.index->find("r", join(repeat(5, 50), words({1, 2})));
    EXPECT_EQ(hit.matched, 50);
    EXPECT_EQ(hit.length, 0);
}

TEST(IndexMarks, AChunkMarkServesItsWholeChunk) {
    Conversations c({Keep::chunk(32), Keep::all()}, 512, 2048);
    const Tokens prompt = repeat(5, 90);
    EXPECT_EQ(c.request("r", prompt), 0);
    EXPECT_EQ(c.index->find("r", join(repeat(5, 70), words({1, 2}))).length, 70);
    EXPECT_EQ(c.index->find("r", join(repeat(5, 60), words({1, 2}))).length, 32) << "the chunk from 32 is gone, the one before it is not needed";
}

// A conversation that was kept, and one that leaves it: where edges are divided makes no difference to what a third one gets.
TEST(IndexMarks, AMarkBehindTheTurnOffServesToo) {
    struct Case {
        std::vector<Keep> keeps;
        int32_t common, first, second;  // tokens that both begin with, and how long each is kept
        std::vector<std::pair<int32_t, int32_t>> asked;
    };
    const std::vector<Case> cases = {
        // The whole conversation lies in the window, so the mark at 50 has every row from 0; the one at 70 has none before 7.
        {{Keep::all(), Keep::window(64)}, 40, 50, 70, {{40, 40}, {20, 20}, {1, 1}}},
        {{Keep::window(60, 8)}, 40, 67, 68, {{40, 40}, {12, 12}}},
        // The mark at 60 has its chunk from 32; before that only the beginnings of chunks can be reached.
        {{Keep::chunk(32), Keep::all()}, 45, 60, 75, {{45, 45}, {33, 33}, {32, 32}, {31, 0}}},
        {{Keep::chunk(32), Keep::window(64)}, 45, 60, 75, {{45, 45}, {20, 0}}},
    };
    for (const Case& one : cases) {
        Conversations c(one.keeps, 512, 4096);
        const Tokens common = repeat(7, one.common);
        for (const auto& [length, id] : {std::pair{one.first, 1}, {one.second, 2}}) {
            const SeqId seq = *c.cache->open();
            ASSERT_TRUE(c.prefill(seq, join(common, repeat(id, length - one.common))));
            ASSERT_EQ(c.index->keep("r", seq, length), length);
            c.cache->close(seq);
        }
        for (const auto& [at, reached] : one.asked) {
            const Tokens prompt = join(repeat(7, at), words({3, 3}));
            EXPECT_EQ(c.index->find("r", prompt).length, reached) << one.common << ": " << at;
            const auto hit = c.index->take("r", prompt);
            ASSERT_TRUE(hit);
            EXPECT_EQ(hit->length, reached);
            c.check();
            c.check_rows(hit->id, prompt);
            c.cache->close(hit->id);
        }
        // What serves a prompt stays when that prompt is pinned, and goes when its time is over.
        const Tokens prompt = join(common, words({3, 3}));
        c.index->pin("r", prompt, 60);
        c.index->evict(SIZE_MAX, 59);
        EXPECT_EQ(c.index->find("r", prompt).length, one.common);
        c.index->evict(SIZE_MAX, 60);
        EXPECT_EQ(c.index->stats().edges, 0);
        EXPECT_EQ(c.index->stats().marks, 0);
    }
}

// What follows the place where a mark's own tokens turn off may be kept too, without one.
TEST(IndexMarks, AMarkBesideTheWayServesToo) {
    Conversations c({Keep::chunk(64), Keep::all()}, 512, 4096);
    const auto keep = [&](const Tokens& tokens, int32_t n) {
        const SeqId seq = *c.cache->open();
        ASSERT_TRUE(c.prefill(seq, tokens));
        c.index->keep("r", seq, n);
        c.cache->close(seq);
    };
    const Tokens way = join(repeat(7, 40), repeat(2, 100));
    keep(join(repeat(7, 40), repeat(1, 20)), 60);
    keep(way, 60);  // its chunk has slid to 128: no mark
    EXPECT_EQ(c.index->stats().marks, 1);
    const auto hit = c.index->take("r", way);
    ASSERT_TRUE(hit);
    EXPECT_EQ(hit->matched, 60);
    EXPECT_EQ(hit->length, 40);
    c.check();
    c.check_rows(hit->id, way);
}

// Many conversations with one beginning, each with marks near and far behind it: the nearest one that reaches back is found, and no other
// says that it would do.
TEST(IndexMarks, OfManyMarksBehindATurnOffOneThatReachesIsFound) {
    Conversations c({Keep::chunk(32), Keep::all()}, 512, 1 << 15);
    const auto keep = [&](int id, std::initializer_list<int32_t> lengths) {
        const Tokens tokens = join(repeat(7, 100), join(words({id}), repeat(id % 3, 299)));
        const SeqId seq = *c.cache->open();
        for (const int32_t n : lengths) {
            ASSERT_TRUE(c.prefill(seq, tokens, n));
            ASSERT_EQ(c.index->keep("r", seq, n), n);
        }
        c.cache->close(seq);
    };
    const Tokens prompt = join(repeat(7, 100), words({5, 5}));
    for (int i = 0; i < 40; ++i) keep(1000 + i, {130, 200, 260, 300});
    EXPECT_EQ(c.index->find("r", prompt).matched, 100);
    EXPECT_EQ(c.index->find("r", prompt).length, 96) << "where a chunk begins nothing is needed; from 96 to 100 nobody has rows";
    keep(2000, {200, 210});
    EXPECT_EQ(c.index->find("r", prompt).length, 96);
    keep(3000, {127, 128, 200});
    EXPECT_EQ(c.index->find("r", prompt).length, 100);
    EXPECT_EQ(c.index->find("r", join(repeat(7, 95), words({5, 5}))).length, 64);
    const auto hit = c.index->take("r", prompt);
    ASSERT_TRUE(hit);
    EXPECT_EQ(hit->length, 100);
    c.check();
    c.check_rows(hit->id, prompt);
}

// An edge goes with its marks, so one whose mark is asked for does not count as unused.
TEST(IndexMarks, AnEdgeWhoseMarkIsUsedStays) {
    Conversations c({Keep::chunk(64), Keep::all()}, 512, 4096);
    const auto keep = [&](const Tokens& tokens) {
        const SeqId seq = *c.cache->open();
        ASSERT_TRUE(c.prefill(seq, tokens));
        c.index->keep("r", seq, static_cast<int32_t>(tokens.size()));
        c.cache->close(seq);
    };
    keep(join(repeat(7, 40), repeat(1, 20)));
    keep(join(repeat(7, 40), repeat(2, 100)));
    for (int i = 0; i < 20; ++i) {
        const auto hit = c.index->take("r", join(repeat(7, 40), words({3, 3})));
        ASSERT_EQ(hit->length, 40);
        c.cache->close(hit->id);
    }
    for (int i = 0; i < 10; ++i) keep(repeat(100 + i, 60));
    while (c.index->stats().marks > 1) ASSERT_GT(c.index->evict(1, 0), 0U);
    EXPECT_EQ(c.index->find("r", join(repeat(7, 40), words({3, 3}))).length, 40);
}

}  // namespace
}  // namespace cellar::kv
