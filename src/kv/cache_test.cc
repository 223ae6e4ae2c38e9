#include "kv/cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "base/check.h"
#include "kv/cache_fixture.h"
#include "kv/verify.h"

int64_t count_allocations();  // counted_new_test.cc

namespace cellar::kv {
namespace {

CacheLimits limits_of(int64_t context, int64_t cells = 0, int max_seqs = 8) {
    CacheLimits limits;
    limits.context = context;
    limits.cells = cells;
    limits.max_seqs = max_seqs;
    limits.poison = true;
    return limits;
}

std::unique_ptr<Cache> make(const std::vector<Keep>& keeps, const CacheLimits& limits) {
    auto cache = Cache::make(model_spec(keeps), limits);
    CHECK(cache.has_value());
    return std::move(*cache);
}

Result<void> grow(Cache& cache, SeqId id, int32_t n) {
    const auto tokens = text(cache.length(id), n);
    Step step;
    const Append append{id, tokens};
    CELLAR_TRY_VOID(cache.begin({&append, 1}, step));
    for (int32_t i = 0; i < n; ++i)
        write_rows(step.view(), i, static_cast<uint64_t>(id) * 1000 + static_cast<uint64_t>(tokens[static_cast<size_t>(i)].id));
    cache.commit(step);
    EXPECT_EQ(verify(cache), "");
    return {};
}

void must_grow(Cache& cache, SeqId id, int32_t n) {
    const auto grown = grow(cache, id, n);
    ASSERT_TRUE(grown) << grown.error().message;
}

SeqId must_open(Cache& cache) {
    const auto id = cache.open();
    CHECK(id.has_value());
    return *id;
}

SeqId must_fork(Cache& cache, SeqId id, int32_t at) {
    const auto fork = cache.fork(id, at);
    CHECK(fork.has_value());
    EXPECT_EQ(verify(cache), "");
    return *fork;
}

using Runs = std::vector<kv::Run>;
Runs runs(const Cache& cache, SeqId id, int group = 0) {
    return {cache.runs(id, group).begin(), cache.runs(id, group).end()};
}

// All bytes of all rows that the sequence holds, in position order.
std::vector<std::byte> bytes_of(const Cache& cache, SeqId id) {
    std::vector<std::byte> out;
    for (size_t g = 0; g < cache.spec().groups.size(); ++g) {
        for (const kv::Run& run : cache.runs(id, static_cast<int>(g))) {
            for (const RowTable& row : cache.rows(static_cast<int>(g))) {
                for (int plane = 0; plane < cache.spec().groups[g].planes; ++plane) {
                    for (int head = 0; head < row.heads; ++head) {
                        const std::byte* first = row.at(plane, head, run.cell);
                        out.insert(out.end(), first, first + static_cast<size_t>(run.len) * row.row_bytes);
                    }
                }
            }
        }
    }
    return out;
}

int32_t held(const Cache& cache, SeqId id, int group) {
    int32_t n = 0;
    for (const kv::Run& run : cache.runs(id, group)) n += run.len;
    return n;
}

// --- blocks and fills

TEST(CacheFill, AForkSharesToTheExactTokenAndCopiesNothing) {
    auto cache = make({Keep::all()}, limits_of(320));
    const SeqId a = must_open(*cache);
    must_grow(*cache, a, 45);
    const size_t ledger = cache->ledger_bytes();
    const SeqId b = must_fork(*cache, a, 37);
    EXPECT_EQ(cache->ledger_bytes(), ledger);
    EXPECT_EQ(runs(*cache, b), (Runs{{0, 0, 37, 0}}));
    EXPECT_EQ(cache->stats().groups[0].blocks_shared, 2);
    // Position 37 of the fork may not go to cell 37, which the other one sees.
    must_grow(*cache, b, 2);
    EXPECT_EQ(runs(*cache, b), (Runs{{0, 0, 37, 0}, {37, 64, 2, 0}}));
    // The other one's run ends at the fill of its block, so it goes on in place though the block is shared.
    must_grow(*cache, a, 2);
    EXPECT_EQ(runs(*cache, a), (Runs{{0, 0, 47, 0}}));
}

TEST(CacheFill, OfTwoThatEndAtTheFillTheFirstGrowsInPlace) {
    auto cache = make({Keep::all()}, limits_of(320));
    const SeqId a = must_open(*cache);
    must_grow(*cache, a, 10);
    const SeqId b = must_fork(*cache, a, 10);
    must_grow(*cache, b, 1);
    must_grow(*cache, a, 1);
    EXPECT_EQ(runs(*cache, b), (Runs{{0, 0, 11, 0}}));
    EXPECT_EQ(runs(*cache, a), (Runs{{0, 0, 10, 0}, {10, 32, 1, 0}}));
}

TEST(CacheFill, TheOnlyHolderTakesItsCellsAgainAfterATrim) {
    auto cache = make({Keep::all()}, limits_of(320));
    const SeqId a = must_open(*cache);
    must_grow(*cache, a, 30);
    EXPECT_EQ(cache->trim(a, 12), 12);
    EXPECT_EQ(cache->stats().groups[0].cells_filled, 12);
    // Fill fell back with the trim, so that of two holders the one at 12 goes on in place.
    const SeqId b = must_fork(*cache, a, 12);
    must_grow(*cache, a, 3);
    EXPECT_EQ(runs(*cache, a), (Runs{{0, 0, 15, 0}}));
    must_grow(*cache, b, 1);
    EXPECT_EQ(runs(*cache, b), (Runs{{0, 0, 12, 0}, {12, 32, 1, 0}}));
}

TEST(CacheFill, ATrimUnderASharerFreesNothingThatItSees) {
    auto cache = make({Keep::all()}, limits_of(320));
    const SeqId a = must_open(*cache);
    must_grow(*cache, a, 30);
    const SeqId b = must_fork(*cache, a, 30);
    const auto before = bytes_of(*cache, b);
    EXPECT_EQ(cache->trim(a, 12), 12);
    must_grow(*cache, a, 5);
    EXPECT_EQ(runs(*cache, a), (Runs{{0, 0, 12, 0}, {12, 32, 5, 0}}));
    EXPECT_EQ(bytes_of(*cache, b), before);
    cache->close(b);
    // Now the cells from 12 on are nobody's; the block's only holder does not end in it and leaves them.
    must_grow(*cache, a, 5);
    EXPECT_EQ(runs(*cache, a), (Runs{{0, 0, 12, 0}, {12, 32, 10, 0}}));
    EXPECT_EQ(cache->trim(a, 12), 12);
    must_grow(*cache, a, 5);
    EXPECT_EQ(runs(*cache, a), (Runs{{0, 0, 17, 0}}));
}

TEST(CacheFill, ABlockOfTwoRunsIsHeldOnce) {
    auto cache = make({Keep::all()}, limits_of(320));
    const SeqId a = must_open(*cache);
    must_grow(*cache, a, 30);
    EXPECT_EQ(cache->remove(a, {5, 10}), 5);
    EXPECT_EQ(verify(*cache), "");
    EXPECT_EQ(runs(*cache, a), (Runs{{0, 0, 5, 0}, {10, 10, 20, 0}}));
    const SeqId b = must_fork(*cache, a, 30);
    EXPECT_EQ(cache->stats().groups[0].blocks_used, 1);
    cache->close(a);
    EXPECT_EQ(cache->stats().groups[0].blocks_used, 1);
    cache->close(b);
    EXPECT_EQ(cache->stats().groups[0].blocks_used, 0);
    EXPECT_EQ(verify(*cache), "");
}

TEST(CacheFill, CoalescedRunsStayOneOverManyBlocks) {
    auto cache = make({Keep::all()}, limits_of(4096));
    const SeqId a = must_open(*cache);
    for (int i = 0; i < 300; ++i) must_grow(*cache, a, 1 + i % 3);
    EXPECT_EQ(cache->runs(a, 0).size(), 1U);
}

TEST(CacheFill, FullPoolIsFullNeverFragmented) {
    // Four sequences, given back in another order; then a prompt of exactly what is free.
    auto cache = make({Keep::all()}, limits_of(2048, 1024));
    std::vector<SeqId> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(must_open(*cache));
    for (int round = 0; round < 8; ++round) {
        for (const SeqId id : ids) must_grow(*cache, id, 32);
    }
    cache->close(ids[2]);
    cache->close(ids[0]);
    const SeqId big = must_open(*cache);
    must_grow(*cache, big, 512);
    EXPECT_EQ(cache->stats().groups[0].blocks_used, 32);
    const auto full = grow(*cache, big, 1);
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().kind, ErrorKind::Full);
    EXPECT_NE(full.error().message.find("0 of 32 blocks of 32 cells"), std::string::npos) << full.error().message;
}

// --- steps

TEST(CacheStep, ReservesForAllOrForNone) {
    auto cache = make({Keep::all(), Keep::window(16)}, limits_of(2048, 256));
    const SeqId a = must_open(*cache);
    const SeqId b = must_open(*cache);
    must_grow(*cache, a, 40);
    must_grow(*cache, b, 150);
    const size_t ledger = cache->ledger_bytes();
    const auto before = runs(*cache, a);
    const auto more = text(0, 100);
    const Append appends[] = {{a, {more.data(), 20}}, {b, more}};
    Step step;
    const auto full = cache->begin(appends, step);
    ASSERT_FALSE(full);
    EXPECT_FALSE(step.is_open());
    EXPECT_EQ(cache->ledger_bytes(), ledger);
    EXPECT_EQ(runs(*cache, a), before);
    EXPECT_EQ(cache->length(a), 40);
    EXPECT_EQ(verify(*cache), "");
    // What fits still fits.
    must_grow(*cache, a, 20);
    must_grow(*cache, b, 42);
}

TEST(CacheStep, AnAbandonedStepLeavesEverythingAsItWas) {
    auto cache = make({Keep::all(), Keep::chunk(32)}, limits_of(512));
    const SeqId a = must_open(*cache);
    must_grow(*cache, a, 40);
    const SeqId b = must_fork(*cache, a, 40);
    const auto stats = cache->stats();
    const auto before = bytes_of(*cache, a);
    const auto tokens = text(40, 70);
    {
        Step step;
        const Append appends[] = {{b, tokens}, {a, tokens}};
        ASSERT_TRUE(cache->begin(appends, step));
        EXPECT_EQ(verify(*cache), "");
        EXPECT_EQ(cache->length(a), 40);
        // Destroyed while open.
    }
    EXPECT_EQ(verify(*cache), "");
    EXPECT_EQ(cache->stats().ledger_bytes, stats.ledger_bytes);
    EXPECT_EQ(cache->stats().groups[0].cells_filled, stats.groups[0].cells_filled);
    EXPECT_EQ(bytes_of(*cache, a), before);
    must_grow(*cache, a, 1);
    EXPECT_EQ(runs(*cache, a), (Runs{{0, 0, 41, 0}}));
}

TEST(CacheStep, KeepsOnlyTheTokensThatWereAccepted) {
    // A guess of eight tokens of which three are right: the window has not slid over what the shorter sequence needs.
    auto cache = make({Keep::all(), Keep::window(6)}, limits_of(512));
    const SeqId a = must_open(*cache);
    must_grow(*cache, a, 40);
    const auto tokens = text(40, 8);
    const Append append{a, tokens};
    Step step;
    ASSERT_TRUE(cache->begin({&append, 1}, step));
    for (int32_t i = 0; i < 8; ++i) write_rows(step.view(), i, 5000U + static_cast<uint64_t>(i));
    const int32_t kept = 3;
    cache->commit(step, {&kept, 1});
    EXPECT_EQ(verify(*cache), "");
    EXPECT_EQ(cache->length(a), 43);
    EXPECT_EQ(cache->pure(a), 43);
    EXPECT_EQ(held(*cache, a, 1), 5);
    EXPECT_EQ(runs(*cache, a, 1).front().pos, 38);
    EXPECT_EQ(runs(*cache, a), (Runs{{0, 0, 43, 0}}));
}

TEST(CacheStep, TheViewHoldsEverySequenceAndNothingElse) {
    // Two sequences that took their cells in turns, a prompt for one and one token for the other in the same step.
    auto cache = make({Keep::all()}, limits_of(512));
    const SeqId a = must_open(*cache);
    const SeqId b = must_open(*cache);
    for (int i = 0; i < 70; ++i) {
        must_grow(*cache, a, 1);
        must_grow(*cache, b, 1);
    }
    const auto one = text(70, 1);
    const auto many = text(70, 40);
    const Append appends[] = {{a, one}, {b, many}};
    Step step;
    ASSERT_TRUE(cache->begin(appends, step));
    const View& view = step.view();
    EXPECT_EQ(view.tokens, 41);
    const auto seqs = view.groups[0].seqs;
    ASSERT_EQ(seqs.size(), 2U);
    EXPECT_EQ(seqs[1].first_token, 1);
    EXPECT_EQ(seqs[1].tokens, 40);
    EXPECT_EQ(seqs[1].first_pos, 70);
    std::vector<int> owner(1024, -1);
    for (int s = 0; s < 2; ++s) {
        int32_t covered = 0;
        for (const kv::Run& run : seqs[static_cast<size_t>(s)].runs) {
            covered += run.len;
            for (int32_t c = run.cell; c < run.cell + run.len; ++c) {
                EXPECT_EQ(owner[static_cast<size_t>(c)], -1);
                owner[static_cast<size_t>(c)] = s;
            }
        }
        EXPECT_EQ(covered, s == 0 ? 71 : 110);
    }
    for (size_t t = 0; t < 41; ++t) EXPECT_EQ(owner[static_cast<size_t>(view.groups[0].write_cells[t])], t == 0 ? 0 : 1);
}

TEST(CacheStep, DecodingCallsNoAllocator) {
    for (const int64_t context : {2048, 1'000'000}) {
        CacheLimits limits = limits_of(context);
        limits.poison = false;
        auto cache = make({Keep::all(), Keep::window(64), Keep::chunk(48)}, limits);
        const SeqId a = must_open(*cache);
        const SeqId b = must_open(*cache);
        const auto prompt = text(0, 300);
        Step step;
        const Append first[] = {{a, prompt}, {b, {prompt.data(), 100}}};
        ASSERT_TRUE(cache->begin(first, step));
        cache->commit(step);
        const int64_t before = count_allocations();
        for (int i = 0; i < 500; ++i) {
            const Token token{i, 300 + i, 0};
            const Append appends[] = {{a, {&token, 1}}, {b, {&token, 1}}};
            const bool begun = cache->begin(appends, step).has_value();
            CHECK(begun);
            cache->commit(step);
        }
        EXPECT_EQ(count_allocations() - before, 0) << context;
        // A later sequence of the same slot takes over its tables.
        cache->close(b);
        const int64_t closed = count_allocations();
        const SeqId c = must_open(*cache);
        const Append again{c, prompt};
        const bool begun = cache->begin({&again, 1}, step).has_value();
        CHECK(begun);
        cache->commit(step);
        EXPECT_EQ(count_allocations() - closed, 0);
        // Until they are given back.
        cache->close(c);
        cache->compact();
        const int64_t compacted = count_allocations();
        must_open(*cache);
        EXPECT_GT(count_allocations() - compacted, 0);
    }
}

// --- limits and errors

TEST(CacheErrors, RefusesSpecsThatMakeNoSense) {
    const CacheSpec good = model_spec({Keep::all()});
    const auto message = [](const CacheSpec& spec, const CacheLimits& limits) {
        const auto made = Cache::make(spec, limits);
        return made ? std::string("made") : made.error().message;
    };
    EXPECT_EQ(message(good, limits_of(64)), "made");
    EXPECT_NE(message({}, limits_of(64)), "made");
    for (const Keep& keep : {Keep::window(0), Keep::chunk(-1), Keep::window(8, -1), Keep::state()})
        EXPECT_NE(message(model_spec({keep}), limits_of(64)), "made");
    EXPECT_NE(message(model_spec({Keep::state()}), limits_of(64)).find("recurrent state"), std::string::npos);
    CacheSpec bad = good;
    bad.groups[0].planes = 0;
    EXPECT_NE(message(bad, limits_of(64)), "made");
    bad = good;
    bad.groups[0].rows.clear();
    EXPECT_NE(message(bad, limits_of(64)), "made");
    bad = good;
    bad.groups[0].rows[0].width = 0;
    EXPECT_NE(message(bad, limits_of(64)), "made");
    bad = good;
    bad.layers = {{0, 2}};
    EXPECT_NE(message(bad, limits_of(64)).find("plane 2"), std::string::npos);
    for (const int block : {0, 8, 33, 128}) {
        CacheLimits limits = limits_of(64);
        limits.block = block;
        EXPECT_NE(message(good, limits).find(fmt::format("blocks of {}", block)), std::string::npos);
    }
    EXPECT_NE(message(good, limits_of(0)), "made");
    EXPECT_NE(message(good, limits_of(INT64_MAX)), "made");
    EXPECT_NE(message(good, limits_of(64, -1)), "made");
    EXPECT_NE(message(good, limits_of(64, 64, 0)), "made");
    CacheSpec huge = good;
    huge.groups[0].planes = 100'000;
    huge.groups[0].rows[0] = {"k", 1'000'000, 1'000'000, RowFormat::F32};
    const auto made = Cache::make(huge, limits_of(1'000'000));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::Full);
}

