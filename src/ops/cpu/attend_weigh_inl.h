// The softmax of attention, per target: scores to weights, states of stretches of positions, and their union.
#if defined(CELLAR_OPS_CPU_ATTEND_WEIGH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_ATTEND_WEIGH_INL_H_
#undef CELLAR_OPS_CPU_ATTEND_WEIGH_INL_H_
#else
#define CELLAR_OPS_CPU_ATTEND_WEIGH_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "ops/cpu/attend_tile_inl.h"
#include "ops/cpu/math_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {

HWY_INLINE float shrink(float log2) {
    const hn::CappedTag<float, 1> one;
    return hn::GetLane(exp2_of_negative(one, hn::Set(one, log2)));
}

// One tile of some rows.
struct Weighing {
    float* scores;        // [rows, kTile]: becomes weights
    const float* hidden;  // [kTile], or null: not zero where a position is not seen. Its weight becomes zero.
    float soft_cap;
    float* most;         // [rows]: the largest score so far
    float* lane_sums;    // [rows, 16]: sums of weights, relative to the largest score
    float* corrections;  // [rows]: becomes what earlier weights are to be multiplied by
};

// A score as it counts.
HWY_INLINE VF counted_score(const Weighing& x, VF score, int i) {
    const DF d;
    if (x.soft_cap != 0.0F) score = hn::Mul(soft_capped(d, score, hn::Set(d, x.soft_cap)), hn::Set(d, kLog2e));
    if (x.hidden == nullptr) return score;
    return hn::IfThenElse(hn::Eq(hn::Load(d, x.hidden + i * kLanes), hn::Zero(d)), score, hn::Set(d, kNoScore));
}

// Turns scores into weights relative to the largest score so far, and counts them. At least one position is seen. Returns whether a
// largest score has risen; behind the first tiles that is seldom.
inline bool weigh(const Weighing& x, int rows) {
    const DF d;
    constexpr int kVectors = kTile / kLanes;
    const bool plain = x.hidden == nullptr && x.soft_cap == 0.0F;
    bool any_raised = false;
    for (int r = 0; r < rows; ++r) {
        float* scores = x.scores + r * kTile;
        VF score[kVectors];
        VF top = hn::Set(d, kNoScore);
#pragma GCC unroll 8
        for (int i = 0; i < kVectors; ++i) {
            score[i] = hn::Load(d, scores + i * kLanes);
            if (!plain) score[i] = counted_score(x, score[i], i);
            top = hn::Max(top, score[i]);
        }
        VF sum = hn::Load(d, x.lane_sums + r * 16);
        const bool raised = !hn::AllFalse(d, hn::Gt(top, hn::Set(d, x.most[r])));
        x.corrections[r] = 1.0F;
        if (raised) {
            const float most = hn::GetLane(hn::MaxOfLanes(d, top));
            x.corrections[r] = shrink(x.most[r] - most);
            x.most[r] = most;
            sum = hn::Mul(sum, hn::Set(d, x.corrections[r]));
            any_raised = true;
        }
        const VF most = hn::Set(d, x.most[r]);
#pragma GCC unroll 8
        for (int i = 0; i < kVectors; ++i) {
            const VF weight = exp2_of_negative(d, hn::Sub(score[i], most));
            hn::Store(weight, d, scores + i * kLanes);
            sum = hn::Add(sum, weight);
        }
        hn::Store(sum, d, x.lane_sums + r * 16);
    }
    return any_raised;
}

HWY_INLINE bool saw_nothing(float most, float sum) {
    return most == kNoScore && sum == 0.0F;
}

// What a query head has seen of two stretches of positions, the earlier one first.
HWY_INLINE void merge_row(float* out, float& most, float& sum, const float* later, float later_most, float later_sum, int width) {
    if (saw_nothing(later_most, later_sum)) return;
    if (saw_nothing(most, sum)) {
        std::copy_n(later, width, out);
        most = later_most;
        sum = later_sum;
        return;
    }
    const DF d;
    const float new_most = std::max(most, later_most);
    const float keep = shrink(most - new_most);
    const float join = shrink(later_most - new_most);
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) {
        const VF add = hn::Mul(hn::LoadU(d, later + i), hn::Set(d, join));
        hn::StoreU(hn::MulAdd(hn::LoadU(d, out + i), hn::Set(d, keep), add), d, out + i);
    }
    for (; i < width; ++i) out[i] = out[i] * keep + later[i] * join;
    sum = sum * keep + later_sum * join;
    most = new_most;
}

// The result: out / (sum + what the sink weighs); zeros where nothing was seen. `sink` in units of log2, or null.
HWY_INLINE void finish_row(float* out, float most, float sum, const float* sink, int width) {
    if (saw_nothing(most, sum)) {
        std::fill_n(out, width, 0.0F);
        return;
    }
    float keep = 1.0F;
    if (sink != nullptr) {
        const float new_most = std::max(most, *sink);
        keep = shrink(most - new_most);
        sum = sum * keep + shrink(*sink - new_most);
    }
    const DF d;
    const float share = keep / sum;
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, out + i), hn::Set(d, share)), d, out + i);
    for (; i < width; ++i) out[i] *= share;
}

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
