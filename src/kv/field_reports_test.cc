// Failures that users of other engines met, as far as the structure of a cache can have them. Names follow the kinds of the reports.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/check.h"
#include "kv/cache_fixture.h"

namespace cellar::kv {
namespace {

// --- A: wrong rows on a hit

// A place that is given to another conversation is empty before anything else happens.
TEST(FieldReportA, AVictimIsEmptiedFirst) {
    CacheFixture f({Keep::all(), Keep::window(16)}, 256, 256);
    const SeqId old = f.open();
    f.grow(old, 200);
    f.cache().close(old);
    EXPECT_EQ(f.cache().stats().groups[0].blocks_used, 0);
    const SeqId fresh = f.open();
    EXPECT_EQ(f.cache().length(fresh), 0);
    EXPECT_EQ(f.cache().common_prefix(fresh, text(0, 10)), 0);
    f.grow(fresh, 10);
    EXPECT_EQ(f.held(fresh, 0), 10);
}

// A prompt shorter than what is kept gets the shorter state, never the longer one.
TEST(FieldReportA, AShorterPromptGetsTheShorterState) {
    CacheFixture f({Keep::all()}, 256, 512);
    const SeqId a = f.open();
    f.grow(a, 80);
    const auto before = f.bytes(a);
    const SeqId b = f.fork(a, 40);
    EXPECT_EQ(f.cache().length(b), 40);
    f.grow(b, 1);
    EXPECT_EQ(f.held(b, 0), 41);
    EXPECT_EQ(f.bytes(a), before);
}

// Prompts whose ids differ by a multiple of 256 or 65536 share nothing.
TEST(FieldReportA, WholeTokensAreCompared) {
    CacheFixture f({Keep::all()}, 256, 512);
    const SeqId a = f.open();
    f.grow_with(a, std::vector<Token>(16, Token{65, 0, 0}));
    for (const int32_t other : {65 + 256, 65 + 65536, 65 + (1 << 24)})
        EXPECT_EQ(f.cache().common_prefix(a, std::vector<Token>(16, Token{other, 0, 0})), 0);
}

// The same text around another image is equal up to the image and no further.
TEST(FieldReportA, AnotherImageIsAnotherPrefix) {
    CacheFixture f({Keep::all()}, 256, 512);
    auto prompt = text(0, 30);
    for (size_t i = 10; i < 20; ++i) prompt[i] = {9, 10, 0x1111};
    const SeqId a = f.open();
    f.grow_with(a, prompt);
    auto other = prompt;
    for (size_t i = 10; i < 20; ++i) other[i].media = 0x2222;
    EXPECT_EQ(f.cache().common_prefix(a, prompt), 30);
    EXPECT_EQ(f.cache().common_prefix(a, other), 10);
    for (size_t i = 10; i < 20; ++i) other[i].media = 0;
    EXPECT_EQ(f.cache().common_prefix(a, other), 10);
}

// Cells that nobody holds any more hold NaN, so nothing can be read from them by accident.
TEST(FieldReportA, FreedCellsAreNaN) {
    CacheFixture f({Keep::all()}, 256, 512);
    const SeqId a = f.open();
    f.grow(a, 40);
    const SeqId b = f.fork(a, 20);
    f.cache().trim(a, 10);
    EXPECT_EQ(f.verify(), "") << "10 to 19 are held by the fork, 20 to 31 are NaN, their block is in use";
    f.cache().close(b);
    EXPECT_EQ(f.verify(), "");
}

// Two that share and both run past the window: each block is counted once for each holder.
TEST(FieldReportA, SharedBlocksBehindTheWindowAreFreedOnce) {
    CacheFixture f({Keep::window(64), Keep::all()}, 512, 1024);
    const SeqId a = f.open();
    f.grow(a, 100);
    const SeqId b = f.fork(a, 60);
    EXPECT_EQ(f.cache().length(b), 0) << "the window at 60 is gone";
    f.cache().close(b);
    const SeqId c = f.open();
    f.grow(c, 60);
    const SeqId d = f.fork(c, 60);
    EXPECT_EQ(f.cache().length(d), 60);
    for (int i = 0; i < 200; ++i) {
        f.grow(c, 1);
        f.grow(d, 1);
    }
    EXPECT_EQ(f.held(c, 0), 63);
    f.cache().close(c);
    f.cache().close(d);
    f.cache().close(a);
    for (const GroupStats& g : f.cache().stats().groups) EXPECT_EQ(g.blocks_used, 0);
    EXPECT_EQ(f.verify(), "");
}

// What one takes from a kept prefix and goes on from leaves the prefix as it was.
TEST(FieldReportA, AKeptPrefixNeverChanges) {
    CacheFixture f({Keep::all(), Keep::window(16)}, 512, 1024);
    const SeqId kept = f.open();
    f.grow(kept, 50);
    const auto before = f.bytes(kept);
    for (int i = 0; i < 3; ++i) {
        const SeqId hit = f.fork(kept, 50);
        f.grow(hit, 50);
        EXPECT_EQ(f.bytes(kept), before);
        f.cache().trim(hit, 45);
        f.grow(hit, 3);
        EXPECT_EQ(f.bytes(kept), before);
        if (i % 2 == 0) f.cache().close(hit);
    }
    const SeqId again = f.fork(kept, 50);
    EXPECT_EQ(f.bytes(again), before);
}

// Remove, shift and overwrite of one that shares leave the other as it was, byte for byte.
TEST(FieldReportA, AnEditOfASharedBlockStaysPrivate) {
    for (int edit = 0; edit < 3; ++edit) {
        CacheFixture f({Keep::all()}, 512, 1024);
        const SeqId a = f.open();
        f.grow(a, 100);
        const SeqId b = f.fork(a, 100);
        const auto before = f.bytes(b);
        if (edit == 0) {
            f.cache().remove(a, {20, 40});
        } else if (edit == 1) {
            ASSERT_TRUE(f.cache().remove_and_shift(a, {20, 40}));
        } else {
            f.cache().trim(a, 20);
        }
        f.grow(a, 60);
        EXPECT_EQ(f.bytes(b), before);
        EXPECT_EQ(f.held(b, 0), 100);
        EXPECT_EQ(f.cache().pure(b), 100);
    }
}

// --- B: windows and chunks

TEST(FieldReportB, AWindowThatSlidTrimsAndGoesOn) {
    // Window 8: 13 tokens, 3 back, 5 more. What is left at 10 needs positions 3 to 9, of which 3 to 5 are gone.
    CacheFixture f({Keep::window(8)}, 64, 64);
    const SeqId a = f.open();
    f.grow(a, 13);
    EXPECT_EQ(f.cache().restorable(a, 12), 0);
    EXPECT_EQ(f.cache().restorable(a, 13), 13);
    EXPECT_EQ(f.cache().trim(a, 10), 0) << "the length reached, not a promise";
    f.grow(a, 10);
    f.grow(a, 5);
    EXPECT_EQ(f.held(a, 0), 7);
    EXPECT_EQ(f.cache().runs(a, 0).front().pos, 8);
}

TEST(FieldReportB, AWindowHoldsNoMoreThanItselfAndTheStep) {
    for (const int32_t chunk : {1, 2, 5, 16, 17, 40}) {
        CacheFixture f({Keep::window(16)}, 512, 512);
        const SeqId a = f.open();
        for (int32_t n = 0; n + chunk <= 400; n += chunk) {
            f.grow(a, chunk);
            EXPECT_LE(f.most_held(), 15 + chunk);
            EXPECT_EQ(f.held(a, 0), std::min(n + chunk, 15));
        }
    }
}

TEST(FieldReportB, LengthsAroundTheWindow) {
    for (const int32_t first : {6, 7, 8, 9}) {
        CacheFixture f({Keep::window(8)}, 64, 64);
        const SeqId a = f.open();
        f.grow(a, first);
        for (int i = 0; i < 4; ++i) {
            EXPECT_EQ(f.held(a, 0), std::min(f.cache().length(a), 7));
            f.grow(a, 1);  // checks what the view sees against the model
        }
    }
}

TEST(FieldReportB, AWindowThatSlidSharesAStepWithAShortOne) {
    CacheFixture f({Keep::window(1024)}, 2048, 4096);
    const SeqId a = f.open();
    for (int i = 0; i < 25; ++i) f.grow(a, 41);
    const SeqId b = f.open();
    f.grow_together({{a, 1}, {b, 10}});
    f.grow_together({{a, 1}, {b, 1}});
    EXPECT_EQ(f.held(a, 0), 1023);
    EXPECT_EQ(f.held(b, 0), 11);
}

TEST(FieldReportB, ReuseIsTheLeastOfAllGroups) {
    CacheFixture f({Keep::all(), Keep::window(64), Keep::window(16)}, 512, 1024);
    const SeqId a = f.open();
    f.grow(a, 50);
    const SeqId early = f.fork(a, 50);
    f.grow(a, 50);
    // At 50 the window of 16 is gone from the longer one; the fork taken at 50 still has it.
    EXPECT_EQ(f.cache().restorable(a, 50), 0);
    EXPECT_EQ(f.cache().restorable(a, 99), 0);
    EXPECT_EQ(f.cache().restorable(a, 100), 100);
    EXPECT_EQ(f.cache().restorable(early, 50), 50);
    EXPECT_EQ(f.cache().length(f.fork(early, 60)), 50);
}

TEST(FieldReportB, TwentyBranchesInASmallPoolOfWindows) {
    CacheFixture f({Keep::all(), Keep::window(128)}, 2000, 2048);
    const SeqId trunk = f.open();
    f.grow(trunk, 300);
    for (int turn = 0; turn < 20; ++turn) {
        const SeqId branch = f.fork(trunk, 300);
        EXPECT_EQ(f.cache().length(branch), 300);
        f.grow(branch, 60);
        f.cache().close(branch);
    }
    EXPECT_EQ(f.cache().stats().groups[1].blocks_used, 5);
}

TEST(FieldReportB, FourTurnsPastTheWindow) {
    CacheFixture f({Keep::window(512), Keep::all()}, 2048, 2048);
    const SeqId a = f.open();
    for (int turn = 0; turn < 4; ++turn) {
        for (int i = 0; i < 8; ++i) f.grow(a, 50);
        EXPECT_EQ(f.held(a, 0), std::min(f.cache().length(a), 511));
        EXPECT_EQ(f.held(a, 1), f.cache().length(a));
    }
}

// A token past the border of a chunk sees its own chunk only, in prefill and in decode alike.
TEST(FieldReportB, AChunkBeginsAnewAtItsBorder) {
    CacheFixture f({Keep::chunk(16)}, 256, 256);
    const SeqId a = f.open();
    f.grow(a, 14);
    for (int i = 0; i < 6; ++i) {
        f.grow(a, 1);
        EXPECT_EQ(f.held(a, 0), f.cache().length(a) % 16);
    }
    f.grow(a, 30);
    EXPECT_EQ(f.held(a, 0), 2);
    EXPECT_EQ(f.cache().restorable(a, 49), 49);
    EXPECT_EQ(f.cache().restorable(a, 40), 32);
    EXPECT_EQ(f.cache().restorable(a, 32), 32) << "an empty chunk needs nothing";
}

// --- D: shifts and positions

// A shift touches no row, in no format, however often; so nothing can drift.
TEST(FieldReportD, AShiftTouchesNoRow) {
    CacheFixture f({Keep::all()}, 1024, 1024);
    const SeqId a = f.open();
    f.grow(a, 600);
    const auto all = f.bytes(a);
    for (int i = 0; i < 20; ++i) {
        const auto before = f.bytes(a);
        const size_t ledger = f.cache().ledger_bytes();
        ASSERT_TRUE(f.cache().remove_and_shift(a, {10, 17}));
        EXPECT_EQ(f.verify(), "");
        EXPECT_LE(f.cache().ledger_bytes(), ledger);
        EXPECT_EQ(f.cache().length(a), 600 - 7 * (i + 1));
        EXPECT_EQ(f.cache().runs(a, 0).size(), 2U);
        EXPECT_EQ(f.cache().runs(a, 0)[1].pos, 10);
        EXPECT_EQ(f.cache().runs(a, 0)[1].turn, -7 * (i + 1));
        EXPECT_LT(f.bytes(a).size(), before.size());
    }
    // New tokens are written where they stand and need no turn.
    f.grow(a, 5);
    EXPECT_EQ(f.cache().runs(a, 0).back().turn, 0);
    EXPECT_EQ(f.cache().token(a, 459).rotary, 459);
    EXPECT_EQ(f.cache().token(a, 464).rotary, 464);
}

// Five of text, six of an image at one rotary position, three of text: what is behind the image keeps following it in its own count.
TEST(FieldReportD, RemovingAnImageShiftsByRotaryPositions) {
    CacheFixture f({Keep::all()}, 64, 64);
    const SeqId a = f.open();
    std::vector<Token> prompt;
    for (int32_t i = 0; i < 5; ++i) prompt.push_back({i, i, 0});
    for (int32_t i = 0; i < 6; ++i) prompt.push_back({99, 5, 0xabc});
    for (int32_t i = 0; i < 3; ++i) prompt.push_back({50 + i, 6 + i, 0});
    f.grow_with(a, prompt);
    const SeqId b = f.fork(a, 14);
    ASSERT_TRUE(f.cache().remove_and_shift(a, {5, 11}));
    EXPECT_EQ(f.cache().length(a), 8);
    for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(f.cache().token(a, 5 + i), (Token{50 + i, 5 + i, 0}));
    EXPECT_EQ(f.cache().runs(a, 0).back().turn, -1) << "one rotary position went, though six tokens did";
    EXPECT_EQ(f.cache().token(b, 13), (Token{52, 8, 0}));
    // Keeping the gap changes no position of any other token.
    EXPECT_EQ(f.cache().remove(b, {5, 11}), 6);
    EXPECT_EQ(f.cache().length(b), 14);
    EXPECT_EQ(f.cache().runs(b, 0).back().pos, 11);
    EXPECT_EQ(f.cache().runs(b, 0).back().turn, 0);
    EXPECT_EQ(f.verify(), "");
}

TEST(FieldReportD, AShiftThatAWindowCannotFollowIsRefusedBeforeItStarts) {
    CacheFixture f({Keep::all(), Keep::window(16)}, 256, 256);
    const SeqId a = f.open();
    f.grow(a, 100);
    const auto before = f.bytes(a);
    // The window holds 85 to 99. Taking out 90 to 95 would make it reach back to 79.
    const auto refused = f.cache().remove_and_shift(a, {90, 96});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Unsupported);
    EXPECT_NE(refused.error().message.find("90 to 96 of 100"), std::string::npos) << refused.error().message;
    EXPECT_EQ(f.bytes(a), before);
    EXPECT_EQ(f.cache().length(a), 100);
    ASSERT_TRUE(f.cache().remove_and_shift(a, {20, 60}));
    EXPECT_EQ(f.cache().length(a), 60);
    EXPECT_EQ(f.held(a, 1), 15);
    EXPECT_EQ(f.verify(), "");
}

// --- F, G: limits

// An entry larger than the budget is refused before any of its memory is touched; others go on.
TEST(FieldReportF, TwiceTheBudgetIsRefusedUntouched) {
    CacheLimits limits;
    limits.context = 4096;
    limits.max_seqs = 2;
    limits.max_step_tokens = 2048;
    const CacheSpec spec{{{Keep::all(), 4, {{"k", 4, 64, RowFormat::F16}, {"v", 4, 64, RowFormat::F16}}}}, {}};
    limits.budget_bytes = size_t{1} << 20;
    auto cache = *Cache::make(spec, limits);
    const SeqId a = *cache->open();
    const auto tokens = text(0, 512);  // 2 MB
    const Append append{a, tokens};
    Step step;
    ASSERT_FALSE(cache->begin({&append, 1}, step));
    EXPECT_EQ(cache->ledger_bytes(), cache->stats().table_bytes);
    const Append less{a, {tokens.data(), 64}};
    EXPECT_TRUE(cache->begin({&less, 1}, step));
}

// One that goes over a limit says so for itself; the others of the step are as before.
TEST(FieldReportG, OneOverTheLimitDoesNotHarmTheOthers) {
    CacheFixture f({Keep::all()}, 100, 512);
    const SeqId a = f.open();
    const SeqId b = f.open();
    f.grow(a, 95);
    f.grow(b, 20);
    const auto tokens = text(0, 10);
    const Append both[] = {{b, tokens}, {a, tokens}};
    Step step;
    const auto full = f.cache().begin(both, step);
    ASSERT_FALSE(full);
    EXPECT_NE(full.error().message.find("context is 100"), std::string::npos) << full.error().message;
    f.grow(b, 10);
    f.grow(a, 5);
}

// --- H: what a step sees does not depend on where it lies

TEST(FieldReportH, ScatteredAndDenseHoldTheSameRows) {
    CacheFixture f({Keep::all(), Keep::window(24)}, 512, 2048);
    const SeqId dense = f.open();
    f.grow(dense, 200);
    std::vector<SeqId> others = {f.open(), f.open()};
    const SeqId scattered = f.open();
    std::mt19937 random(3);
    while (f.cache().length(scattered) < 200) {
        f.grow(others[random() % 2], 1 + static_cast<int32_t>(random() % 3));
        f.grow(scattered, std::min<int32_t>(200 - f.cache().length(scattered), 1 + static_cast<int32_t>(random() % 9)));
        if (f.cache().length(others[0]) > 400) f.cache().trim(others[0], 0);
    }
    EXPECT_GE(f.cache().runs(scattered, 0).size(), 3U);
    EXPECT_EQ(f.bytes(scattered), f.bytes(dense));
}

// --- J: packed rows

TEST(FieldReportJ, NoBlockSpansHeadsOrCells) {
    for (const int width : {1, 31, 32, 33, 64, 80, 96, 128, 256, 512, 576}) {
        for (const RowFormat format : {RowFormat::F32, RowFormat::F16, RowFormat::BF16, RowFormat::Q8_0}) {
            // K and V may differ in width and format.
            const CacheSpec spec{{{Keep::all(), 2, {{"k", 3, width, format}, {"v", 3, 64, RowFormat::Q8_0}}}}, {}};
            CacheLimits limits;
            limits.context = 64;
            auto cache = *Cache::make(spec, limits);
            const RowTable& row = cache->rows(0)[0];
            EXPECT_GE(row.row_bytes, head_row_bytes(format, width));
            for (int head = 0; head < 3; ++head) {
                EXPECT_EQ(row.at(1, head, 1) - row.at(1, head, 0), static_cast<ptrdiff_t>(row.row_bytes));
                EXPECT_TRUE(head == 0 || row.at(1, head, 0) >= row.at(1, head - 1, 63) + row.row_bytes);
            }
        }
    }
}

// --- defragmentation

// Random holes, then compact: every position has the bytes it had, and the moves can be replayed elsewhere in their order.
TEST(FieldReportG, CompactIsAPurePermutation) {
    CacheFixture f({Keep::all(), Keep::window(40)}, 512, 2048);
    std::vector<SeqId> ids;
    for (int i = 0; i < 6; ++i) ids.push_back(f.open());
    std::mt19937 random(5);
    for (int i = 0; i < 40; ++i) f.grow(ids[random() % 6], 1 + static_cast<int32_t>(random() % 50));
    f.cache().close(ids[1]);
    f.cache().close(ids[4]);
    const SeqId fork = f.fork(ids[0], f.cache().length(ids[0]));
    f.grow(ids[0], 3);
    f.grow(fork, 3);
    f.cache().remove(ids[2], {10, 70});
    std::vector<std::vector<std::byte>> before;
    std::vector<SeqId> left = {ids[0], ids[2], ids[3], ids[5], fork};
    for (const SeqId id : left) before.push_back(f.bytes(id));
    // What lies in each cell of group 0, moved along beside it.
    std::vector<int32_t> content(2048);
    std::vector<std::vector<kv::Run>> old_runs;
    for (int32_t c = 0; c < 2048; ++c) content[static_cast<size_t>(c)] = c;
    for (const SeqId id : left) old_runs.emplace_back(f.cache().runs(id, 0).begin(), f.cache().runs(id, 0).end());
    const auto moves = f.cache().compact();
    EXPECT_FALSE(moves.empty());
    for (const Move& move : moves) {
        if (move.group != 0) continue;
        for (int32_t i = 0; i < move.len; ++i) content[static_cast<size_t>(move.to + i)] = content[static_cast<size_t>(move.from + i)];
    }
    EXPECT_EQ(f.verify(), "");
    for (size_t i = 0; i < left.size(); ++i) {
        EXPECT_EQ(f.bytes(left[i]), before[i]);
        const auto now = f.cache().runs(left[i], 0);
        EXPECT_LE(now.size(), old_runs[i].size());
        for (const kv::Run& run : old_runs[i]) {
            for (int32_t p = run.pos; p < run.end(); ++p) {
                const auto at = std::find_if(now.begin(), now.end(), [&](const kv::Run& r) { return r.pos <= p && p < r.end(); });
                ASSERT_NE(at, now.end());
                EXPECT_EQ(content[static_cast<size_t>(at->cell + p - at->pos)], run.cell + p - run.pos);
            }
        }
    }
    EXPECT_TRUE(f.cache().compact().empty()) << "nothing is left to do";
}

TEST(FieldReportD, ABakeWithoutRoomIsFullBeforeTheFirstRow) {
    CacheFixture f({Keep::all()}, 512, 512);
    const SeqId a = f.open();
    f.grow(a, 400);
    ASSERT_TRUE(f.cache().remove_and_shift(a, {10, 20}));
    const size_t ledger = f.cache().ledger_bytes();
    const auto before = f.bytes(a);
    {
        Bake bake;
        const auto full = f.cache().begin_bake(a, bake);
        ASSERT_FALSE(full);
        EXPECT_EQ(full.error().kind, ErrorKind::Full);
        EXPECT_EQ(f.cache().ledger_bytes(), ledger);
    }
    f.cache().trim(a, 150);
    const size_t trimmed = f.cache().ledger_bytes();
    {
        Bake bake;
        ASSERT_TRUE(f.cache().begin_bake(a, bake));
        EXPECT_EQ(f.verify(), "");
        int32_t cells = 0;
        for (const TurnedMove& move : bake.moves()) {
            EXPECT_EQ(move.turn, -10);
            cells += move.len;
        }
        EXPECT_EQ(cells, 140);
        // Cancelled.
    }
    EXPECT_EQ(f.verify(), "");
    EXPECT_EQ(f.cache().ledger_bytes(), trimmed);
    EXPECT_EQ(f.cache().runs(a, 0).back().turn, -10);
}

}  // namespace
}  // namespace cellar::kv
