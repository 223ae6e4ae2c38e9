#pragma once
// How calls of the library end: with a value, or with a Status that says in one line what is wrong, where, and what to do.
//
// No call throws, memory that runs out included. What a user can cause is a Status; reading the value of a failed Result is a
// mistake of the program and ends it with the message.
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace cellar::v1 {

// The numbers are those of cellar.h.
enum class StatusKind {
    Ok = 0,
    Input = 1,        // a file, an option or a request is wrong
    Unsupported = 2,  // well formed, but this build cannot do it
    Full = 3,         // no room: cells, context, sessions
    System = 4,       // the operating system said no, or memory ran out
    Cancelled = 5,    // the program stopped it
    Internal = 6,     // something unexpected, such as an exception out of a callback
};
std::string_view name(StatusKind kind);  // "ok", "input", "unsupported"...

struct Status {
    StatusKind kind = StatusKind::Ok;
    std::string message;  // one line for people, empty when ok

    [[nodiscard]] bool ok() const { return kind == StatusKind::Ok; }
    explicit operator bool() const { return ok(); }
};

// Prints the message on stderr and ends the program.
[[noreturn]] void value_of_failure(const Status& status);

// A T, or why there is none.
template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : either_(std::move(value)) {}
    Result(Status failure) : either_(std::move(failure)) {}

    [[nodiscard]] bool ok() const { return either_.index() == 0; }
    explicit operator bool() const { return ok(); }

    // Requires: ok().
    [[nodiscard]] T& value() & {
        if (!ok()) value_of_failure(*std::get_if<1>(&either_));
        return *std::get_if<0>(&either_);
    }
    [[nodiscard]] const T& value() const& { return const_cast<Result*>(this)->value(); }
    [[nodiscard]] T value() && { return std::move(value()); }
    [[nodiscard]] T& operator*() & { return value(); }
    [[nodiscard]] const T& operator*() const& { return value(); }
    [[nodiscard]] T operator*() && { return std::move(value()); }
    [[nodiscard]] T* operator->() { return &value(); }
    [[nodiscard]] const T* operator->() const { return &value(); }

    // Of kind Ok, without a message, when ok().
    [[nodiscard]] Status status() const { return ok() ? Status{} : *std::get_if<1>(&either_); }

  private:
    std::variant<T, Status> either_;
};

}  // namespace cellar::v1
