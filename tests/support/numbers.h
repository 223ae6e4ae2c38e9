#pragma once
// How tests compare logits.
#include <cstring>
#include <span>

namespace cellar {

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Squared error over squared value. Requires: as many of both.
inline double nmse(std::span<const float> got, std::span<const float> want) {
    double error = 0.0;
    double power = 0.0;
    for (size_t i = 0; i < want.size(); ++i) {
        const double difference = static_cast<double>(got[i]) - static_cast<double>(want[i]);
        error += difference * difference;
        power += static_cast<double>(want[i]) * static_cast<double>(want[i]);
    }
    return error / power;
}

}  // namespace cellar
