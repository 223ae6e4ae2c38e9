#include "base/fault_guard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

#include <fmt/core.h>

#include "base/file.h"
#include "base/quote.h"

namespace cellar {

// One mapped range, for the signal handler. Guards are never freed, only taken again, so the handler may walk the list
// at any time. `begin` is stored last and cleared first: a range is seen whole or not at all.
struct FaultGuard {
    std::atomic<uintptr_t> begin = 0;
    std::atomic<uintptr_t> end = 0;
    std::atomic<bool> taken = true;
    std::array<char, 4352> line{};  // what is said at a fault in this range
    size_t line_bytes = 0;
    FaultGuard* next = nullptr;
};

namespace {

std::atomic<FaultGuard*> guards = nullptr;
struct sigaction previous_action;

FaultGuard* take_guard() {
    for (FaultGuard* guard = guards.load(); guard != nullptr; guard = guard->next) {
        if (!guard->taken.exchange(true)) return guard;
    }
    auto* fresh = new FaultGuard;
    fresh->next = guards.load();
    while (!guards.compare_exchange_weak(fresh->next, fresh)) {
    }
    return fresh;
}

// Everything in here must be async-signal-safe.
void on_bus_error(int number, siginfo_t* information, void* context) {
    // A signal that somebody sent has no address.
    const auto address = information->si_code > 0 ? reinterpret_cast<uintptr_t>(information->si_addr) : 0;
    for (const FaultGuard* guard = guards.load(); guard != nullptr; guard = guard->next) {
        const uintptr_t begin = guard->begin.load();
        if (begin == 0 || address < begin || address >= guard->end.load()) continue;
        // The process ends in any case; a line that cannot be written changes nothing.
        [[maybe_unused]] const auto written = ::write(STDERR_FILENO, guard->line.data(), guard->line_bytes);
        ::_exit(kExitFileLost);
    }
    if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
        previous_action.sa_sigaction(number, information, context);
    } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
        previous_action.sa_handler(number);
    } else {
        ::signal(SIGBUS, SIG_DFL);
        ::raise(SIGBUS);
    }
}

void install_handler() {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action {};
        action.sa_sigaction = on_bus_error;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        ::sigaction(SIGBUS, nullptr, &previous_action);
        ::sigaction(SIGBUS, &action, nullptr);
    });
}

}  // namespace

FaultGuard* watch_mapping(const std::string& path, std::span<const std::byte> range) {
    install_handler();
    const std::string line = fmt::format("cellar: {}: the file became shorter or unreadable while it was in use\n", escaped(path, 4096));
    FaultGuard* guard = take_guard();
    guard->line_bytes = std::min(line.size(), guard->line.size());
    std::memcpy(guard->line.data(), line.data(), guard->line_bytes);
    guard->line[guard->line_bytes - 1] = '\n';
    const auto begin = reinterpret_cast<uintptr_t>(range.data());
    guard->end.store(begin + range.size());
    guard->begin.store(begin);
    return guard;
}

void unwatch_mapping(FaultGuard* guard) {
    guard->begin.store(0);
    guard->taken.store(false);
}

}  // namespace cellar
