// Products with F32, F16 and BF16 weights in file layout. Every output element is the sum of one vector of partial sums, which takes
// neighbouring columns (or pairs of them) into neighbouring lanes, in order, and whose lanes are added in one fixed way at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/float_matmul.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/target_inl.h"
#if HWY_TARGET == HWY_AVX3_DL
// Not every CPU of this target has them: only code behind has_bf16_products() may use them.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR CELLAR_AVX3_DL ",avx512bf16"
#endif

#include <algorithm>
#include <cstring>

#include "base/thread_team.h"
#include "ops/activation_form.h"
#include "ops/cpu/matmul_parts.h"
#include "tensor/row_codec.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
constexpr int kRows = 4;
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
constexpr int kTokens = 6;
#else
constexpr int kTokens = 2;
#endif
constexpr int64_t kGroup = 32;       // rows of a piece of work
constexpr int64_t kTokenBlock = 48;  // tokens of a piece of work

// One vector of values of a plain type, which need not be aligned.
template <DType type>
HWY_INLINE VF load_values(const std::byte* p) {
    const DF df;
#if HWY_TARGET == HWY_SCALAR
    float value;
    decode_row(type, p, 1, &value);
    return hn::Set(df, value);
#else
    if constexpr (type == DType::F32) {
        return hn::LoadU(df, reinterpret_cast<const float*>(p));
    } else if constexpr (type == DType::F16) {
        const hn::Rebind<hwy::float16_t, DF> dh;
        return hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
    } else {
        const hn::Rebind<uint16_t, DF> dh;
        const hn::RebindToUnsigned<DF> du;
        return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, reinterpret_cast<const uint16_t*>(p)))));
    }
#endif
}

// Products of plain floats: one fused multiply-add for each vector of columns.
template <DType weight_type, DType activation_type = DType::F32>
struct Widened {
    static constexpr DType weights = weight_type;
    static constexpr DType activations = activation_type;
    static constexpr int step = kLanes;  // columns of a vector
    using Operand = VF;
    static HWY_INLINE Operand weight(const std::byte* p) { return load_values<weights>(p); }
    static HWY_INLINE Operand activation(const std::byte* p) { return load_values<activations>(p); }
    static HWY_INLINE VF add(VF sum, Operand w, Operand x) { return hn::MulAdd(w, x, sum); }
};

#if HWY_TARGET == HWY_AVX3_DL

// Products of bf16, two neighbouring columns to a lane.
struct Bf16Pairs {
    static constexpr DType weights = DType::BF16;
    static constexpr DType activations = DType::BF16;
    static constexpr int step = 2 * kLanes;
    using Operand = __m512i;
    static HWY_INLINE Operand weight(const std::byte* p) { return _mm512_loadu_si512(p); }
    static HWY_INLINE Operand activation(const std::byte* p) { return _mm512_loadu_si512(p); }
    static HWY_INLINE VF add(VF sum, Operand w, Operand x) {
        return VF{_mm512_dpbf16_ps(sum.raw, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x))};
    }
};

#endif

constexpr int64_t bytes_of(DType type) {
    return type == DType::F32 ? 4 : 2;
}

// The sums of the lanes of four vectors. Each is added up in the same way, wherever it stands.
HWY_INLINE void sum_lanes(VF a, VF b, VF c, VF d, float* sums /* [4] */) {
#if HWY_TARGET == HWY_SCALAR
    const VF vectors[4] = {a, b, c, d};
    for (int i = 0; i < 4; ++i) sums[i] = hn::GetLane(vectors[i]);
#else
    const DF df;
    const VF ac = hn::Add(hn::InterleaveLower(df, a, c), hn::InterleaveUpper(df, a, c));
    const VF bd = hn::Add(hn::InterleaveLower(df, b, d), hn::InterleaveUpper(df, b, d));
    HWY_ALIGN float fours[kLanes];
    hn::Store(hn::Add(hn::InterleaveLower(df, ac, bd), hn::InterleaveUpper(df, ac, bd)), df, fours);
    for (int i = 0; i < 4; ++i) sums[i] = fours[i];
    for (int block = 4; block < kLanes; block += 4) {
        for (int i = 0; i < 4; ++i) sums[i] += fours[block + i];
    }
#endif
}

