#pragma once
// Values for tests: as weights and activations are spread.
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace cellar {

inline std::vector<float> normal_values(size_t n, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(n);
    for (float& v : values) v = normal(random);
    return values;
}

}  // namespace cellar
