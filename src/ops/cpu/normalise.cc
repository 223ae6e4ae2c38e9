// Normalisation and rotation: functions of whole rows and of pairs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/normalise.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "base/check.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/split.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Sum over i of f(x[i]), where f is a function of a vector and of one element. Four chains of additions, so that none waits.
template <class F>
HWY_INLINE float sum_of(const float* x, int64_t n, F&& f) {
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    V s0 = hn::Zero(d);
    V s1 = hn::Zero(d);
    V s2 = hn::Zero(d);
    V s3 = hn::Zero(d);
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
        s0 = f(hn::LoadU(d, x + i), s0);
        s1 = f(hn::LoadU(d, x + i + lanes), s1);
        s2 = f(hn::LoadU(d, x + i + 2 * lanes), s2);
        s3 = f(hn::LoadU(d, x + i + 3 * lanes), s3);
    }
    for (; i + lanes <= n; i += lanes) s0 = f(hn::LoadU(d, x + i), s0);
    float rest = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
    const hn::CappedTag<float, 1> one;
    for (; i < n; ++i) rest = hn::GetLane(f(hn::LoadU(one, x + i), hn::Set(one, rest)));
    return rest;
}

struct AddUp {
    template <class W>
    HWY_INLINE W operator()(W x, W sum) const {
        return hn::Add(x, sum);
    }
};

struct AddSquare {
    template <class W>
    HWY_INLINE W operator()(W x, W sum) const {
        return hn::MulAdd(x, x, sum);
    }
};

struct AddSquareFrom {
    float mean;
    template <class W>
    HWY_INLINE W operator()(W x, W sum) const {
        const W apart = hn::Sub(x, hn::Set(hn::DFromV<W>(), mean));
        return hn::MulAdd(apart, apart, sum);
    }
};

// y = (x - mean) * factor * weight + bias. The last elements are done one by one: each element always in the same way.
template <class Tag>
HWY_INLINE void normal(Tag d, const float* x, float mean, float factor, const float* weight, const float* bias, float* y) {
    auto v = hn::Mul(hn::Sub(hn::LoadU(d, x), hn::Set(d, mean)), hn::Set(d, factor));
    if (weight != nullptr) v = hn::Mul(v, hn::LoadU(d, weight));
    if (bias != nullptr) v = hn::Add(v, hn::LoadU(d, bias));
    hn::StoreU(v, d, y);
}

void write_normal(const float* x, int64_t n, float mean, float factor, const float* weight, const float* bias, float* y) {
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto at = [](const float* p, int64_t i) { return p == nullptr ? nullptr : p + i; };
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) normal(d, x + i, mean, factor, at(weight, i), at(bias, i), y + i);
    for (; i < n; ++i) normal(hn::CappedTag<float, 1>(), x + i, mean, factor, at(weight, i), at(bias, i), y + i);
}

void rms_norm_row(const float* x, int64_t n, const float* weight, float eps, float* y) {
    const float squares = sum_of(x, n, AddSquare());
    write_normal(x, n, 0.0F, 1.0F / std::sqrt(squares / static_cast<float>(n) + eps), weight, nullptr, y);
}

void layer_norm_row(const float* x, int64_t n, const float* weight, const float* bias, float eps, float* y) {
    const float mean = sum_of(x, n, AddUp()) / static_cast<float>(n);
    const float squares = sum_of(x, n, AddSquareFrom{mean});
    write_normal(x, n, mean, 1.0F / std::sqrt(squares / static_cast<float>(n) + eps), weight, bias, y);
}

template <class Tag>
HWY_INLINE void turn_halves(Tag d, float* a, float* b, const float* table) {
    hn::Vec<Tag> cos;
    hn::Vec<Tag> sin;
    hn::LoadInterleaved2(d, table, cos, sin);
    const auto x = hn::LoadU(d, a);
    const auto y = hn::LoadU(d, b);
    hn::StoreU(hn::MulSub(x, cos, hn::Mul(y, sin)), d, a);
    hn::StoreU(hn::MulAdd(x, sin, hn::Mul(y, cos)), d, b);
}

