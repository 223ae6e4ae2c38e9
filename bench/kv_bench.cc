// Fork, trim, remove and shift by turns of a sequence of 32,768 tokens, and one step of decoding behind it: times of the cache alone.
//
//   kv_bench [TOKENS] [REPETITIONS]
//
// "dense" has all cells in one run, "scattered" has every block of 32 cells somewhere else.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/check.h"
#include "kv/cache.h"

namespace {

using namespace cellar;  // NOLINT: a program of one file

double now_us() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void grow(kv::Cache& cache, kv::Step& step, kv::SeqId id, int32_t n) {
    std::vector<kv::Token> tokens;
    for (int32_t i = 0; i < n; ++i) tokens.push_back({i, cache.length(id) + i, 0});
    const kv::Append append{id, tokens};
    CHECK(cache.begin({&append, 1}, step).has_value());
    cache.commit(step);
}

// Median and least time of an operation, each on a fresh fork, which is closed outside the measured time.
template <class F>
void report(const char* layout, const char* name, int repetitions, kv::Cache& cache, kv::SeqId id, F operation) {
    std::vector<double> times;
    for (int i = 0; i < repetitions; ++i) {
        const kv::SeqId fork = *cache.fork(id, cache.length(id));
        const double start = now_us();
        const kv::SeqId made = operation(fork);
        times.push_back(now_us() - start);
        if (made != fork) cache.close(made);
        cache.close(fork);
    }
    std::sort(times.begin(), times.end());
    std::printf("%-10s %-18s %8.2f us median %8.2f us least\n", layout, name, times[times.size() / 2], times[0]);
}

}  // namespace

int main(int argc, char** argv) {
    const int32_t tokens = argc > 1 ? std::atoi(argv[1]) : 32768;
    const int repetitions = argc > 2 ? std::atoi(argv[2]) : 300;
    CHECK(tokens >= 1024 && repetitions > 0);
    for (const bool scattered : {false, true}) {
        kv::CacheSpec spec;
        spec.groups.push_back({kv::Keep::all(), 24, {{"k", 2, 64, kv::RowFormat::F16}, {"v", 2, 64, kv::RowFormat::F16}}});
        kv::CacheLimits limits;
        limits.context = tokens + 1024;
        limits.cells = 3 * limits.context;
        limits.max_seqs = 8;
        auto made = kv::Cache::make(spec, limits);
        CHECK(made.has_value());
        kv::Cache& cache = **made;
        kv::Step step;
        const kv::SeqId id = *cache.open();
        const kv::SeqId other = *cache.open();
        while (cache.length(id) < tokens) {
            grow(cache, step, id, 32);
            if (scattered) grow(cache, step, other, 32);
        }
        const char* layout = scattered ? "scattered" : "dense";
        std::printf("%-10s %d tokens in %zu runs\n", layout, cache.length(id), cache.runs(id, 0).size());
        report(layout, "fork", repetitions, cache, id, [&](kv::SeqId seq) { return *cache.fork(seq, tokens); });
        report(layout, "trim to half", repetitions, cache, id, [&](kv::SeqId seq) {
            CHECK_EQ(cache.trim(seq, tokens / 2), tokens / 2);
            return seq;
        });
        report(layout, "trim by 1", repetitions, cache, id, [&](kv::SeqId seq) {
            CHECK_EQ(cache.trim(seq, tokens - 1), tokens - 1);
            return seq;
        });
        report(layout, "remove 512", repetitions, cache, id, [&](kv::SeqId seq) {
            CHECK_EQ(cache.remove(seq, {100, 612}), 512);
            return seq;
        });
        report(layout, "shift by 512", repetitions, cache, id, [&](kv::SeqId seq) {
            CHECK(cache.remove_and_shift(seq, {100, 612}).has_value());
            return seq;
        });
        report(layout, "decode step", repetitions, cache, id, [&](kv::SeqId seq) {
            const kv::Token token{1, tokens, 0};
            const kv::Append append{seq, {&token, 1}};
            CHECK(cache.begin({&append, 1}, step).has_value());
            cache.commit(step);
            return seq;
        });
    }
    return 0;
}
