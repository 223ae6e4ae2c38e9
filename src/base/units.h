#pragma once
// Amounts of memory as people write and read them.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cellar {

// "4096", "8G", "512MiB", "1.5GiB", "2GB", "50%". K M G T (either case) alone or with iB count in 1,024s, with B in 1,000s; a number alone
// or with B is bytes. A fraction is cut to whole bytes. A percentage is of `whole` and refused where `whole` is 0.
// No sign, no spaces, nothing behind. `what` names the flag or variable in the error.
Result<uint64_t> parse_bytes(std::string_view text, std::string_view what, uint64_t whole = 0);

// A whole number without sign, digits only.
Result<uint64_t> parse_count(std::string_view text, std::string_view what);

// "0 B", "1023 B", "1.00 KiB", "12.3 MiB", "456 GiB": three digits, in 1,024s.
std::string format_bytes(uint64_t bytes);

// 1234567 as "1,234,567".
std::string format_count(uint64_t count);

}  // namespace cellar
