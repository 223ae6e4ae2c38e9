#pragma once
// Text that came from outside, made fit to stand in a message.
#include <cstddef>
#include <string>
#include <string_view>

namespace cellar {

// `text` in single quotes, on one line: control characters, quotes, backslashes and bytes that are no UTF-8 are escaped.
// After max_bytes of it "..." stands for the rest; a character is not cut.
std::string quoted(std::string_view text, size_t max_bytes = 80);

// The same without the quotes around it; quotes are kept as they are.
std::string escaped(std::string_view text, size_t max_bytes = 80);

}  // namespace cellar
