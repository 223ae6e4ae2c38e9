#include "apps/bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/thread_team.h"

namespace cellar::apps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kBytes = int64_t{512} << 20;
constexpr int64_t kPiece = int64_t{4} << 20;
constexpr int64_t kHugePage = int64_t{2} << 20;

// Adds up a piece in four registers of `Lane`; narrower registers than the machine has would be the bound instead of the memory.
template <class Lane>
[[gnu::always_inline]] inline uint64_t sum(const std::byte* piece) {
    const auto* at = reinterpret_cast<const Lane*>(piece);
    Lane a{}, b{}, c{}, d{};
    for (const auto* end = reinterpret_cast<const Lane*>(piece + kPiece); at != end; at += 4) {
        a += at[0];
        b += at[1];
        c += at[2];
        d += at[3];
    }
    a += b + c + d;
    uint64_t lanes[sizeof(Lane) / sizeof(uint64_t)];
    std::memcpy(lanes, &a, sizeof lanes);
    uint64_t out = 0;
    for (const uint64_t lane : lanes) out += lane;
    return out;
}

using Lane16 = uint64_t __attribute__((vector_size(16)));
using Lane32 = uint64_t __attribute__((vector_size(32)));
using Lane64 = uint64_t __attribute__((vector_size(64)));

uint64_t sum_any(const std::byte* piece) {
    return sum<Lane16>(piece);
}
#if defined(__x86_64__)
[[gnu::target("avx2")]] uint64_t sum_avx2(const std::byte* piece) {
    return sum<Lane32>(piece);
}
[[gnu::target("avx512f")]] uint64_t sum_avx512(const std::byte* piece) {
    return sum<Lane64>(piece);
}
#endif

auto widest_sum() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return sum_avx512;
    if (__builtin_cpu_supports("avx2")) return sum_avx2;
#endif
    return sum_any;
}

}  // namespace

double read_bandwidth(int threads) {
    const std::unique_ptr<std::byte, void (*)(void*)> memory(static_cast<std::byte*>(std::aligned_alloc(kHugePage, kBytes)), std::free);
    if (!memory) return 0.0;
    // Only asked for: without huge pages the figure is a little lower.
    madvise(memory.get(), kBytes, MADV_HUGEPAGE);
    ThreadTeam team(threads);
    team.run(kBytes / kPiece, [&](int64_t piece, int) { std::memset(memory.get() + piece * kPiece, static_cast<int>(piece & 0x7F), kPiece); });
    const auto sum = widest_sum();
    double best = 0.0;
    std::atomic<uint64_t> sink{0};
    for (int round = 0; round < 4; ++round) {
        const auto start = Clock::now();
        team.run(kBytes / kPiece, [&](int64_t piece, int) { sink.fetch_add(sum(memory.get() + piece * kPiece), std::memory_order_relaxed); });
        best = std::max(best, static_cast<double>(kBytes) / std::chrono::duration<double>(Clock::now() - start).count() / 1e9);
    }
    return best;
}

}  // namespace cellar::apps