// Whole products of `rows` rows, 4 or 1, and `tokens` tokens.
template <class Product, int rows, int tokens>
HWY_INLINE void multiply_block(const std::byte* const* w, const std::byte* const* x, int64_t cols, float* out /* [tokens][rows] */) {
    constexpr int64_t w_wide = bytes_of(Product::weights);
    constexpr int64_t x_wide = bytes_of(Product::activations);
    const DF df;
    VF sum[rows * tokens];
#pragma GCC unroll 24
    for (int i = 0; i < rows * tokens; ++i) sum[i] = hn::Zero(df);
    const auto step = [&](const std::byte* const* wp, const std::byte* const* xp, int64_t k) HWY_ATTR {
        typename Product::Operand weight[rows];
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) weight[r] = Product::weight(wp[r] + k * w_wide);
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) {
            const auto activation = Product::activation(xp[t] + k * x_wide);
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) sum[t * rows + r] = Product::add(sum[t * rows + r], weight[r], activation);
        }
    };
    int64_t k = 0;
    for (; k + Product::step <= cols; k += Product::step) step(w, x, k);
    if (k < cols) {
        // The last columns, with zeros behind them.
        alignas(64) std::byte w_tail[rows][Product::step * 4] = {};
        alignas(64) std::byte x_tail[tokens][Product::step * 4] = {};
        const std::byte* w_rows[rows];
        const std::byte* x_rows[tokens];
        for (int r = 0; r < rows; ++r) w_rows[r] = static_cast<std::byte*>(std::memcpy(w_tail[r], w[r] + k * w_wide, (cols - k) * w_wide));
        for (int t = 0; t < tokens; ++t) x_rows[t] = static_cast<std::byte*>(std::memcpy(x_tail[t], x[t] + k * x_wide, (cols - k) * x_wide));
        step(w_rows, x_rows, 0);
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
        if constexpr (rows == 4) {
            sum_lanes(sum[t * 4], sum[t * 4 + 1], sum[t * 4 + 2], sum[t * 4 + 3], out + t * 4);
        } else {
            float one[4];
            sum_lanes(sum[t], sum[t], sum[t], sum[t], one);
            out[t] = one[0];
        }
    }
}

template <class Product, int rows, int tokens>
void multiply_tile(const MatmulArgs& args, size_t x_bytes, size_t w_bytes, int64_t row, int64_t token) {
    const std::byte* w[rows];
    const std::byte* x[tokens];
    for (int r = 0; r < rows; ++r) w[r] = args.w.data + static_cast<size_t>(row + r) * w_bytes;
    for (int t = 0; t < tokens; ++t) x[t] = args.x + static_cast<size_t>(args.x_rows != nullptr ? args.x_rows[token + t] : token + t) * x_bytes;
    float out[tokens * rows];
    multiply_block<Product, rows, tokens>(w, x, args.w.cols, out);
    for (int t = 0; t < tokens; ++t) {
        float* y = args.y.row(args.y_rows != nullptr ? args.y_rows[token + t] : token + t) + row;
        for (int r = 0; r < rows; ++r) y[r] = args.bias != nullptr ? out[t * rows + r] + args.bias[row + r] : out[t * rows + r];
    }
}

template <class Product, int rows>
void multiply_rows(const MatmulArgs& args, size_t x_bytes, size_t w_bytes, int64_t row, int64_t token, int64_t token_end) {
    for (; token + kTokens <= token_end; token += kTokens) multiply_tile<Product, rows, kTokens>(args, x_bytes, w_bytes, row, token);
    for (; token + 2 <= token_end; token += 2) multiply_tile<Product, rows, 2>(args, x_bytes, w_bytes, row, token);
    if (token < token_end) multiply_tile<Product, rows, 1>(args, x_bytes, w_bytes, row, token);
}

template <class Product>
void multiply(const MatmulArgs& args, ThreadTeam& team) {
    const size_t x_bytes = form_row_bytes(args.w.form(), args.w.cols);
    const size_t w_bytes = row_bytes(Product::weights, args.w.cols);
    const int64_t blocks = (args.count + kTokenBlock - 1) / kTokenBlock;
    team.run((args.w.rows + kGroup - 1) / kGroup * blocks, [&](int64_t i, int) {
        int64_t row = i / blocks * kGroup;
        const int64_t row_end = std::min(row + kGroup, args.w.rows);
        const int64_t token = i % blocks * kTokenBlock;
        const int64_t token_end = std::min(token + kTokenBlock, args.count);
        for (; row + kRows <= row_end; row += kRows) multiply_rows<Product, kRows>(args, x_bytes, w_bytes, row, token, token_end);
        for (; row < row_end; ++row) multiply_rows<Product, 1>(args, x_bytes, w_bytes, row, token, token_end);
    });
}

void multiply_any(const MatmulArgs& args, ThreadTeam& team) {
    if (args.w.type == DType::F32) return multiply<Widened<DType::F32>>(args, team);
    if (args.w.type == DType::F16) return multiply<Widened<DType::F16>>(args, team);
    if (args.w.form() == ActivationForm::F32) return multiply<Widened<DType::BF16>>(args, team);
#if HWY_TARGET == HWY_AVX3_DL
    if (has_bf16_products()) return multiply<Bf16Pairs>(args, team);
#endif
    return multiply<Widened<DType::BF16, DType::BF16>>(args, team);
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops::cpu_impl {

HWY_EXPORT(multiply_any);

void float_matmul(const MatmulArgs& args, ThreadTeam& team) {
    HWY_DYNAMIC_DISPATCH(multiply_any)(args, team);
}

}  // namespace cellar::ops::cpu_impl
#endif