template <class Tag>
HWY_INLINE void turn_neighbours(Tag d, float* pairs, const float* table) {
    hn::Vec<Tag> cos;
    hn::Vec<Tag> sin;
    hn::Vec<Tag> x;
    hn::Vec<Tag> y;
    hn::LoadInterleaved2(d, table, cos, sin);
    hn::LoadInterleaved2(d, pairs, x, y);
    hn::StoreInterleaved2(hn::MulSub(x, cos, hn::Mul(y, sin)), hn::MulAdd(x, sin, hn::Mul(y, cos)), d, pairs);
}

void rope_head(float* head, int dims, RopePairing pairing, const float* table) {
    const D d;
    const auto lanes = static_cast<int>(hn::Lanes(d));
    const int pairs = dims / 2;
    int i = 0;
    if (pairing == RopePairing::Halves) {
        for (; i + lanes <= pairs; i += lanes) turn_halves(d, head + i, head + pairs + i, table + 2 * i);
    } else {
        for (; i + lanes <= pairs; i += lanes) turn_neighbours(d, head + 2 * i, table + 2 * i);
    }
    float* second = pairing == RopePairing::Halves ? head + pairs : head + 1;
    const int step = pairing == RopePairing::Halves ? 1 : 2;
    for (; i < pairs; ++i) {
        const float x = head[i * step];
        const float y = second[i * step];
        head[i * step] = x * table[2 * i] - y * table[2 * i + 1];
        second[i * step] = x * table[2 * i + 1] + y * table[2 * i];
    }
}

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops {
HWY_EXPORT(rms_norm_row);
HWY_EXPORT(layer_norm_row);
HWY_EXPORT(rope_head);
}  // namespace cellar::ops

namespace cellar::ops::cpu_impl {

void rms_norm(Mat x, const float* weight, float eps, MatOut y, ThreadTeam& team) {
    CHECK(x.rows == y.rows && x.cols == y.cols);
    const auto row = HWY_DYNAMIC_DISPATCH(rms_norm_row);
    for_rows(x.rows, x.cols, team, [&](int64_t r) { row(x.row(r), x.cols, weight, eps, y.row(r)); });
}

void layer_norm(Mat x, const float* weight, const float* bias, float eps, MatOut y, ThreadTeam& team) {
    CHECK(x.rows == y.rows && x.cols == y.cols);
    const auto row = HWY_DYNAMIC_DISPATCH(layer_norm_row);
    for_rows(x.rows, x.cols, team, [&](int64_t r) { row(x.row(r), x.cols, weight, bias, eps, y.row(r)); });
}

void rope_table(const RopeSpec& rope, const int32_t* pos, int64_t rows, float* table) {
    for (int64_t r = 0; r < rows; ++r) {
        float* out = table + r * rope.dims;
        for (int i = 0; i < rope.dims / 2; ++i) {
            const double angle = pos[r] * rope.frequency[i];
            out[2 * i] = static_cast<float>(std::cos(angle) * rope.magnitude);
            out[2 * i + 1] = static_cast<float>(std::sin(angle) * rope.magnitude);
        }
    }
}

void rope(MatOut x, int heads, int width, int dims, RopePairing pairing, const float* table, ThreadTeam& team) {
    CHECK(dims <= width && static_cast<int64_t>(heads) * width == x.cols);
    const auto head = HWY_DYNAMIC_DISPATCH(rope_head);
    for_rows(x.rows, x.cols, team, [&](int64_t r) {
        for (int h = 0; h < heads; ++h) head(x.row(r) + static_cast<int64_t>(h) * width, dims, pairing, table + r * dims);
    });
}

}  // namespace cellar::ops::cpu_impl
#endif
