#include "model/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace cellar::model {
namespace {

// The pair whose wavelength fits `turns` times into the original context.
double pair_of_turns(const RopeConfig& config, double turns) {
    return config.dims * std::log(static_cast<double>(config.original_context) / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(config.base));
}

double growth(double factor, double multiplier) {
    return factor <= 1.0 ? 1.0 : 0.1 * multiplier * std::log(factor) + 1.0;
}

}  // namespace

Rope resolve(const RopeConfig& config, int64_t context) {
    CHECK_EQ(config.dims % 2, 0);
    const int pairs = config.dims / 2;
    Rope rope;
    rope.magnitude = config.magnitude;
    rope.frequency.resize(static_cast<size_t>(pairs));
    const std::vector<float>* factors = config.factors.empty() ? nullptr : &config.factors;
    if (config.scaling == RopeConfig::Scaling::LongRope && !config.long_factors.empty()) {
        rope.long_regime = context > config.original_context;
        factors = rope.long_regime ? &config.long_factors : &config.short_factors;
    }
    double low = 0.0;
    double high = 0.0;
    if (config.scaling == RopeConfig::Scaling::Yarn) {
        low = std::max(0.0, std::floor(pair_of_turns(config, config.beta_fast)));
        high = std::min(config.dims - 1.0, std::ceil(pair_of_turns(config, config.beta_slow)));
        rope.magnitude *=
            config.log_multiplier != 0.0 ? growth(config.factor, 1.0) / growth(config.factor, config.log_multiplier) : growth(config.factor, 1.0);
    }
    for (int i = 0; i < pairs; ++i) {
        double frequency = std::pow(config.base, -2.0 * i / config.dims);
        if (factors != nullptr) frequency /= static_cast<double>((*factors)[static_cast<size_t>(i)]);
        const double stretched = frequency / config.factor;
        switch (config.scaling) {
            case RopeConfig::Scaling::None:
                break;
            case RopeConfig::Scaling::Linear:
            case RopeConfig::Scaling::LongRope:
                frequency = stretched;
                break;
            case RopeConfig::Scaling::Yarn: {
                const double keep = 1.0 - std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
                frequency = stretched * (1.0 - keep) + frequency * keep;
                break;
            }
        }
        rope.frequency[static_cast<size_t>(i)] = frequency;
    }
    return rope;
}

}  // namespace cellar::model
