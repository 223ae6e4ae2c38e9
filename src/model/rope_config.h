#pragma once
// How a model turns positions into angles, and the ways it stretches them to longer contexts.
#include <cstdint>
#include <vector>

#include "ops/types.h"

namespace cellar::model {

struct RopeConfig {
    enum class Scaling : uint8_t { None, Linear, Yarn, LongRope };

    int dims = 0;  // elements of a head that turn, even
    double base = 10000.0;
    Scaling scaling = Scaling::None;
    double factor = 1.0;               // how many times longer than trained
    int64_t original_context = 0;      // trained length before stretching
    double magnitude = 1.0;            // of cos and sin, on top of what the scaling asks for
    double beta_fast = 32.0;           // Yarn: turns within the original context above which a pair is left alone
    double beta_slow = 1.0;            //       and below which it is fully stretched
    double log_multiplier = 0.0;       // Yarn: 0: magnitude grows with log(factor); else the growth is divided by the one of this multiplier
    std::vector<float> factors;        // [dims / 2] or empty: each pair's frequency is divided by it
    std::vector<float> short_factors;  // LongRope: up to the original context
    std::vector<float> long_factors;   // LongRope: beyond it
};

struct Rope {
    std::vector<double> frequency;  // [dims / 2]
    double magnitude = 1.0;
    bool long_regime = false;  // LongRope: the long factors are in force

    [[nodiscard]] ops::RopeSpec spec() const { return {static_cast<int>(frequency.size()) * 2, frequency.data(), magnitude}; }
};

// Works a configuration into frequencies for an engine whose sequences may reach `context` positions.
// YaRN: Peng et al. 2023, arXiv:2309.00071. LongRoPE: Ding et al. 2024, arXiv:2402.13753.
Rope resolve(const RopeConfig& config, int64_t context);

}  // namespace cellar::model
