// Panels, and what multiplies them. Included once for each target, after highway.h and target_inl.h.
#if defined(CELLAR_OPS_CPU_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_PANEL_INL_H_
#undef CELLAR_OPS_CPU_PANEL_INL_H_
#else
#define CELLAR_OPS_CPU_PANEL_INL_H_
#endif

#include <cstring>
#include <type_traits>

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

template <DType type>
constexpr int kOffset = panel_format(type).wide && !kUnsignedWide ? 0 : panel_format(type).offset;

#if HWY_TARGET == HWY_AVX2
// Products of bytes take one side without sign, and an instruction for each of them to move it; products of words need none, and as many
// multiplications in all.
constexpr bool kWideAreWords = true;

// Bytes with a sign as words: the even ones of each lane, and the odd ones.
HWY_INLINE void widen_bytes(VU bytes, VU& even, VU& odd) {
    odd = VU{_mm256_srai_epi16(bytes.raw, 8)};
    even = VU{_mm256_srai_epi16(_mm256_slli_epi16(bytes.raw, 8), 8)};
}
#else
constexpr bool kWideAreWords = false;
#endif
// Whether quants in panels, and the activations that they meet, are words of 16 bits.
template <DType type>
constexpr bool kWords = panel_format(type).wide ? kWideAreWords : false;

template <DType type>
struct Panel {
    static constexpr PanelFormat format = panel_format(type);
    static constexpr int kSubs = kChunk / format.sub;
    static constexpr int kVectors = format.sub / 4 * (kWords<type> ? 2 : 1);  // of a sub-block's quants

    HWY_INLINE void put(int column, VU quants) {
#if HWY_TARGET == HWY_AVX2
        if constexpr (kWords<type>) {
            VU odd;
            widen_bytes(quants, quants, odd);
            store(2 * column, quants);
            return store(2 * column + 1, odd);
        }
#endif
        store(column, quants);
    }
    HWY_INLINE void put_scale(int sub, VF v) {
        hn::Store(v, DF(), scale[sub]);
    }
    HWY_INLINE void put_minimum(int sub, VF v) {
        hn::Store(v, DF(), minimum[sub]);
    }

    alignas(64) uint8_t q[kSubs * kVectors][kLanes * 4];
    alignas(64) float scale[kSubs][kLanes];
    alignas(64) float minimum[format.minimum ? kSubs : 1][kLanes];

  private:
    HWY_INLINE void store(int at, VU v) {
        hn::Store(v, DU(), reinterpret_cast<uint32_t*>(q[at]));
    }
};

// The same columns of `tokens` activation rows.
template <DType type, int tokens>
struct ActivationTile {
    using Quant = std::conditional_t<kWords<type>, int16_t, int8_t>;
    alignas(64) Quant q[tokens][kChunk];  // words: of each 32 the even columns, then the odd ones
    int32_t start[tokens][kChunk / 16];   // -offset * sum of the sub-block's quants; not set where there is no offset
    float scale[tokens][kChunk / 32];     // one for each 32, or one for all
    float sum[tokens][kChunk / 16];       // what a minimum is multiplied by; not set where there is none
};

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
// Compilers make trees of sums of integers, whose products do not fit into the registers.
template <class V>
HWY_INLINE V one_by_one(V v) {
    asm("" : "+x"(v));
    return v;
}
#endif

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
using Pairs = __m512i;
template <bool wide>
HWY_INLINE Pairs pair_products(Quants w, const int8_t* x) {
    int32_t four;
    std::memcpy(&four, x, 4);
    __m512i v = _mm512_set1_epi32(four);
    if constexpr (wide) v = _mm512_mask_sub_epi8(v, w.negative, _mm512_setzero_si512(), v);
    return _mm512_maddubs_epi16(w.q, v);
}
HWY_INLINE Pairs add_pairs(Pairs a, Pairs b) {
    return one_by_one(_mm512_add_epi16(a, b));
}
HWY_INLINE VI add_pairs_to(VI sum, Pairs pairs) {
    return VI{one_by_one(_mm512_add_epi32(sum.raw, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1))))};
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
using Pairs = __m256i;
template <bool wide>
HWY_INLINE Pairs pair_products(Quants w, const int8_t* x) {
    int32_t four;
    std::memcpy(&four, x, 4);
    __m256i v = _mm256_set1_epi32(four);
    if constexpr (wide) v = _mm256_sign_epi8(v, w.sign);
    return _mm256_maddubs_epi16(w.q, v);
}
HWY_INLINE Pairs add_pairs(Pairs a, Pairs b) {
    return one_by_one(_mm256_add_epi16(a, b));
}
HWY_INLINE VI add_pairs_to(VI sum, Pairs pairs) {
    return VI{one_by_one(_mm256_add_epi32(sum.raw, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))))};
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

