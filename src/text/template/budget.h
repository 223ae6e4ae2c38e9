#pragma once
// Failure: how an error travels inside this module. parse() and render() catch it and return a Result; nothing throws past them.
// Budget: what is left of the limits of one rendering. Not thread-safe: a rendering owns its budget.
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "base/result.h"
#include "text/template/limits.h"

namespace cellar::jinja {

struct Failure {
    std::string message;
    ErrorKind kind = ErrorKind::Input;
};

template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
    throw Failure{fmt::format(format, std::forward<Args>(args)...)};
}

class Budget {
  public:
    explicit Budget(const Limits& limits);

    const Limits& limits() const { return limits_; }

    // Pays for n units of work. Looks at the clock now and then, so a long loop of cheap steps ends in time.
    void step(std::uint64_t n = 1) {
        steps_ += n;
        if (steps_ >= checkpoint_) check();
    }
    // Pays for reading or writing that many bytes.
    void work(std::uint64_t bytes) { step(1 + bytes / 256); }

    void charge(std::uint64_t bytes) {
        memory_ += bytes;
        if (memory_ > limits_.memory_bytes) memory_exceeded();
    }
    void refund(std::uint64_t bytes) noexcept { memory_ -= bytes; }
    std::uint64_t memory() const { return memory_; }

    // Fails unless a single value may have this size.
    void check_value(std::uint64_t bytes) const {
        if (bytes > limits_.value_bytes) value_exceeded(bytes);
    }
    // bytes * count, for a value that repeats something.
    void check_value(std::uint64_t bytes, std::uint64_t count) const;

    void enter() {
        if (depth_ >= limits_.depth) depth_exceeded();
        ++depth_;
    }
    void leave() noexcept { --depth_; }

  private:
    void check();
    [[noreturn]] void memory_exceeded() const;
    [[noreturn]] void value_exceeded(std::uint64_t bytes) const;
    [[noreturn]] void depth_exceeded() const;

    Limits limits_;
    std::chrono::steady_clock::time_point deadline_;
    std::uint64_t steps_ = 0;
    std::uint64_t checkpoint_ = 0;
    std::uint64_t memory_ = 0;
    std::uint32_t depth_ = 0;
};

// One level of evaluation, for as long as it lives.
class Level {
  public:
    explicit Level(Budget& budget) : budget_(budget) { budget_.enter(); }
    ~Level() { budget_.leave(); }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

  private:
    Budget& budget_;
};

}  // namespace cellar::jinja
