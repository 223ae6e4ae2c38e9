#include "base/thread_team.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/signals.h"

namespace cellar {
namespace {

constexpr auto kSpinTime = std::chrono::microseconds(50);

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Waits at most `limit` for ready() and returns whether it came. Looks at the clock only now and then, since the clock is the dearer part.
template <class Ready>
bool spin_until(Ready&& ready, std::chrono::nanoseconds limit) {
    if (ready()) return true;
    if (limit.count() == 0) return false;
    const auto end = std::chrono::steady_clock::now() + limit;
    do {
        for (int i = 0; i < 16; ++i) {
            if (ready()) return true;
            pause_briefly();
        }
    } while (std::chrono::steady_clock::now() < end);
    return ready();
}

}  // namespace

// A job is the three plain fields and `unclaimed`. The owner writes the fields and publishes them by storing `unclaimed`;
// a member reads them only after it took a piece, and until that piece is counted in `unfinished` the owner does not return.
// So a member that wakes late finds either nothing to take or a piece of whatever job is current: it need not take part in each.
struct ThreadTeam::Shared {
    alignas(64) std::atomic<int64_t> unclaimed{0};
    int64_t pieces = 0;
    Erased body = nullptr;
    void* context = nullptr;

    alignas(64) std::atomic<int64_t> unfinished{0};
    std::atomic<uint32_t> owner_sleeps{0};

    // Rises with each job and once at the end. Members sleep on it.
    alignas(64) std::atomic<uint32_t> generation{0};
    std::atomic<int> sleepers{0};
    std::atomic<bool> stop{false};
    std::atomic<bool> busy{false};

    std::chrono::nanoseconds spin{0};
    std::vector<std::thread> threads;  // members 1 to size - 1

    void wake_members() {
        generation.fetch_add(1);
        if (sleepers.load() > 0) generation.notify_all();
    }

    // Works through pieces of the current job until none is left to take.
    void work(int member) {
        int64_t done = 0;
        int64_t left = unclaimed.load(std::memory_order_acquire);
        while (left > 0) {
            if (!unclaimed.compare_exchange_weak(left, left - 1, std::memory_order_acquire)) continue;
            body(context, pieces - left, member);
            ++done;
            left = unclaimed.load(std::memory_order_acquire);
        }
        // No other job can begin before these are counted, so they count for the job they belong to.
        if (done > 0 && unfinished.fetch_sub(done) == done && owner_sleeps.load() != 0) {
            owner_sleeps.store(0);
            owner_sleeps.notify_one();
        }
    }

    void serve(int member) {
        while (true) {
            work(member);
            const uint32_t seen = generation.load();
            const auto called = [&] { return unclaimed.load(std::memory_order_acquire) > 0 || stop.load(std::memory_order_acquire); };
            if (!spin_until(called, spin)) {
                sleepers.fetch_add(1);
                generation.wait(seen);
                sleepers.fetch_sub(1);
            }
            if (stop.load(std::memory_order_acquire)) return;
        }
    }

    void wait_for_members() {
        const auto finished = [&] { return unfinished.load(std::memory_order_acquire) == 0; };
        while (!spin_until(finished, spin)) {
            owner_sleeps.store(1);
            if (unfinished.load() != 0) owner_sleeps.wait(1);
            owner_sleeps.store(0);
        }
    }
};

ThreadTeam::ThreadTeam(int threads) : shared_(std::make_unique<Shared>()) {
    CHECK_GE(threads, 1);
    if (threads <= usable_cpus()) shared_->spin = kSpinTime;
    const SignalsBlocked blocked;
    shared_->threads.reserve(static_cast<size_t>(threads - 1));
    for (int member = 1; member < threads; ++member) {
        try {
            shared_->threads.emplace_back([shared = shared_.get(), member] { shared->serve(member); });
        } catch (const std::system_error& error) {
            log_warning("{} threads were asked for, but the system gives only {}: {}", threads, member, error.what());
            break;
        }
        pthread_setname_np(shared_->threads.back().native_handle(), "cellar-worker");
    }
    for (int member = 0; member < size(); ++member) alone_.emplace_back(new ThreadTeam());
}

ThreadTeam::ThreadTeam() : shared_(std::make_unique<Shared>()) {}

ThreadTeam::~ThreadTeam() {
    shared_->stop.store(true, std::memory_order_release);
    shared_->wake_members();
    for (std::thread& thread : shared_->threads) thread.join();
}

ThreadTeam& ThreadTeam::alone(int member) {
    CHECK(member >= 0 && member < static_cast<int>(alone_.size()));
    return *alone_[static_cast<size_t>(member)];
}

int ThreadTeam::size() const {
    return static_cast<int>(shared_->threads.size()) + 1;
}

void ThreadTeam::run_erased(int64_t pieces, Erased body, void* context) {
    Shared& shared = *shared_;
    CHECK(!shared.busy.exchange(true, std::memory_order_relaxed));
    if (pieces <= 1 || shared.threads.empty()) {
        for (int64_t piece = 0; piece < pieces; ++piece) body(context, piece, 0);
    } else {
        shared.pieces = pieces;
        shared.body = body;
        shared.context = context;
        shared.unfinished.store(pieces, std::memory_order_relaxed);
        shared.unclaimed.store(pieces, std::memory_order_release);
        shared.wake_members();
        shared.work(0);
        shared.wait_for_members();
    }
    shared.busy.store(false, std::memory_order_relaxed);
}

}  // namespace cellar
