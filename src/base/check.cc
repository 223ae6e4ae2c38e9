#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace cellar {

void check_failed(const char* file, int line, const char* expression, const std::string& values) {
    std::fprintf(stderr, "%s:%d: CHECK failed: %s%s%s\nThis is a bug in cellar, not in your input.\n", file, line, expression,
                 values.empty() ? "" : ": ", values.c_str());
    std::abort();
}

}  // namespace cellar
