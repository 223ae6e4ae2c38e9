#pragma once
// What the instructions that kernels are made of do at most on this machine: measured, not looked up.
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/thread_team.h"
#include "ops/types.h"

namespace cellar::bench {

inline double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

#if defined(__x86_64__)

constexpr int kRounds = 200000;
constexpr int kChains = 10;  // more than any of these instructions is deep on two ports

// Operations of one call.
[[gnu::target("avx512f,avx512vnni"), gnu::noinline]] inline double bytes_avx512() {
    __m512i sum[kChains] = {};
    __m512i x = _mm512_set1_epi8(1);
    for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) sum[c] = _mm512_dpbusd_epi32(sum[c], x, x);
        asm volatile("" : "+v"(x));
    }
    for (int c = 1; c < kChains; ++c) sum[0] = _mm512_add_epi32(sum[0], sum[c]);
    asm volatile("" ::"v"(sum[0]));
    return 128.0 * kRounds * kChains;
}
[[gnu::target("avx512f"), gnu::noinline]] inline double floats_avx512() {
    __m512 sum[kChains] = {};
    __m512 x = _mm512_set1_ps(1.0F);
    for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) sum[c] = _mm512_fmadd_ps(x, x, sum[c]);
        asm volatile("" : "+v"(x));
    }
    for (int c = 1; c < kChains; ++c) sum[0] = _mm512_add_ps(sum[0], sum[c]);
    asm volatile("" ::"v"(sum[0]));
    return 32.0 * kRounds * kChains;
}
// Of quants with a sign, `wide`, the signs go to the other side first: the multiplication takes one side without.
template <bool wide>
[[gnu::target("avx2,fma"), gnu::noinline]] double bytes_avx2() {
    __m256i sum[kChains] = {};
    __m256i x = _mm256_set1_epi8(1);
    __m256i ones = _mm256_set1_epi16(1);
    for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) {
            __m256i y = x;
            if constexpr (wide) y = _mm256_sign_epi8(x, x);
            if constexpr (wide) asm volatile("" : "+x"(y));  // or all of them are one
            __m256i pairs = _mm256_maddubs_epi16(x, y);
            asm volatile("" : "+x"(pairs));
            sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(pairs, ones));
        }
    }
    for (int c = 1; c < kChains; ++c) sum[0] = _mm256_add_epi32(sum[0], sum[c]);
    asm volatile("" ::"x"(sum[0]));
    return 64.0 * kRounds * kChains;
}
[[gnu::target("avx2,fma"), gnu::noinline]] inline double floats_avx2() {
    __m256 sum[kChains] = {};
    __m256 x = _mm256_set1_ps(1.0F);
    for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) sum[c] = _mm256_fmadd_ps(x, x, sum[c]);
        asm volatile("" : "+x"(x));
    }
    for (int c = 1; c < kChains; ++c) sum[0] = _mm256_add_ps(sum[0], sum[c]);
    asm volatile("" ::"x"(sum[0]));
    return 16.0 * kRounds * kChains;
}

#endif

// Operations per second of all threads with the instructions that products with weights of a form take; `wide`: whose quants have a sign.
// 0 where nothing is known of the target. The best of several tries.
inline double most_operations(std::string_view target, ops::ActivationForm form, bool wide, ThreadTeam& team) {
    double (*call)() = nullptr;
#if defined(__x86_64__)
    const bool quantized = form == ops::ActivationForm::Q8 || form == ops::ActivationForm::Q8_256;
    if (target == "AVX3_DL") call = quantized ? bytes_avx512 : floats_avx512;
    if (target == "AVX2") call = !quantized ? floats_avx2 : wide ? bytes_avx2<true> : bytes_avx2<false>;
#endif
    if (call == nullptr) return 0.0;
    double best = 0.0;
    for (int round = 0; round < 5; ++round) {
        std::vector<double> done(static_cast<size_t>(team.size()) * 4);
        const double start = seconds();
        team.run(static_cast<int64_t>(done.size()), [&](int64_t i, int) { done[static_cast<size_t>(i)] = call(); });
        double sum = 0.0;
        for (const double one : done) sum += one;
        best = std::max(best, sum / (seconds() - start));
    }
    return best;
}

}  // namespace cellar::bench
