#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/thread_team.h"
#include "ops/attend_cache_test.h"
#include "ops/cpu/each_target.h"

namespace cellar::ops {
namespace {

using Results = std::map<std::pair<int, int>, std::vector<float>>;

constexpr kv::RowFormat kFormats[] = {kv::RowFormat::F32, kv::RowFormat::F16, kv::RowFormat::BF16, kv::RowFormat::Q8_0};

#ifdef CELLAR_REDUCED_TESTS
constexpr bool kReduced = true;
#else
constexpr bool kReduced = false;
#endif

// One sequence of n tokens in chunks; where the case has a gap it is removed as soon as it lies before the next chunk.
Results run_chunks(const Ops& ops, const AttendCase& c, int n, int chunk, int threads, bool scattered, uint32_t seed = 1) {
    ThreadTeam team(threads);
    AttendCache cache(c, n + 70, scattered, seed);
    Results results;
    bool removed = c.gap_hi <= c.gap_lo;
    for (int p = 0; p < n;) {
        int count = std::min(chunk, n - p);
        if (!removed && p < c.gap_hi) count = std::min(count, c.gap_hi - p);
        cache.step(ops, {{0, p, count}}, team, results);
        p += count;
        if (!removed && p >= c.gap_hi) {
            cache.remove(0, c.gap_lo, c.gap_hi, 0);
            removed = true;
        }
    }
    return results;
}

void expect_close(const Results& got, const Results& wanted, double tolerance, const std::string& what) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    double worst = 0.0;
    for (const auto& [key, row] : wanted) {
        const auto& other = got.at(key);
        ASSERT_EQ(row.size(), other.size());
        for (size_t i = 0; i < row.size(); ++i) {
            const double off = std::fabs(static_cast<double>(row[i]) - other[i]);
            ASSERT_TRUE(off <= tolerance) << what << " position " << key.second << " element " << i << ": " << other[i] << " vs " << row[i];
            worst = std::max(worst, off);
        }
    }
    (void)worst;
}

void expect_same_bits(const Results& got, const Results& wanted, const std::string& what) {
    for (const auto& [key, row] : got) {
        const auto& other = wanted.at(key);
        ASSERT_EQ(std::memcmp(row.data(), other.data(), row.size() * sizeof(float)), 0) << what << " position " << key.second;
    }
}

std::string describe(const AttendCase& c) {
    return fmt::format("k {} {} v {} {} heads {}/{}", kv::name(c.k_format), c.k_width, kv::name(c.v_format), c.v_width, c.heads, c.kv_heads);
}

TEST(Attend, AgreesWithTheReferenceInEveryFormat) {
    for (const kv::RowFormat k : kFormats) {
        for (const kv::RowFormat v : kFormats) {
            AttendCase c;
            c.k_format = k;
            c.v_format = v;
            c.exact_queries = k == kv::RowFormat::Q8_0;
            const Results wanted = run_chunks(reference(), c, 77, 77, 1, false);
            for_each_target([&](std::string_view target) {
                expect_close(run_chunks(cpu(), c, 77, 77, 1, true), wanted, 4e-6, fmt::format("{} {}", target, describe(c)));
            });
        }
    }
}

TEST(Attend, AgreesWithTheReferenceAtEveryWidth) {
    for (int width = 1; width <= 288; width += kReduced ? (width < 40 ? 7 : 47) : (width < 40 ? 3 : 8)) {
        for (const kv::RowFormat format : kFormats) {
            AttendCase c;
            c.k_format = c.v_format = format;
            c.k_width = width;
            c.v_width = width % 3 == 0 ? width / 3 * 2 : width;
            c.exact_queries = format == kv::RowFormat::Q8_0;
            c.scale = 1.0F / std::sqrt(static_cast<float>(width));
            c.heads = width % 2 == 0 ? 3 : 5;
            c.kv_heads = 1;
            const Results wanted = run_chunks(reference(), c, 37, 37, 1, false);
            for_each_target([&](std::string_view target) {
                expect_close(run_chunks(cpu(), c, 37, 9, 1, true), wanted, 4e-6, fmt::format("{} {}", target, describe(c)));
            });
        }
    }
}

TEST(Attend, AgreesWithTheReferenceAtEveryLengthAndRatio) {
    int n = 1;
    for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {7, 1}, {14, 2}, {8, 8}, {71, 1}, {24, 8}, {13, 1}, {66, 1}}) {
        for (; n % 9 != 0; ++n) {
            AttendCase c;
            c.heads = heads;
            c.kv_heads = kv_heads;
            c.k_width = c.v_width = 32;
            const Results wanted = run_chunks(reference(), c, n, n, 1, false);
            for_each_target([&](std::string_view target) {
                expect_close(run_chunks(cpu(), c, n, n, 2, true), wanted, 4e-6, fmt::format("{} {} n {}", target, describe(c), n));
            });
        }
        ++n;
    }
}

