#pragma once
// Checks every invariant of a cache, slowly, for tests and tools.
#include <string>

namespace cellar::kv {

class Cache;

// Empty when all is well, else the first thing found wrong, with its numbers.
std::string verify(const Cache& cache);

}  // namespace cellar::kv