#if HWY_TARGET == HWY_AVX2

// Adds the products of a sub-block of 32 columns, as words, to the tokens' sums.
template <DType type, int tokens>
HWY_INLINE void multiply_sub(const uint8_t (*q)[kLanes * 4], const int16_t (*x)[kChunk], VI* dot) {
    static_assert(panel_format(type).sub == 32);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
        const __m256i w = _mm256_load_si256(reinterpret_cast<const __m256i*>(q[i]));
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) {
            int32_t two;
            std::memcpy(&two, x[t] + i % 2 * 16 + i / 2 * 2, 4);
            dot[t] = VI{one_by_one(_mm256_add_epi32(dot[t].raw, _mm256_madd_epi16(w, _mm256_set1_epi32(two))))};
        }
    }
}

#endif

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

template <bool wide>
HWY_INLINE VI dot4(VI sum, Quants w, const int8_t* x) {
    return add_pairs_to(sum, pair_products<wide>(w, x));
}

// Adds the products of a sub-block to the tokens' sums. As many as 16 bits hold are added up in them: that saves a third of the work.
template <DType type, int tokens>
HWY_INLINE void multiply_sub(const uint8_t (*q)[kLanes * 4], const int8_t (*x)[kChunk], VI* dot) {
    constexpr PanelFormat format = panel_format(type);
    constexpr int kColumns = format.sub / 4;
    constexpr int kEach = pair_sums(format) < kColumns ? pair_sums(format) : kColumns;
#pragma GCC unroll 8
    for (int first = 0; first < kColumns; first += kEach) {
        Pairs pairs[tokens];
#pragma GCC unroll 8
        for (int j = first; j < (first + kEach < kColumns ? first + kEach : kColumns); ++j) {
            const Quants w = make_quants<format.wide>(hn::Load(DU(), reinterpret_cast<const uint32_t*>(q[j])));
#pragma GCC unroll 8
            for (int t = 0; t < tokens; ++t) {
                const Pairs more = pair_products<format.wide>(w, x[t] + j * 4);
                pairs[t] = j == first ? more : add_pairs(pairs[t], more);
            }
        }
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) dot[t] = add_pairs_to(dot[t], pairs[t]);
    }
}

#else

template <DType type, int tokens>
HWY_INLINE void multiply_sub(const uint8_t (*q)[kLanes * 4], const int8_t (*x)[kChunk], VI* dot) {
    constexpr PanelFormat format = panel_format(type);
#pragma GCC unroll 8
    for (int j = 0; j < format.sub / 4; ++j) {
        const Quants w = make_quants<format.wide>(hn::Load(DU(), reinterpret_cast<const uint32_t*>(q[j])));
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) dot[t] = dot4<format.wide>(dot[t], w, x[t] + j * 4);
    }
}

#endif

// Adds the products of a panel's first `subs` sub-blocks to acc, for `tokens` tokens. One chain of additions for each lane and token:
// the blocks in order; with one activation scale for 256 columns, their sum first and then the scale.
template <DType type, int tokens>
HWY_INLINE void multiply_panel(const Panel<type>& panel, const ActivationTile<type, tokens>& x, int subs, float* acc /* [tokens][kLanes] */) {
    constexpr PanelFormat format = panel_format(type);
    const DF df;
    const DI di;
    VF sum[tokens];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) sum[t] = format.per_256 ? hn::Zero(df) : hn::Load(df, acc + t * kLanes);
    for (int s = 0; s < subs; ++s) {
        VI dot[tokens];
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) dot[t] = kOffset<type> == 0 ? hn::Zero(di) : hn::Set(di, x.start[t][s]);
        using Quant = typename ActivationTile<type, tokens>::Quant;
        const auto* x_sub = reinterpret_cast<const Quant(*)[kChunk]>(x.q[0] + s * format.sub);
        const auto* w_sub = panel.q + s * panel.kVectors;
        multiply_sub<type, tokens>(w_sub, x_sub, dot);
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