// A context of 64 takes 63 and 64 tokens and refuses 65 with both numbers.
TEST(FieldReportD, PromptOf63And64And65In64) {
    for (const int32_t n : {63, 64, 65}) {
        auto cache = make({Keep::all()}, limits_of(64));
        const SeqId a = must_open(*cache);
        const auto grown = grow(*cache, a, n);
        EXPECT_EQ(grown.has_value(), n <= 64);
        if (grown) {
            const auto more = grow(*cache, a, 65 - n);
            ASSERT_FALSE(more);
            EXPECT_EQ(more.error().kind, ErrorKind::Full);
            EXPECT_NE(more.error().message.find("64"), std::string::npos);
        } else {
            EXPECT_NE(grown.error().message.find("65"), std::string::npos);
            EXPECT_NE(grown.error().message.find("64"), std::string::npos);
            EXPECT_EQ(cache->stats().groups[0].blocks_used, 0);
        }
    }
}

TEST(CacheErrors, MoreSequencesThanAllowedIsFull) {
    auto cache = make({Keep::all()}, limits_of(64, 0, 2));
    const SeqId a = must_open(*cache);
    must_open(*cache);
    const auto third = cache->open();
    ASSERT_FALSE(third);
    EXPECT_EQ(third.error().kind, ErrorKind::Full);
    ASSERT_FALSE(cache->fork(a, 0));
    cache->close(a);
    const SeqId b = must_open(*cache);
    EXPECT_GT(static_cast<uint64_t>(b), static_cast<uint64_t>(a)) << "ids grow";
    EXPECT_FALSE(cache->is_open(a));
    EXPECT_DEATH((void)cache->length(a), "CHECK");
}