std::vector<AttendCase> special_cases() {
    std::vector<AttendCase> cases;
    AttendCase c;
    c.k_width = c.v_width = 48;
    c.heads = 6;
    c.keep = kv::Keep::window(40);
    cases.push_back(c);
    c.keep = kv::Keep::window(33, 5);
    c.sinks = true;
    cases.push_back(c);
    c.keep = kv::Keep::window(1);
    c.soft_cap = 3.0F;
    cases.push_back(c);
    c.keep = kv::Keep::chunk(50);
    c.sinks = false;
    cases.push_back(c);
    c.keep = kv::Keep::all();
    c.sinks = true;
    c.scale = 0.5F;
    cases.push_back(c);
    c.gap_lo = 19;
    c.gap_hi = 75;
    cases.push_back(c);
    c.k_format = kv::RowFormat::Q8_0;
    c.v_format = kv::RowFormat::Q8_0;
    c.exact_queries = true;
    c.soft_cap = 0.0F;
    cases.push_back(c);
    return cases;
}

TEST(Attend, AgreesWithTheReferenceUnderWindowsChunksSinksCapsAndGaps) {
    for (const AttendCase& c : special_cases()) {
        const Results wanted = run_chunks(reference(), c, 150, 32, 1, false);
        for_each_target([&](std::string_view target) {
            expect_close(run_chunks(cpu(), c, 150, 32, 1, true), wanted, 4e-6, fmt::format("{} {}", target, describe(c)));
        });
    }
}

TEST(Attend, GivesTheSameBitsForEveryChunkLayoutAndTeam) {
    std::vector<AttendCase> cases = special_cases();
    for (const kv::RowFormat format : kFormats) {
        AttendCase c;
        c.k_format = c.v_format = format;
        c.heads = 14;
        cases.push_back(c);
    }
    AttendCase odd;
    odd.k_format = kv::RowFormat::Q8_0;
    odd.v_format = kv::RowFormat::BF16;
    odd.k_width = 80;
    odd.v_width = 72;
    odd.heads = 3;
    odd.kv_heads = 3;
    cases.push_back(odd);
    for (const AttendCase& c : cases) {
        const int n = kReduced ? 150 : 600;
        for_each_target([&](std::string_view target) {
            if (target == "SCALAR" && n > 150) return;
            const Results wanted = run_chunks(cpu(), c, n, 1, 1, false);
            uint32_t seed = 3;
            for (const int chunk : {7, 32, 512}) {
                for (const int threads : {1, 2, 3}) {
                    const bool scattered = (++seed % 2) == 0 || threads == 2;
                    expect_same_bits(run_chunks(cpu(), c, n, chunk, threads, scattered, seed), wanted,
                                     fmt::format("{} {} chunk {} threads {} scattered {}", target, describe(c), chunk, threads, scattered));
                }
            }
        });
    }
}

// Alone a token goes straight from the cache, in a chunk it goes through tiles of floats.
TEST(Attend, GivesTheSameBitsAtEveryHeadWidthAndRatio) {
    for (int width = 32; width <= 256; width += kReduced ? 48 : 16) {
        for (int per_kv_head = 1; per_kv_head <= 9; ++per_kv_head) {
            AttendCase c;
            c.k_format = c.v_format = kFormats[(width / 16 + per_kv_head) % 4];
            c.k_width = c.v_width = width;
            c.kv_heads = 2;
            c.heads = 2 * per_kv_head;
            const int n = 67;
            for_each_target([&](std::string_view target) {
                if (target == "SCALAR" && width > 64) return;
                const Results wanted = run_chunks(cpu(), c, n, 1, 1, false);
                expect_same_bits(run_chunks(cpu(), c, n, n, 2, true), wanted, fmt::format("{} {}", target, describe(c)));
            });
        }
    }
}

