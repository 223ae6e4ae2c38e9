// Panels, and what multiplies them. Included once for each target, after highway.h and target_inl.h.
#if defined(CELLAR_OPS_CPU_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_PANEL_INL_H_
#undef CELLAR_OPS_CPU_PANEL_INL_H_
#else
#define CELLAR_OPS_CPU_PANEL_INL_H_
#endif

#include <cstring>

#include "ops/cpu/panel.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::ScalableTag<float>;
using DI = hn::ScalableTag<int32_t>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using DU = hn::RebindToUnsigned<DF>;
using VU = hn::Vec<DU>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
constexpr int kPanels = kGroupRows / kLanes;

template <class T>
HWY_INLINE T load_at(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

// Tokens that one pass over a panel serves; as many as the registers hold.
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
constexpr int kTokens = 8;
#else
constexpr int kTokens = 4;
#endif

#if HWY_TARGET == HWY_AVX3_DL
constexpr bool kUnsignedWide = true;
#else
constexpr bool kUnsignedWide = false;
#endif

struct Panel {
    HWY_INLINE void put(int column, VU quants) { hn::Store(quants, DU(), reinterpret_cast<uint32_t*>(q[column])); }
    HWY_INLINE void put_scale(int sub, VF v) { hn::Store(v, DF(), scale[sub]); }
    HWY_INLINE void put_minimum(int sub, VF v) { hn::Store(v, DF(), minimum[sub]); }

    alignas(64) uint8_t q[kChunk / 4][kLanes * 4];
    alignas(64) float scale[kChunk / 16][kLanes];
    alignas(64) float minimum[kChunk / 16][kLanes];
};

// --- four columns of `kLanes` rows times four activations, added to `sum`

#if HWY_TARGET == HWY_AVX3_DL

struct Quants {
    __m512i q;
};
template <bool wide>
HWY_INLINE Quants make_quants(VU q) {
    return {q.raw};
}
template <bool wide>
HWY_INLINE VI dot4(VI sum, Quants w, const int8_t* x) {
    int32_t four;
    std::memcpy(&four, x, 4);
    return VI{_mm512_dpbusd_epi32(sum.raw, w.q, _mm512_set1_epi32(four))};
}

#elif HWY_TARGET == HWY_AVX3

struct Quants {
    __m512i q;
    __mmask64 negative;
};
template <bool wide>
HWY_INLINE Quants make_quants(VU q) {
    if constexpr (wide) return {_mm512_abs_epi8(q.raw), _mm512_movepi8_mask(q.raw)};
    return {q.raw, 0};
}
template <bool wide>
HWY_INLINE VI dot4(VI sum, Quants w, const int8_t* x) {
    int32_t four;
    std::memcpy(&four, x, 4);
    __m512i v = _mm512_set1_epi32(four);
    if constexpr (wide) v = _mm512_mask_sub_epi8(v, w.negative, _mm512_setzero_si512(), v);
    const __m512i pairs = _mm512_maddubs_epi16(w.q, v);
    return VI{_mm512_add_epi32(sum.raw, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
}

#elif HWY_TARGET == HWY_AVX2

struct Quants {
    __m256i q;
    __m256i sign;
};
template <bool wide>
HWY_INLINE Quants make_quants(VU q) {
    if constexpr (wide) return {_mm256_abs_epi8(q.raw), q.raw};
    return {q.raw, q.raw};
}
template <bool wide>
HWY_INLINE VI dot4(VI sum, Quants w, const int8_t* x) {
    int32_t four;
    std::memcpy(&four, x, 4);
    __m256i v = _mm256_set1_epi32(four);
    if constexpr (wide) v = _mm256_sign_epi8(v, w.sign);
    const __m256i pairs = _mm256_maddubs_epi16(w.q, v);
    return VI{_mm256_add_epi32(sum.raw, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))};
}

#else

struct Quants {
    VU q;
};
template <bool wide>
HWY_INLINE Quants make_quants(VU q) {
    return {q};
}
template <bool wide>
HWY_INLINE VI dot4(VI sum, Quants w, const int8_t* x) {
    const DI di;
    HWY_ALIGN int32_t lanes[kLanes];
    HWY_ALIGN uint32_t quants[kLanes];
    hn::Store(sum, di, lanes);
    hn::Store(w.q, DU(), quants);
    for (int lane = 0; lane < kLanes; ++lane) {
        for (int i = 0; i < 4; ++i) {
            const auto q = static_cast<uint8_t>(quants[lane] >> (8 * i));
            lanes[lane] += (wide ? static_cast<int8_t>(q) : static_cast<int>(q)) * x[i];
        }
    }
    return hn::Load(di, lanes);
}

#endif

// Adds the products of a panel's first `subs` sub-blocks to acc, for `tokens` tokens. One chain of additions for each lane and token:
// the blocks in order; with one activation scale for 256 columns, their sum first and then the scale.
template <DType type, int tokens>
HWY_INLINE void multiply_panel(const Panel& panel, const ActivationTile<tokens>& x, int subs, float* acc /* [tokens][kLanes] */) {
    constexpr PanelFormat format = panel_format(type);
    const DF df;
    const DI di;
    VF sum[tokens];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) sum[t] = format.per_256 ? hn::Zero(df) : hn::Load(df, acc + t * kLanes);
    for (int s = 0; s < subs; ++s) {
        VI dot[tokens];
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) dot[t] = hn::Set(di, x.start[t][s]);
#pragma GCC unroll 8
        for (int j = 0; j < format.sub / 4; ++j) {
            const Quants w = make_quants<format.wide>(hn::Load(DU(), reinterpret_cast<const uint32_t*>(panel.q[s * (format.sub / 4) + j])));
#pragma GCC unroll 8
            for (int t = 0; t < tokens; ++t) dot[t] = dot4<format.wide>(dot[t], w, x.q[t] + s * format.sub + j * 4);
        }
        const VF scale = hn::Load(df, panel.scale[s]);
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) {
            const VF product = hn::ConvertTo(df, dot[t]);
            if constexpr (format.per_256) {
                sum[t] = hn::MulAdd(product, scale, sum[t]);
            } else {
                sum[t] = hn::MulAdd(product, hn::Mul(scale, hn::Set(df, x.scale[t][s])), sum[t]);
            }
        }
        if constexpr (format.minimum) {
            const VF minimum = hn::Load(df, panel.minimum[s]);
#pragma GCC unroll 8
            for (int t = 0; t < tokens; ++t) sum[t] = hn::MulAdd(minimum, hn::Set(df, x.sum[t][s]), sum[t]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
        if constexpr (format.per_256) sum[t] = hn::MulAdd(sum[t], hn::Set(df, x.scale[t][0]), hn::Load(df, acc + t * kLanes));
        hn::Store(sum[t], df, acc + t * kLanes);
    }
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