// --- the log

TEST(CacheLog, ComparesTokensWithTheirPositionsAndMedia) {
    auto cache = make({Keep::all()}, limits_of(1024));
    const SeqId a = must_open(*cache);
    const auto tokens = text(0, 500);
    must_grow(*cache, a, 500);
    EXPECT_EQ(cache->common_prefix(a, tokens), 500);
    EXPECT_EQ(cache->token(a, 499), tokens[499]);
    for (const int32_t at : {0, 1, 255, 256, 257, 499}) {
        auto other = tokens;
        other[static_cast<size_t>(at)].id += 256;
        EXPECT_EQ(cache->common_prefix(a, other), at);
        other = tokens;
        other[static_cast<size_t>(at)].media = 1;
        EXPECT_EQ(cache->common_prefix(a, other), at);
        other = tokens;
        other[static_cast<size_t>(at)].rotary += 1;
        EXPECT_EQ(cache->common_prefix(a, other), at);
        EXPECT_EQ(cache->common_prefix(a, std::span(tokens).first(static_cast<size_t>(at))), at);
    }
    std::vector<int32_t> ids;
    for (const Token& token : tokens) ids.push_back(token.id);
    ids.push_back(3);
    EXPECT_EQ(cache->common_prefix(a, ids), 500);
    ids[300] = -1;
    EXPECT_EQ(cache->common_prefix(a, ids), 300);
}