// Long enough for several segments: the last tokens, alone on one thread, split over threads, in one chunk, in company.
TEST(Attend, GivesTheSameBitsAcrossSegmentsAndInCompany) {
    for (const kv::RowFormat format : {kv::RowFormat::F16, kv::RowFormat::Q8_0}) {
        for (const bool windowed : {false, true}) {
            AttendCase c;
            c.k_format = c.v_format = format;
            c.heads = 6;
            c.kv_heads = 2;
            c.k_width = c.v_width = 32;
            if (windowed) c.keep = kv::Keep::window(1500, 70);
            const int n = kReduced ? 2100 : 5200;
            const auto run = [&](int threads, int step, bool scattered, bool company) {
                ThreadTeam team(threads);
                AttendCache cache(c, n + 700, scattered, 11);
                Results results;
                if (company) cache.step(cpu(), {{1, 0, 400}, {2, 0, 33}}, team, results);
                cache.step(cpu(), {{0, 0, n - 12}}, team, results);
                results.clear();
                for (int p = n - 12; p < n; p += step) {
                    std::vector<Stretch> stretches = {{0, p, step}};
                    if (company) stretches = {{1, 400 + p, 1}, {0, p, step}, {2, 33 + p - (n - 12), step}};
                    if (company && p == n - 12) stretches[0].first = 400;
                    if (company && p != n - 12) stretches.erase(stretches.begin());
                    cache.step(cpu(), stretches, team, results);
                }
                std::erase_if(results, [](const auto& entry) { return entry.first.first != 0; });
                return results;
            };
            const Results wanted = run(1, 1, false, false);
            EXPECT_EQ(wanted.size(), 12U);
            expect_same_bits(run(2, 1, true, false), wanted, "two threads, one token");
            c.scratch_context = 0;
            expect_same_bits(run(2, 1, true, false), wanted, "two threads, one token, several waves");
            c.scratch_context = 4096;
            expect_same_bits(run(3, 1, true, true), wanted, "three threads, one token, company");
            expect_same_bits(run(2, 4, false, true), wanted, "two threads, four tokens, company");
            expect_same_bits(run(1, 12, true, true), wanted, "one thread, twelve tokens, company");
            expect_close(run(2, 6, true, true), wanted, 0.0, "values");
        }
    }
}

// Turning the query back by the turn of a run scores as if the key had been written at the shifted position.
TEST(Attend, TurnsTheQueryBackForTurnedRuns) {
    for (const RopePairing pairing : {RopePairing::Halves, RopePairing::Neighbours}) {
        for (const kv::RowFormat format : {kv::RowFormat::F32, kv::RowFormat::F16, kv::RowFormat::Q8_0}) {
            // Turned queries are none that int8 holds exactly.
            const double tolerance = format == kv::RowFormat::Q8_0 ? 5e-3 : 4e-6;
            AttendCase c;
            c.k_format = c.v_format = format;
            c.rope_dims = 24;
            c.pairing = pairing;
            c.k_width = c.v_width = 32;
            const auto run = [&](const Ops& ops, int threads, int chunk, bool scattered) {
                ThreadTeam team(threads);
                AttendCache cache(c, 400, scattered, 5);
                Results results;
                cache.step(ops, {{0, 0, 130}}, team, results);
                cache.remove(0, 10, 17, -7);
                cache.remove(0, 40, 45, -5);
                cache.remove(0, 50, 90, -40);
                results.clear();
                for (int p = 130; p < 170; p += chunk) cache.step(ops, {{0, p, chunk}}, team, results);
                return results;
            };
            const Results wanted = run(reference(), 1, 40, false);
            for_each_target([&](std::string_view target) {
                const Results one = run(cpu(), 1, 1, false);
                expect_close(one, wanted, tolerance, std::string(target));
                expect_same_bits(run(cpu(), 2, 8, true), one, std::string(target));
                expect_same_bits(run(cpu(), 3, 40, true), one, std::string(target));
            });
        }
    }
}

