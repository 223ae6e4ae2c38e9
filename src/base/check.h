#pragma once
// CHECK ends the program when the program itself is wrong. Users must not be able to reach one.
#include <string>

#include <fmt/core.h>

namespace cellar {

[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& values);

}  // namespace cellar

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) ::cellar::check_failed(__FILE__, __LINE__, #condition, ""); \
    } while (false)

#define CELLAR_CHECK_OP(a, op, b)                                                                                                            \
    do {                                                                                                                                     \
        const auto& check_a = (a);                                                                                                           \
        const auto& check_b = (b);                                                                                                           \
        if (!(check_a op check_b)) ::cellar::check_failed(__FILE__, __LINE__, #a " " #op " " #b, fmt::format("{} vs {}", check_a, check_b)); \
    } while (false)

#define CHECK_EQ(a, b) CELLAR_CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) CELLAR_CHECK_OP(a, !=, b)
#define CHECK_LT(a, b) CELLAR_CHECK_OP(a, <, b)
#define CHECK_LE(a, b) CELLAR_CHECK_OP(a, <=, b)
#define CHECK_GT(a, b) CELLAR_CHECK_OP(a, >, b)
#define CHECK_GE(a, b) CELLAR_CHECK_OP(a, >=, b)
