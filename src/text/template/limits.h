#pragma once
// What one rendering may cost. A template comes with a model file and is as trustworthy as that file: not at all.
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cellar::jinja {

struct Limits {
    std::uint64_t steps = 50'000'000;         // nodes evaluated, items visited, and a step for each 256 bytes that a builtin reads or writes
    std::chrono::milliseconds time{10'000};   // wall time of one rendering
    std::uint64_t value_bytes = 64u << 20;    // one string or one container; a list counts 16 bytes an item
    std::uint64_t output_bytes = 64u << 20;   // the rendered text
    std::uint64_t memory_bytes = 512u << 20;  // everything alive at one moment: values, scopes, captured output
    std::uint32_t depth = 500;                // statements and expressions inside each other, through macros and recursive loops too
    std::uint32_t nesting = 100;              // lists in lists, when they are printed, compared or turned into JSON
    std::uint64_t range = 100'000;            // items of one range()
};

// What parsing may cost; it is fixed, since no real template comes near it.
constexpr std::size_t max_source_bytes = 1u << 20;
constexpr std::uint32_t max_parse_depth = 200;  // brackets and blocks inside each other
constexpr std::size_t max_parameters = 255;     // of a macro
constexpr std::uint32_t max_input_depth = 64;   // arrays and objects inside each other in the variables

}  // namespace cellar::jinja