// Each fork here leaves a block behind with one token in it. The log is written together before that takes more than about twice its room.
TEST(CacheLog, AnOftenForkedLogStaysSmall) {
    auto cache = make({Keep::window(4)}, limits_of(4096, 4096, 2));
    SeqId a = must_open(*cache);
    must_grow(*cache, a, 400);
    for (int i = 0; i < 100; ++i) {
        const SeqId b = must_fork(*cache, a, cache->length(a));
        must_grow(*cache, a, 1);
        must_grow(*cache, b, 1);
        cache->close(a);
        a = b;
        EXPECT_LE(cache->stats().log.blocks_used, 2 * (cache->length(a) / 256) + 9);
    }
    EXPECT_EQ(cache->common_prefix(a, text(0, 500)), 500);
    EXPECT_EQ(verify(*cache), "");
}

TEST(CacheLog, AnOftenCutLogKeepsItsTokensAndShifts) {
    auto cache = make({Keep::all()}, limits_of(4096, 4096, 2));
    const SeqId a = must_open(*cache);
    must_grow(*cache, a, 400);
    std::vector<Token> expected = text(0, 400);
    std::mt19937 random(2);
    for (int i = 0; i < 200; ++i) {
        must_grow(*cache, a, 3);
        for (const Token& token : text(400, 3)) expected.push_back({token.id, token.rotary, 0});
        const auto lo = static_cast<int32_t>(random() % 300);
        ASSERT_TRUE(cache->remove_and_shift(a, {lo, lo + 3}));
        expected.erase(expected.begin() + lo, expected.begin() + lo + 3);
        for (size_t p = 0; p < expected.size(); ++p) expected[p].rotary = static_cast<int32_t>(p);
        ASSERT_EQ(cache->common_prefix(a, expected), 400) << i;
    }
    EXPECT_LE(cache->stats().log.blocks_used, 2 * (400 / 256) + 9);
    EXPECT_EQ(verify(*cache), "");
}

