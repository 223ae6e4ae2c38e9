// One step of a product with plain weights, for each pair of types. Included once for each target, after highway.h and target_inl.h.
//
// A step takes `columns` columns of `lanes` rows, one row to a lane, and the same columns of one row of activations.
#if defined(CELLAR_OPS_CPU_PLAIN_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_PLAIN_PRODUCT_INL_H_
#undef CELLAR_OPS_CPU_PLAIN_PRODUCT_INL_H_
#else
#define CELLAR_OPS_CPU_PLAIN_PRODUCT_INL_H_
#endif

#include "ops/cpu/panel_inl.h"
#include "tensor/row_codec.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

struct F32Product {
    static constexpr DType weights = DType::F32;
    static constexpr int columns = 1;
    static constexpr int x_bytes = 4;  // of a step of activations
    static constexpr int w_bytes = 4;  // of a step of weights, for one lane
    using Weights = VF;
    using Activations = VF;
    static HWY_INLINE Weights weight(const std::byte* p) { return hn::LoadU(DF(), reinterpret_cast<const float*>(p)); }
    static HWY_INLINE Activations activation(const std::byte* p) { return hn::Set(DF(), load_at<float>(p)); }
    static HWY_INLINE VF add(VF sum, Weights w, Activations x) { return hn::MulAdd(w, x, sum); }
};

struct F16Product : F32Product {
    static constexpr DType weights = DType::F16;
    static constexpr int w_bytes = 2;
    static HWY_INLINE Weights weight(const std::byte* p) {
#if HWY_TARGET == HWY_SCALAR
        return hn::Set(DF(), f16_to_f32(load_at<uint16_t>(p)));
#else
        const hn::Rebind<hwy::float16_t, DF> dh;
        return hn::PromoteTo(DF(), hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
#endif
    }
};

struct Pair {
    VF first;
    VF second;
};

HWY_INLINE Pair widen_pair(VU pairs) {
    return {hn::BitCast(DF(), hn::ShiftLeft<16>(pairs)), hn::BitCast(DF(), hn::And(pairs, hn::Set(DU(), 0xFFFF0000U)))};
}

// Two bf16 weights, widened, with two floats.
struct Bf16ExactProduct {
    static constexpr DType weights = DType::BF16;
    static constexpr int columns = 2;
    static constexpr int x_bytes = 8;
    static constexpr int w_bytes = 4;
    using Weights = Pair;
    using Activations = Pair;
    static HWY_INLINE Weights weight(const std::byte* p) { return widen_pair(hn::LoadU(DU(), reinterpret_cast<const uint32_t*>(p))); }
    static HWY_INLINE Activations activation(const std::byte* p) { return {hn::Set(DF(), load_at<float>(p)), hn::Set(DF(), load_at<float>(p + 4))}; }
    static HWY_INLINE VF add(VF sum, Weights w, Activations x) { return hn::MulAdd(w.second, x.second, hn::MulAdd(w.first, x.first, sum)); }
};

// Two bf16 weights with two bf16 activations, where the CPU has no products of them.
struct Bf16WidenedProduct : Bf16ExactProduct {
    static constexpr int x_bytes = 4;
    static HWY_INLINE Activations activation(const std::byte* p) { return widen_pair(hn::Set(DU(), load_at<uint32_t>(p))); }
};

#if HWY_TARGET == HWY_AVX3_DL

struct Bf16Product : Bf16ExactProduct {
    static constexpr int x_bytes = 4;
    using Weights = __m512i;
    using Activations = __m512i;
    static HWY_INLINE Weights weight(const std::byte* p) { return _mm512_loadu_si512(p); }
    static HWY_INLINE Activations activation(const std::byte* p) { return _mm512_set1_epi32(load_at<int32_t>(p)); }
    static HWY_INLINE VF add(VF sum, Weights w, Activations x) {
        return VF{_mm512_dpbf16_ps(sum.raw, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x))};
    }
};

#endif

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
