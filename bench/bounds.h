#pragma once
// What the instructions that kernels are made of do at most on this machine: measured, not looked up.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/thread_team.h"
#include "ops/cpu/panel.h"
#include "tensor/dtype.h"

namespace cellar::bench {

inline double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

#if defined(__x86_64__)

constexpr int kRounds = 200000;
constexpr int kChains = 12;  // more than any of these instructions is deep on two ports

// Each function carries out kRounds times kChains steps and returns their operations. An empty instruction stands between them and the
// compiler, which would otherwise see that all chains hold the same and carry out one of them.
[[gnu::target("avx512f,avx512vnni"), gnu::noinline]] inline double bytes_avx512() {
    __m512i sum[kChains];
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_setzero_si512();
    const __m512i x = _mm512_set1_epi8(1);
    for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) {
            sum[c] = _mm512_dpbusd_epi32(sum[c], x, x);
            asm volatile("" : "+v"(sum[c]));
        }
    }
    return 128.0 * kRounds * kChains;
}
[[gnu::target("avx512f"), gnu::noinline]] inline double floats_avx512() {
    __m512 sum[kChains];
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_setzero_ps();
    const __m512 x = _mm512_set1_ps(1.0F);
    for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) {
            sum[c] = _mm512_fmadd_ps(x, x, sum[c]);
            asm volatile("" : "+v"(sum[c]));
        }
    }
    return 32.0 * kRounds * kChains;
}
// Quants without a sign. `sums` products of pairs, which 16 bits hold the sum of, are added up before they are widened.
template <int sums>
[[gnu::target("avx2"), gnu::noinline]] double bytes_avx2() {
    __m256i sum[kChains];
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = _mm256_setzero_si256();
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i x = _mm256_set1_epi8(1);
    for (int i = 0; i < kRounds / sums; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) {
            __m256i pairs = _mm256_setzero_si256();
#pragma GCC unroll 8
            for (int j = 0; j < sums; ++j) {
                asm volatile("" : "+x"(x));  // may be another: or all products are one
                const __m256i more = _mm256_maddubs_epi16(x, x);
                pairs = j == 0 ? more : _mm256_add_epi16(pairs, more);
                asm volatile("" : "+x"(pairs));
            }
            sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(pairs, ones));
            asm volatile("" : "+x"(sum[c]));
        }
    }
    return 64.0 * (kRounds / sums * sums) * kChains;
}
// Quants with a sign: as bytes, whose signs go to the other side first, because the multiplication takes one side without; or as words.
template <bool words>
[[gnu::target("avx2"), gnu::noinline]] double signed_bytes_avx2() {
    __m256i sum[kChains];
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = _mm256_setzero_si256();
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i x = _mm256_set1_epi8(1);
    for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) {
            asm volatile("" : "+x"(x));
            const __m256i products = words ? _mm256_madd_epi16(x, x) : _mm256_madd_epi16(_mm256_maddubs_epi16(x, _mm256_sign_epi8(x, x)), ones);
            sum[c] = _mm256_add_epi32(sum[c], products);
            asm volatile("" : "+x"(sum[c]));
        }
    }
    return (words ? 32.0 : 64.0) * kRounds * kChains;
}
[[gnu::target("avx2,fma"), gnu::noinline]] inline double floats_avx2() {
    __m256 sum[kChains];
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sum[c] = _mm256_setzero_ps();
    const __m256 x = _mm256_set1_ps(1.0F);
    for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) {
            sum[c] = _mm256_fmadd_ps(x, x, sum[c]);
            asm volatile("" : "+x"(sum[c]));
        }
    }
    return 16.0 * kRounds * kChains;
}

#endif

// Operations per second of all threads, the best of many tries: for as long as a thread may share a core before it is moved to a free one.
inline double operations_of(double (*call)(), ThreadTeam& team) {
    double best = 0.0;
    for (const double end = seconds() + 0.1; best == 0.0 || seconds() < end;) {
        std::vector<double> done(static_cast<size_t>(team.size()) * 4);
        const double start = seconds();
        team.run(static_cast<int64_t>(done.size()), [&](int64_t i, int) { done[static_cast<size_t>(i)] = call(); });
        double sum = 0.0;
        for (const double one : done) sum += one;
        best = std::max(best, sum / (seconds() - start));
    }
    return best;
}

// With the instructions that products with weights of a type take. 0 where nothing is known of the target.
inline double most_operations([[maybe_unused]] std::string_view target, [[maybe_unused]] DType type, [[maybe_unused]] ThreadTeam& team) {
#if defined(__x86_64__)
    const bool plain = type == DType::F32 || type == DType::F16 || type == DType::BF16;
    if (target == "AVX3_DL") return operations_of(plain ? floats_avx512 : bytes_avx512, team);
    if (target != "AVX2") return 0.0;
    if (plain) return operations_of(floats_avx2, team);
    const ops::cpu_impl::PanelFormat format = ops::cpu_impl::panel_format(type);
    if (format.wide) return std::max(operations_of(signed_bytes_avx2<false>, team), operations_of(signed_bytes_avx2<true>, team));
    const int sums = std::min(format.sub / 4, ops::cpu_impl::pair_sums(format));
    return operations_of(sums >= 8 ? bytes_avx2<8> : sums >= 4 ? bytes_avx2<4> : bytes_avx2<2>, team);
#else
    return 0.0;
#endif
}

}  // namespace cellar::bench