TEST(CachePure, IsCutAtTheFirstRemovedPosition) {
    auto cache = make({Keep::all()}, limits_of(1024));
    const SeqId a = must_open(*cache);
    must_grow(*cache, a, 100);
    EXPECT_EQ(cache->pure(a), 100);
    const SeqId b = must_fork(*cache, a, 60);
    EXPECT_EQ(cache->remove(a, {70, 70}), 0);
    EXPECT_EQ(cache->pure(a), 100);
    EXPECT_EQ(cache->remove(a, {70, 80}), 10);
    EXPECT_EQ(cache->pure(a), 70);
    must_grow(*cache, a, 10);
    EXPECT_EQ(cache->pure(a), 70);
    EXPECT_EQ(cache->trim(a, 50), 50);
    must_grow(*cache, a, 10);
    EXPECT_EQ(cache->pure(a), 60) << "what was coloured is gone";
    ASSERT_TRUE(cache->remove_and_shift(b, {20, 30}));
    EXPECT_EQ(cache->pure(b), 20);
    const SeqId c = must_fork(*cache, b, 40);
    EXPECT_EQ(cache->pure(c), 20);
    // Taking the end away is a trim.
    ASSERT_TRUE(cache->remove_and_shift(a, {40, 60}));
    EXPECT_EQ(cache->length(a), 40);
    must_grow(*cache, a, 5);
    EXPECT_EQ(cache->pure(a), 45);
    cache->colour(a, 0);
    EXPECT_EQ(cache->pure(a), 0);
    EXPECT_EQ(verify(*cache), "");
}

