// Functions of single elements, and sums over experts.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/elementwise.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "base/check.h"
#include "ops/cpu/activate.h"
#include "ops/cpu/math_inl.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/split.h"
#include "ops/route.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// y[i] = f(a[i], b[i]). The last elements go through a padded vector, so that all take the same way.
template <class F>
HWY_INLINE void map(const float* a, const float* b, float* y, int64_t n, F&& f) {
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
    if (i == n) return;
    HWY_ALIGN float left[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN float right[HWY_MAX_BYTES / sizeof(float)] = {};
    std::copy(a + i, a + n, left);
    std::copy(b + i, b + n, right);
    hn::Store(f(hn::Load(d, left), hn::Load(d, right)), d, left);
    std::copy_n(left, n - i, y + i);
}

template <Activation kind>
HWY_INLINE V activated(V x) {
    const D d;
    if constexpr (kind == Activation::Silu) return times_sigmoid(d, x, x);
    if constexpr (kind == Activation::Gelu) return gelu_tanh(d, x);
    if constexpr (kind == Activation::GeluErf) return gelu_erf(d, x);
    if constexpr (kind == Activation::Relu) return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
    if constexpr (kind == Activation::ReluSquared) return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, x));
    if constexpr (kind == Activation::Sigmoid) return keep_nan(d, x, times_sigmoid(d, hn::Set(d, 1.0F), x));
    if constexpr (kind == Activation::Tanh) return tanh(d, x);
}

template <Activation kind>
void activate_span_of(const float* gate, const float* up, float* y, int64_t n) {
    if (up == nullptr) return map(gate, gate, y, n, [](V g, V /*u*/) HWY_ATTR { return activated<kind>(g); });
    map(gate, up, y, n, [](V g, V u) HWY_ATTR { return hn::Mul(activated<kind>(g), u); });
}

// y = f(gate) * up, without the factor where up is null.
void activate_span(Activation kind, const float* gate, const float* up, float* y, int64_t n) {
    switch (kind) {
        case Activation::Silu:
            return activate_span_of<Activation::Silu>(gate, up, y, n);
        case Activation::Gelu:
            return activate_span_of<Activation::Gelu>(gate, up, y, n);
        case Activation::GeluErf:
            return activate_span_of<Activation::GeluErf>(gate, up, y, n);
        case Activation::Relu:
            return activate_span_of<Activation::Relu>(gate, up, y, n);
        case Activation::ReluSquared:
            return activate_span_of<Activation::ReluSquared>(gate, up, y, n);
        case Activation::Sigmoid:
            return activate_span_of<Activation::Sigmoid>(gate, up, y, n);
        case Activation::Tanh:
            return activate_span_of<Activation::Tanh>(gate, up, y, n);
    }
}

void add_span(const float* a, const float* b, float* y, int64_t n) {
    map(a, b, y, n, [](V x, V z) HWY_ATTR { return hn::Add(x, z); });
}

void scale_span(const float* a, float factor, float* y, int64_t n) {
    const V by = hn::Set(D(), factor);
    map(a, a, y, n, [by](V x, V /*z*/) HWY_ATTR { return hn::Mul(x, by); });
}

void soft_cap_span(const float* a, float cap, float* y, int64_t n) {
    const V most = hn::Set(D(), cap);
    map(a, a, y, n, [most](V x, V /*z*/) HWY_ATTR { return soft_capped(D(), x, most); });
}

// y[i] = sum over j of weights[j] * x[j * stride + i]
void weigh_span(const float* x, int64_t stride, const float* weights, int used, float* y, int64_t n) {
    std::fill_n(y, n, 0.0F);
    for (int j = 0; j < used; ++j) {
        const V weight = hn::Set(D(), weights[j]);
        map(x + j * stride, y, y, n, [weight](V v, V sum) HWY_ATTR { return hn::MulAdd(weight, v, sum); });
    }
}

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops {
HWY_EXPORT(activate_span);
HWY_EXPORT(add_span);
HWY_EXPORT(scale_span);
HWY_EXPORT(soft_cap_span);
HWY_EXPORT(weigh_span);
}  // namespace cellar::ops

