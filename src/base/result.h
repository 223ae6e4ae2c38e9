#pragma once
// Errors that a user can cause or meet, as values. Bugs are not errors: they end in CHECK (check.h).
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <tl/expected.hpp>

namespace cellar {

enum class ErrorKind {
    Input,        // a file, field, flag or request is wrong
    Unsupported,  // well formed, but this build cannot do it
    Full,         // no room: memory, cells, context
    System,       // the operating system said no
    Cancelled,    // the user stopped it
};

// What went wrong, in one line for people: what, where (file, field, flag), the values, what to do.
struct Error {
    ErrorKind kind = ErrorKind::Input;
    std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

// return fail("{}: key '{}' is missing", path, key);
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(fmt::format_string<Args...> format, Args&&... args) {
    return tl::unexpected<Error>(Error{ErrorKind::Input, fmt::format(format, std::forward<Args>(args)...)});
}

template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
    return tl::unexpected<Error>(Error{kind, fmt::format(format, std::forward<Args>(args)...)});
}

// Passes an error on to the caller: `return pass(result);`
template <class T>
[[nodiscard]] tl::unexpected<Error> pass(T&& result) {
    return tl::unexpected<Error>(std::forward<T>(result).error());
}

}  // namespace cellar

#define CELLAR_CONCAT_INNER(a, b) a##b
#define CELLAR_CONCAT(a, b) CELLAR_CONCAT_INNER(a, b)

// CELLAR_TRY(auto x, f());  evaluates f(), returns its error from the calling function, else binds the value.
#define CELLAR_TRY(declaration, expression) CELLAR_TRY_AS(CELLAR_CONCAT(result_, __LINE__), declaration, expression)
#define CELLAR_TRY_AS(name, declaration, expression)   \
    auto name = (expression);                          \
    if (!name) return ::cellar::pass(std::move(name)); \
    declaration = std::move(*name)

// CELLAR_TRY_VOID(f());  for Result<void>.
#define CELLAR_TRY_VOID(expression)                                                                             \
    do {                                                                                                        \
        if (auto result_of_try = (expression); !result_of_try) return ::cellar::pass(std::move(result_of_try)); \
    } while (false)