// --- budget, memory, estimates

TEST(CacheBudget, FullComesBeforeTheMemoryIsTouched) {
    CacheSpec spec{{{Keep::all(), 4, {{"k", 8, 128, RowFormat::F16}, {"v", 8, 128, RowFormat::F16}}}}, {}};
    CacheLimits limits;
    limits.context = 100'000;
    limits.max_seqs = 1;
    limits.budget_bytes = size_t{3} << 20;
    auto cache = *Cache::make(spec, limits);
    const SeqId a = must_open(*cache);
    const auto tokens = text(0, 256);
    const Append append{a, tokens};
    Step step;
    const auto full = cache->begin({&append, 1}, step);
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().kind, ErrorKind::Full);
    EXPECT_NE(full.error().message.find(fmt::format("{}", limits.budget_bytes)), std::string::npos) << full.error().message;
    EXPECT_LE(cache->ledger_bytes(), limits.budget_bytes);
    EXPECT_EQ(cache->ledger_bytes(), cache->stats().table_bytes);
    const Append less{a, {tokens.data(), 128}};
    EXPECT_TRUE(cache->begin({&less, 1}, step));
    cache->commit(step);
}

TEST(CacheBudget, WhatIsGivenUpIsNobodysAnyMore) {
    CacheLimits limits = limits_of(4096, 0, 2);
    limits.budget_bytes = size_t{256} << 10;
    auto cache = make({Keep::all()}, limits);
    const SeqId live = must_open(*cache);
    const SeqId kept = must_open(*cache);
    must_grow(*cache, live, 100);
    must_grow(*cache, kept, 100);
    const size_t free = limits.budget_bytes - cache->ledger_bytes();
    EXPECT_FALSE(cache->give_up(free + 1)) << "live sequences have it";
    ASSERT_TRUE(cache->give_up(free));
    EXPECT_EQ(verify(*cache), "");
    EXPECT_FALSE(grow(*cache, live, 100));
    cache->set_reclaim([&](size_t) {
        const size_t before = cache->ledger_bytes();
        if (cache->is_open(kept)) cache->close(kept);
        return before - cache->ledger_bytes();
    });
    EXPECT_TRUE(cache->give_up(1000)) << "for that, what is only kept goes";
    EXPECT_FALSE(cache->is_open(kept));
    EXPECT_EQ(verify(*cache), "");
    EXPECT_FALSE(cache->give_up(limits.budget_bytes));
}

TEST(CacheBudget, GroupsShareIt) {
    // What a window has let go another group may take, pages included.
    CacheLimits limits = limits_of(4096, 0, 2);
    limits.poison = false;
    const auto keeps = std::vector<Keep>{Keep::all(), Keep::window(32)};
    const int64_t lengths[] = {1024};
    const Estimate estimate = *kv::estimate(model_spec(keeps), limits, lengths, 32);
    limits.budget_bytes = estimate.peak_bytes;
    auto cache = make(keeps, limits);
    const SeqId a = must_open(*cache);
    for (int i = 0; i < 32; ++i) must_grow(*cache, a, 32);
    EXPECT_EQ(cache->ledger_bytes(), estimate.ledger_bytes);
    EXPECT_FALSE(grow(*cache, a, 33));
}