TEST(Attend, AQueryThatSeesNothingGivesZeros) {
    AttendCase c;
    c.keep = kv::Keep::window(4);
    c.sinks = true;
    ThreadTeam team(2);
    std::vector<float> out(64, std::nanf(""));
    const std::vector<float> q(64, 1.0F);
    std::vector<std::byte> memory(4096, std::byte{0xFF});
    const kv::RowTable table{memory.data(), 0, 0, 64, kv::RowFormat::F16, 1, 32};
    const std::vector<kv::RowTable> tables{table, table};
    const std::vector<kv::Run> runs{{0, 3, 5, 0}};
    const std::vector<kv::Visible> visible{{{}, {96, 100}}};
    const std::vector<kv::SeqView> seqs{{0, 1, 99, runs}};
    const kv::GroupView group{c.keep, tables, seqs, visible, {}};
    const size_t bytes = cpu().attend_scratch_bytes(1, 2, 32, 128, 2);
    std::vector<std::byte> scratch(bytes + 64);
    AttendArgs args;
    args.q = {q.data(), 1, 64, 64};
    args.out = {out.data(), 1, 64, 64};
    args.heads = 2;
    args.group = &group;
    args.scratch = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    args.scratch_bytes = bytes;
    cpu().attend(args, team);
    for (const float x : out) EXPECT_EQ(x, 0.0F);
}

TEST(Attend, ScratchStaysSmallForLongContexts) {
    EXPECT_LT(cpu().attend_scratch_bytes(1, 14, 64, 1000000, 2), size_t{2} << 20);
    EXPECT_LT(cpu().attend_scratch_bytes(1, 64, 128, 1000000, 8), size_t{12} << 20);
}

// A large score, a value of infinity in a position that is not seen, values in the last cell of the arena.
TEST(Attend, KeepsWhatIsNotSeenOutOfTheSums) {
    AttendCase c;
    c.k_format = c.v_format = kv::RowFormat::F32;
    c.scale = 40.0F;
    const Results wanted = run_chunks(reference(), c, 70, 70, 1, false);
    for_each_target([&](std::string_view target) {
        const Results got = run_chunks(cpu(), c, 70, 70, 1, false);
        for (const auto& [key, row] : got) {
            for (const float x : row) ASSERT_TRUE(std::isfinite(x)) << target;
        }
        expect_close(got, wanted, 2e-3, std::string(target));
    });
}

// One NaN in the first head of a query, a key or a value reaches who sees it, and nobody else, alone and in a chunk.
TEST(Attend, KeepsNaNWithThoseWhoSeeIt) {
    constexpr int kBad = 21;
    constexpr int kWindow = 23;
    constexpr int n = 70;
    for (const kv::RowFormat format : kFormats) {
        for (const int kind : {0, 1, 2}) {
            AttendCase c;
            c.k_format = c.v_format = format;
            c.keep = kv::Keep::window(kWindow);
            AttendCase bad = c;
            bad.bad_kind = kind;
            bad.bad_pos = kBad;
            const auto heads = static_cast<size_t>(kind == 2 ? 1 : c.heads / c.kv_heads);  // that meet it
            for_each_target([&](std::string_view target) {
                const Results clean = run_chunks(cpu(), c, n, n, 1, true);
                for (const int chunk : {1, 3, n}) {
                    for (const auto& [key, row] : run_chunks(cpu(), bad, n, chunk, 2, true)) {
                        SCOPED_TRACE(fmt::format("{} {} kind {} chunk {} position {}", target, kv::name(format), kind, chunk, key.second));
                        const bool meets = key.second >= kBad && key.second < (kind == 2 ? kBad + 1 : kBad + kWindow);
                        const size_t met = meets ? heads * static_cast<size_t>(c.v_width) : 0;
                        for (size_t i = 1; i < met; i += kind == 1 ? static_cast<size_t>(c.v_width) : 1) ASSERT_TRUE(std::isnan(row[i])) << i;
                        ASSERT_EQ(std::memcmp(row.data() + met, clean.at(key).data() + met, (row.size() - met) * sizeof(float)), 0);
                    }
                }
            });
        }
    }
}

}  // namespace
}  // namespace cellar::ops
