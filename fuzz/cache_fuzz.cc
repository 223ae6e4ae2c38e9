// Operations on a cache, chosen by the input, against the plain model: rows byte for byte, views and invariants after each one.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "kv/cache_runner_inl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace cellar::kv;  // NOLINT: a program of one file
    if (size < 3 || size > 2000) return 0;
    const Scenario limits = scenario(data[0] % 7, 16 << (data[1] % 3), 32 + 8 * (data[2] % 64), false);
    Program program;
    for (size_t i = 3; i + 3 < size; i += 4) program.push_back(op_from(data[i], data[i + 1], data[i + 2], data[i + 3]));
    const std::string wrong = run(limits, program);
    if (wrong.empty()) return 0;
    std::fprintf(stderr, "%s\n%s", wrong.c_str(), text(program).c_str());
    std::abort();
}