TEST(CacheEstimate, EqualsTheLedgerByteForByte) {
    const std::vector<std::vector<Keep>> mixes = {
        {Keep::all()}, {Keep::all(), Keep::window(64), Keep::window(16, 4)}, {Keep::chunk(48), Keep::all()}, {Keep::window(1)}};
    for (const auto& keeps : mixes) {
        for (const int block : {16, 32, 64}) {
            for (const int step : {1, 7, 120}) {
                CacheLimits limits = limits_of(600, 2400);
                limits.block = block;
                auto cache = make(keeps, limits);
                const int64_t lengths[] = {1, 47, 48, 257, 600};
                size_t empty = cache->ledger_bytes();
                EXPECT_EQ(estimate(cache->spec(), limits, {})->ledger_bytes, empty);
                for (const int64_t length : lengths) {
                    const SeqId id = must_open(*cache);
                    const auto tokens = text(0, static_cast<int32_t>(length));
                    for (int64_t at = 0; at < length; at += step) {
                        const Append append{
                            id, std::span(tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(std::min<int64_t>(step, length - at)))};
                        Step s;
                        ASSERT_TRUE(cache->begin({&append, 1}, s));
                        cache->commit(s);
                    }
                }
                const auto estimated = estimate(cache->spec(), limits, lengths, step);
                ASSERT_TRUE(estimated);
                EXPECT_EQ(estimated->ledger_bytes, cache->ledger_bytes()) << block << " " << step;
                EXPECT_TRUE(estimated->fits);
                for (size_t g = 0; g < keeps.size(); ++g) EXPECT_EQ(estimated->blocks[g], cache->stats().groups[g].blocks_used);
                EXPECT_EQ(estimated->log_blocks, cache->stats().log.blocks_used);
                EXPECT_EQ(verify(*cache), "");
            }
        }
    }
}

TEST(CacheEstimate, SaysWhatDoesNotFit) {
    CacheLimits limits = limits_of(600, 640, 2);
    const CacheSpec spec = model_spec({Keep::all()});
    const auto fits = [&](std::vector<int64_t> lengths) { return estimate(spec, limits, lengths)->fits; };
    EXPECT_TRUE(fits({600}));
    EXPECT_TRUE(fits({320, 320}));
    EXPECT_FALSE(fits({601}));
    EXPECT_FALSE(fits({320, 321}));
    EXPECT_FALSE(fits({1, 1, 1}));
    limits.budget_bytes = estimate(spec, limits, std::vector<int64_t>{320})->peak_bytes;
    EXPECT_TRUE(fits({320}));
    EXPECT_FALSE(fits({321}));
    EXPECT_FALSE(estimate(spec, limits, std::vector<int64_t>{-1}));
}

TEST(CacheEstimate, RefusesWhatHasNoAddresses) {
    CacheSpec spec = model_spec({Keep::all()});
    spec.groups[0].rows[0].heads = 1 << 10;
    spec.groups[0].rows[0].width = 1 << 10;
    const auto wide = estimate(spec, limits_of(600), std::vector<int64_t>{INT32_MAX / 2});
    ASSERT_TRUE(wide) << wide.error().message;
    EXPECT_GT(wide->peak_bytes, size_t{1} << 50);
    const auto wider = estimate(spec, limits_of(600), std::vector<int64_t>(65535, INT32_MAX / 2));
    ASSERT_FALSE(wider) << wider->peak_bytes;
    EXPECT_EQ(wider.error().message, "cache: 65535 sequences of up to 1073741823 tokens take more memory than there are addresses");
}

size_t resident_bytes() {
    long pages = 0;
    std::FILE* file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr || std::fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    if (file != nullptr) std::fclose(file);
    return static_cast<size_t>(pages) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

size_t resident_of_plane(const RowTable& row, int plane) {
    std::vector<unsigned char> pages((row.plane_stride + Mapping::page - 1) / Mapping::page);
    CHECK_EQ(mincore(row.at(plane, 0, 0), row.plane_stride, pages.data()), 0);
    return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1U) != 0; })) * Mapping::page;
}

// A context of a million of which a hundred tokens are used.
TEST(FieldReportF, AMillionPositionsCostWhatIsUsed) {
    CacheSpec spec{{{Keep::all(), 4, {{"k", 8, 64, RowFormat::F16}, {"v", 8, 64, RowFormat::F16}}},
                    {Keep::window(512), 4, {{"k", 8, 64, RowFormat::F16}, {"v", 8, 64, RowFormat::F16}}}},
                   {}};
    CacheLimits limits;
    limits.context = 1'000'000;
    limits.max_seqs = 4;
    const size_t before = resident_bytes();
    auto cache = *Cache::make(spec, limits);
    const SeqId a = must_open(*cache);
    const auto tokens = text(0, 100);
    const Append append{a, tokens};
    Step step;
    ASSERT_TRUE(cache->begin({&append, 1}, step));
    size_t rows = 0;
    for (const GroupView& group : step.view().groups) {
        for (const RowTable& row : group.rows) {
            for (int plane = 0; plane < 4; ++plane) {
                for (int head = 0; head < row.heads; ++head) {
                    for (const int32_t cell : group.write_cells) *row.at(plane, head, cell) = std::byte{1};
                }
            }
        }
    }
    cache->commit(step);
    for (int g = 0; g < 2; ++g) {
        for (const RowTable& row : cache->rows(g)) {
            for (int plane = 0; plane < 4; ++plane) {
                const size_t bytes = resident_of_plane(row, plane);
                EXPECT_LE(bytes, 5U * 32 * static_cast<size_t>(row.heads) * row.row_bytes);
                rows += bytes;
            }
        }
    }
#ifndef CELLAR_REDUCED_TESTS  // sanitizers keep shadows of the tables
    EXPECT_LT(resident_bytes() - before, rows + (size_t{16} << 20));
#else
    (void)before;
#endif
    EXPECT_LT(cache->stats().table_bytes, size_t{2} << 20);
}

