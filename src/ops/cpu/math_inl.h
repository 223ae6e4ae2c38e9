// Exponentials and what is made of them, per target. Relative errors are below 4e-7 wherever results are normal floats.
#if defined(CELLAR_OPS_CPU_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_MATH_INL_H
#undef CELLAR_OPS_CPU_MATH_INL_H
#else
#define CELLAR_OPS_CPU_MATH_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x * 2^n for integral n in [-126, 127].
template <class D, class V>
HWY_INLINE V times_power_of_two(D d, V x, V n) {
    const hn::RebindToSigned<D> di;
    return hn::Mul(x, hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)))));
}

// 2^r for r in [-0.5, 0.5], exactly 1 for 0.
template <class D, class V>
HWY_INLINE V exp2_near_zero(D d, V r) {
    V p = hn::Set(d, 0.0001545318283F);
    p = hn::MulAdd(p, r, hn::Set(d, 0.00133908863321F));
    p = hn::MulAdd(p, r, hn::Set(d, 0.00961808251999F));
    p = hn::MulAdd(p, r, hn::Set(d, 0.0555035707115F));
    p = hn::MulAdd(p, r, hn::Set(d, 0.240226507606F));
    p = hn::MulAdd(p, r, hn::Set(d, 0.693147188035F));
    return hn::MulAdd(p, r, hn::Set(d, 1.0F));
}

// 2^x for finite x <= 0, exactly 1 for 0, at most 2^-126 far below. NaN stays NaN.
template <class D, class V>
HWY_INLINE V exp2_of_negative(D d, V x) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
    const V n = hn::Round(x);
    const V p = exp2_near_zero(d, hn::Sub(x, n));
    if constexpr (hn::MaxLanes(D()) == 16) {
        return V{_mm512_scalef_ps(p.raw, n.raw)};
    } else {
        return V{_mm_scalef_ps(p.raw, n.raw)};
    }
#else
    const V floor = hn::Set(d, -126.0F);
    const V clamped = hn::Max(x, floor);
    const V n = hn::Round(clamped);
    const V power = times_power_of_two(d, exp2_near_zero(d, hn::Sub(clamped, n)), n);
    return hn::IfThenElse(hn::Ge(x, floor), power, hn::IfThenElseZero(hn::IsNaN(x), x));
#endif
}

// e^x, saturated at x = -87 and x = 88.
template <class D, class V>
HWY_INLINE V exp_saturated(D d, V x) {
    const V clamped = hn::Min(hn::Max(x, hn::Set(d, -87.0F)), hn::Set(d, 88.0F));
    const V n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504089F)));
    V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), clamped);
    r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
    V p = hn::Set(d, 0.00139262033616F);
    p = hn::MulAdd(p, r, hn::Set(d, 0.00836319488242F));
    p = hn::MulAdd(p, r, hn::Set(d, 0.0416665544984F));
    p = hn::MulAdd(p, r, hn::Set(d, 0.166665768946F));
    p = hn::MulAdd(p, r, hn::Set(d, 0.5F));
    p = hn::MulAdd(hn::Mul(r, r), p, r);
    return times_power_of_two(d, hn::Add(p, hn::Set(d, 1.0F)), n);
}

template <class D, class V>
HWY_INLINE V keep_nan(D /*d*/, V x, V result) {
    return hn::IfThenElse(hn::IsNaN(x), x, result);
}

// x / (1 + e^-u)
template <class D, class V>
HWY_INLINE V times_sigmoid(D d, V x, V u) {
    return hn::Div(x, hn::Add(hn::Set(d, 1.0F), exp_saturated(d, hn::Neg(u))));
}

template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
    const V one = hn::Set(d, 1.0F);
    const V a = hn::Abs(x);
    // Far from zero the exponential form is exact enough; near zero it would cancel, so an odd polynomial takes over there.
    const V far = hn::Sub(one, hn::Div(hn::Set(d, 2.0F), hn::Add(exp_saturated(d, hn::Add(a, a)), one)));
    const V z = hn::Mul(a, a);
    V p = hn::Set(d, 0.00226950168416F);
    p = hn::MulAdd(p, z, hn::Set(d, -0.00832318705828F));
    p = hn::MulAdd(p, z, hn::Set(d, 0.0217625029074F));
    p = hn::MulAdd(p, z, hn::Set(d, -0.0539584616275F));
    p = hn::MulAdd(p, z, hn::Set(d, 0.133333001462F));
    p = hn::MulAdd(p, z, hn::Set(d, -0.333333331494F));
    const V near = hn::MulAdd(hn::Mul(p, z), a, a);
    const V magnitude = hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625F)), near, far);
    return keep_nan(d, x, hn::CopySign(magnitude, x));
}

// erfc(|x| / sqrt 2): t R(t) e^(-x x / 2) with t = 1 / (1 + |x| / (2 sqrt 2)). The rounding of x x is worked back in.
template <class D, class V>
HWY_INLINE V normal_tails(D d, V x) {
    const V one = hn::Set(d, 1.0F);
    const V t = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, 0.353553390593F), one));
    V p = hn::Set(d, 0.0174617482865F);
    p = hn::MulAdd(p, t, hn::Set(d, -0.149686440919F));
    p = hn::MulAdd(p, t, hn::Set(d, 0.486789891082F));
    p = hn::MulAdd(p, t, hn::Set(d, -0.741037215886F));
    p = hn::MulAdd(p, t, hn::Set(d, 0.474895577568F));
    p = hn::MulAdd(p, t, hn::Set(d, -0.124030557699F));
    p = hn::MulAdd(p, t, hn::Set(d, 0.233335382004F));
    p = hn::MulAdd(p, t, hn::Set(d, 0.23721159444F));
    p = hn::MulAdd(p, t, hn::Set(d, 0.283001592011F));
    p = hn::MulAdd(p, t, hn::Set(d, 0.282058422352F));
    const V half = hn::Set(d, 0.5F);
    const V square = hn::Mul(x, x);
    const V lost = hn::Mul(hn::MulSub(x, x, square), half);
    const V power = exp_saturated(d, hn::Neg(hn::Mul(square, half)));
    return hn::Mul(hn::Mul(p, t), hn::NegMulAdd(power, lost, power));
}

template <class D, class V>
HWY_INLINE V gelu_tanh(D d, V x) {
    // 0.5 (1 + tanh u) = 1 / (1 + e^(-2 u))
    const V cubed = hn::MulAdd(hn::Mul(x, hn::Set(d, 0.044715F)), hn::Mul(x, x), x);
    return times_sigmoid(d, x, hn::Mul(cubed, hn::Set(d, 1.59576912161F)));
}

template <class D, class V>
HWY_INLINE V gelu_erf(D d, V x) {
    const V tail = normal_tails(d, x);
    const V two = hn::Set(d, 2.0F);
    const V share = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(two, tail));
    return hn::Mul(hn::Mul(x, hn::Set(d, 0.5F)), share);
}

// cap * tanh(x / cap)
template <class D, class V>
HWY_INLINE V soft_capped(D d, V x, V cap) {
    return hn::Mul(cap, tanh(d, hn::Div(x, cap)));
}

}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