namespace cellar::ops::cpu_impl {
namespace {

void check_same_shape(Mat a, Mat y) {
    CHECK_EQ(a.rows, y.rows);
    CHECK_EQ(a.cols, y.cols);
}

}  // namespace

void add(Mat a, Mat b, MatOut y, ThreadTeam& team) {
    check_same_shape(a, y);
    check_same_shape(b, y);
    const auto span = HWY_DYNAMIC_DISPATCH(add_span);
    for_spans(y.rows, y.cols, team, [&](int64_t r, int64_t c, int64_t n) { span(a.row(r) + c, b.row(r) + c, y.row(r) + c, n); });
}

void scale(Mat a, float factor, MatOut y, ThreadTeam& team) {
    check_same_shape(a, y);
    const auto span = HWY_DYNAMIC_DISPATCH(scale_span);
    for_spans(y.rows, y.cols, team, [&](int64_t r, int64_t c, int64_t n) { span(a.row(r) + c, factor, y.row(r) + c, n); });
}

void activate(Activation kind, Mat a, MatOut y, ThreadTeam& team) {
    check_same_shape(a, y);
    const auto span = HWY_DYNAMIC_DISPATCH(activate_span);
    for_spans(y.rows, y.cols, team, [&](int64_t r, int64_t c, int64_t n) { span(kind, a.row(r) + c, nullptr, y.row(r) + c, n); });
}

void activate_mul(Activation kind, Mat gate, Mat up, MatOut y, ThreadTeam& team) {
    check_same_shape(gate, y);
    check_same_shape(up, y);
    const auto span = HWY_DYNAMIC_DISPATCH(activate_span);
    for_spans(y.rows, y.cols, team, [&](int64_t r, int64_t c, int64_t n) { span(kind, gate.row(r) + c, up.row(r) + c, y.row(r) + c, n); });
}

void activate_row(Activation kind, const float* gate, const float* up, float* y, int64_t n) {
    HWY_DYNAMIC_DISPATCH(activate_span)(kind, gate, up, y, n);
}

void soft_cap(Mat a, float cap, MatOut y, ThreadTeam& team) {
    check_same_shape(a, y);
    const auto span = HWY_DYNAMIC_DISPATCH(soft_cap_span);
    for_spans(y.rows, y.cols, team, [&](int64_t r, int64_t c, int64_t n) { span(a.row(r) + c, cap, y.row(r) + c, n); });
}

void gather_rows(Mat x, const int32_t* rows, int64_t count, MatOut y, ThreadTeam& team) {
    CHECK_EQ(x.cols, y.cols);
    for_rows(count, x.cols, team, [&](int64_t i) { std::copy_n(x.row(rows[i]), x.cols, y.row(i)); });
}

void route(const RouteSpec& spec, Mat logits, int32_t* ids, float* weights, ThreadTeam& team) {
    CHECK_EQ(logits.cols, spec.experts);
    // A logit costs about as much as thirty elements of other kernels.
    for_rows(logits.rows, 30L * spec.experts, team, [&](int64_t r) { route_row(spec, logits.row(r), ids + r * spec.used, weights + r * spec.used); });
}

void combine_experts(Mat x, const float* weights, int used, MatOut y, ThreadTeam& team) {
    CHECK_EQ(x.rows, y.rows * used);
    CHECK_EQ(x.cols, y.cols);
    const auto span = HWY_DYNAMIC_DISPATCH(weigh_span);
    for_spans(y.rows, y.cols, team,
              [&](int64_t r, int64_t c, int64_t n) { span(x.row(r * used) + c, x.stride, weights + r * used, used, y.row(r) + c, n); });
}

}  // namespace cellar::ops::cpu_impl
#endif
