#include "text/template/budget.h"

#include <algorithm>

namespace cellar::jinja {

namespace {
constexpr std::uint64_t steps_between_looks_at_the_clock = 4096;
}

Budget::Budget(const Limits& limits) : limits_(limits), deadline_(std::chrono::steady_clock::now() + limits.time) {
    checkpoint_ = std::min(limits_.steps + 1, steps_between_looks_at_the_clock);
}

void Budget::check() {
    if (steps_ > limits_.steps) throw Failure{fmt::format("the limit of {} steps is used up", limits_.steps), ErrorKind::Full};
    if (std::chrono::steady_clock::now() > deadline_)
        throw Failure{fmt::format("the limit of {} ms is used up", limits_.time.count()), ErrorKind::Full};
    checkpoint_ = std::min(limits_.steps + 1, steps_ + steps_between_looks_at_the_clock);
}

void Budget::check_value(std::uint64_t bytes, std::uint64_t count) const {
    std::uint64_t total = 0;
    if (__builtin_mul_overflow(bytes, count, &total)) total = UINT64_MAX;
    check_value(total);
}

void Budget::memory_exceeded() const {
    throw Failure{fmt::format("the values need more than the limit of {} bytes of memory", limits_.memory_bytes), ErrorKind::Full};
}

void Budget::value_exceeded(std::uint64_t bytes) const {
    throw Failure{fmt::format("a value of {} bytes is over the limit of {} bytes", bytes, limits_.value_bytes), ErrorKind::Full};
}

void Budget::depth_exceeded() const {
    throw Failure{fmt::format("evaluation is nested deeper than the limit of {}", limits_.depth), ErrorKind::Full};
}

}  // namespace cellar::jinja
