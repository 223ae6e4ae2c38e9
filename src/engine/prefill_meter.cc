#include "engine/prefill_meter.h"

namespace cellar {
namespace {

// In millions, so that squares of long steps and of short ones go together.
constexpr double kPairs = 1e-6;

}  // namespace

void PrefillMeter::add(int32_t from, int32_t to, double seconds) {
    const double tokens = to - from;
    const double pairs = kPairs * (static_cast<double>(to) * to - static_cast<double>(from) * from) / 2;
    tokens2_ += tokens * tokens;
    pairs2_ += pairs * pairs;
    tokens_pairs_ += tokens * pairs;
    tokens_seconds_ += tokens * seconds;
    pairs_seconds_ += pairs * seconds;
}

kv::PrefillCost PrefillMeter::cost() const {
    kv::PrefillCost out;
    if (!has_measured()) return out;
    const double determinant = tokens2_ * pairs2_ - tokens_pairs_ * tokens_pairs_;
    // Steps that were all alike say nothing about pairs.
    if (determinant > 1e-9 * tokens2_ * pairs2_) {
        const double per_token = (tokens_seconds_ * pairs2_ - pairs_seconds_ * tokens_pairs_) / determinant;
        const double per_pair = (pairs_seconds_ * tokens2_ - tokens_seconds_ * tokens_pairs_) / determinant;
        if (per_token >= 0.0 && per_pair >= 0.0) return {per_token, per_pair * kPairs};
        if (per_token < 0.0 && pairs2_ > 0.0) return {0.0, pairs_seconds_ / pairs2_ * kPairs};
    }
    return {tokens_seconds_ / tokens2_, 0.0};
}

}  // namespace cellar