TEST(FieldReportF, FreedBlocksGiveTheirPagesBackInBulk) {
    CacheSpec spec{{{Keep::all(), 2, {{"k", 4, 64, RowFormat::F16}}}}, {}};
    CacheLimits limits;
    limits.context = 8192;
    limits.max_step_tokens = 8192;
    auto cache = *Cache::make(spec, limits);
    const auto used = [&] { return resident_of_plane(cache->rows(0)[0], 0) + resident_of_plane(cache->rows(0)[0], 1); };
    const SeqId a = must_open(*cache);
    const SeqId b = must_open(*cache);
    const auto tokens = text(0, 1000);
    for (const SeqId id : {a, b}) {
        const Append append{id, tokens};
        Step step;
        ASSERT_TRUE(cache->begin({&append, 1}, step));
        for (int plane = 0; plane < 2; ++plane) {
            for (int head = 0; head < 4; ++head) {
                for (const int32_t cell : step.view().groups[0].write_cells) *step.view().groups[0].rows[0].at(plane, head, cell) = std::byte{7};
            }
        }
        cache->commit(step);
    }
    const size_t both = used();
    EXPECT_GE(both, 2000U * 2 * 4 * 128);
    cache->close(a);
    EXPECT_EQ(used(), both) << "dropping a block costs no system call";
    cache->release_pages();
    EXPECT_LE(used(), both / 2 + 2 * 4 * Mapping::page);
    EXPECT_EQ(verify(*cache), "");
    for (const kv::Run& run : cache->runs(b, 0)) {
        for (int32_t c = run.cell; c < run.cell + run.len; ++c) EXPECT_EQ(*cache->rows(0)[0].at(1, 3, c), std::byte{7});
    }
}

TEST(FieldReportF, TenThousandRequestsLeaveTheLedgerWhereItWas) {
    CacheLimits limits = limits_of(256, 512, 4);
    limits.poison = false;
    auto cache = make({Keep::all(), Keep::window(16)}, limits);
    const size_t empty = cache->ledger_bytes();
    std::mt19937 random(1);
    Step step;
    for (int i = 0; i < 10'000; ++i) {
        const SeqId id = must_open(*cache);
        const auto tokens = text(0, static_cast<int32_t>(1 + random() % 200));
        const Append append{id, tokens};
        ASSERT_TRUE(cache->begin({&append, 1}, step));
        cache->commit(step);
        cache->close(id);
    }
    EXPECT_EQ(cache->ledger_bytes(), empty);
    EXPECT_EQ(verify(*cache), "");
}

// One limit for each sequence, whatever the number of slots: one of 8,000 works while the others are idle.
TEST(FieldReportF, TheContextIsNotDividedBySlots) {
    CacheLimits limits = limits_of(8192, 8192, 4);
    limits.poison = false;
    limits.max_step_tokens = 8192;
    auto cache = make({Keep::all()}, limits);
    must_open(*cache);
    must_open(*cache);
    must_open(*cache);
    const SeqId a = must_open(*cache);
    const auto tokens = text(0, 8000);
    const Append append{a, tokens};
    Step step;
    EXPECT_TRUE(cache->begin({&append, 1}, step));
}

TEST(FieldReportF, PackedRowsHoldTheBytesTheyPromise) {
    const auto bytes = [](RowFormat format) {
        const CacheSpec spec{{{Keep::all(), 3, {{"k", 2, 128, format}, {"v", 2, 128, format}}}}, {}};
        const int64_t lengths[] = {4096};
        const Estimate e = *estimate(spec, limits_of(4096), lengths);
        return e.ledger_bytes - e.table_bytes - static_cast<size_t>(e.log_blocks) * 4096;
    };
    EXPECT_EQ(bytes(RowFormat::Q8_0) * 64, bytes(RowFormat::F16) * 34);
    EXPECT_EQ(bytes(RowFormat::F32), bytes(RowFormat::F16) * 2);
    EXPECT_EQ(bytes(RowFormat::BF16), bytes(RowFormat::F16));
}

}  // namespace
}  // namespace cellar::kv
