// Products with F32, F16 and BF16 weights. Every output element is one chain of additions over the columns, in order, in one lane: the
// same for one row of activations and for many. Weights in file layout are packed on the way, some columns at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/plain_matmul.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/target_inl.h"
#if HWY_TARGET == HWY_AVX3_DL
// Not every CPU of this target has them: only code behind has_fast_bf16_products() may use them.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR CELLAR_AVX3_DL ",avx512bf16"
#endif

#include "ops/cpu/plain_pack_inl.h"
#include "ops/cpu/plain_product_inl.h"

#include <algorithm>

#include "ops/activation_form.h"
#include "ops/cpu/matmul_parts.h"
#include "ops/cpu/packed.h"
#include "ops/cpu/plain_packed.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

// Groups and tokens whose sums the registers hold, beside the weights of a step.
#if HWY_TARGET == HWY_AVX2
constexpr int kGroups = 2;
#else
constexpr int kGroups = kBundle;
#endif
constexpr int kTileTokens = 6;
constexpr int64_t kColumns = 128;  // of weights in file layout that are packed at a time
constexpr int kAhead = 4096;       // bytes between what is read and what is fetched
constexpr int kBundleRows = kBundle * kLanes;

// Sums of a bundle of rows with all tokens of a piece.
struct Sums {
    int tokens;
    alignas(64) float at[kPlainTokens][kBundleRows];
};

// Columns [first, last) of neighbouring groups of a bundle, packed.
struct Part {
    const std::byte* w;
    size_t step_bytes;
    int64_t first;
    int64_t last;
    int group;  // the first one's number in the bundle
};

// `groups` groups with the piece's tokens [t, t + tokens).
template <class Product, int groups, int tokens>
void multiply_tile(const MatmulArgs& args, size_t x_bytes, const Part& part, int at, Sums& sums) {
    constexpr int kGroupBytes = kLanes * Product::w_bytes;
    const std::byte* x[tokens];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
        const int64_t token = at + t;
        x[t] = args.x + static_cast<size_t>(args.x_rows != nullptr ? args.x_rows[token] : token) * x_bytes +
               part.first / Product::columns * Product::x_bytes;
    }
    VF sum[tokens][groups];
    const bool begins = part.first == 0;
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) {
            sum[t][g] = begins ? hn::Zero(DF()) : hn::Load(DF(), sums.at[at + t] + (part.group + g) * kLanes);
        }
    }
    const std::byte* w = part.w;
    const auto step = [&](const std::byte* const* from, int64_t offset) HWY_ATTR {
        typename Product::Weights weights[groups];
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) weights[g] = Product::weight(w + g * kGroupBytes);
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) {
            const auto activations = Product::activation(from[t] + offset);
#pragma GCC unroll 4
            for (int g = 0; g < groups; ++g) sum[t][g] = Product::add(sum[t][g], weights[g], activations);
        }
    };
    const int64_t whole = (part.last - part.first) / Product::columns * Product::x_bytes;
    for (int64_t offset = 0; offset < whole; offset += Product::x_bytes, w += part.step_bytes) {
#pragma GCC unroll 4
        for (int i = 0; i < groups * kGroupBytes; i += 64) __builtin_prefetch(w + kAhead + i, 0, 2);
        step(x, offset);
    }
    if ((part.last - part.first) % Product::columns != 0) {
        // Half a step, with a zero behind it.
        std::byte half[tokens][Product::x_bytes] = {};
        const std::byte* from[tokens];
        for (int t = 0; t < tokens; ++t) {
            std::memcpy(half[t], x[t] + whole, Product::x_bytes / Product::columns);
            from[t] = half[t];
        }
        step(from, 0);
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) hn::Store(sum[t][g], DF(), sums.at[at + t] + (part.group + g) * kLanes);
    }
}

template <class Product, int groups>
void multiply_tokens(const MatmulArgs& args, size_t x_bytes, const Part& part, Sums& sums) {
    int at = 0;
    for (; at + kTileTokens <= sums.tokens; at += kTileTokens) multiply_tile<Product, groups, kTileTokens>(args, x_bytes, part, at, sums);
    if (at + 4 <= sums.tokens) {
        multiply_tile<Product, groups, 4>(args, x_bytes, part, at, sums);
        at += 4;
    }
    if (at + 2 <= sums.tokens) {
        multiply_tile<Product, groups, 2>(args, x_bytes, part, at, sums);
        at += 2;
    }
    if (at < sums.tokens) multiply_tile<Product, groups, 1>(args, x_bytes, part, at, sums);
}

// All groups of a bundle.
template <class Product>
void multiply_part(const MatmulArgs& args, size_t x_bytes, Part part, int groups, Sums& sums) {
    if (groups == kBundle && sums.tokens == 1) return multiply_tile<Product, kBundle, 1>(args, x_bytes, part, 0, sums);
    const auto next = [&](int by) HWY_ATTR {
        part.group += by;
        part.w += by * kLanes * Product::w_bytes;
    };
    for (; part.group + kGroups <= groups; next(kGroups)) multiply_tokens<Product, kGroups>(args, x_bytes, part, sums);
    for (; part.group < groups; next(1)) multiply_tokens<Product, 1>(args, x_bytes, part, sums);
}

void write_sums(const MatmulArgs& args, int64_t row, const Sums& sums) {
    const float* bias = args.bias == nullptr ? nullptr : args.bias + row;
    const int64_t count = std::min<int64_t>(kBundleRows, args.w.rows - row);
    for (int t = 0; t < sums.tokens; ++t) {
        float* y = args.y.row(args.y_rows != nullptr ? args.y_rows[t] : t) + row;
        for (int64_t i = 0; i < count; ++i) y[i] = bias == nullptr ? sums.at[t][i] : sums.at[t][i] + bias[i];
    }
}

// The bundle that starts at `row`.
template <class Product>
void multiply_bundle(const MatmulArgs& args, int64_t row, Sums& sums) {
    const PlainLayout layout(Product::weights, kLanes, args.w.cols);
    const size_t x_bytes = form_row_bytes(args.w.form(), args.w.cols);
    const int groups = layout.groups(row, args.w.rows);
    const size_t step_bytes = static_cast<size_t>(groups) * kLanes * Product::w_bytes;
    if (args.w.packed) {
        multiply_part<Product>(args, x_bytes, {args.w.data + layout.bundle_at(row), step_bytes, 0, args.w.cols, 0}, groups, sums);
    } else {
        alignas(64) uint8_t packed[kColumns / Product::columns * kBundleRows * Product::w_bytes];
        for (int64_t first = 0; first < args.w.cols; first += kColumns) {
            const int64_t last = std::min(first + kColumns, args.w.cols);
            pack_columns(args.w, row, first, last, packed);
            multiply_part<Product>(args, x_bytes, {reinterpret_cast<const std::byte*>(packed), step_bytes, first, last, 0}, groups, sums);
        }
    }
    write_sums(args, row, sums);
}

template <class Product>
void multiply(const MatmulArgs& args) {
    Sums sums;
    sums.tokens = static_cast<int>(args.count);
    for (int64_t row = 0; row < args.w.rows; row += kBundleRows) multiply_bundle<Product>(args, row, sums);
}

void multiply_any(const MatmulArgs& args) {
    if (args.w.type == DType::F32) return multiply<F32Product>(args);
    if (args.w.type == DType::F16) return multiply<F16Product>(args);
    if (args.w.form() == ActivationForm::F32) return multiply<Bf16ExactProduct>(args);
#if HWY_TARGET == HWY_AVX3_DL
    if (has_fast_bf16_products()) return multiply<Bf16Product>(args);
#endif
    return multiply<Bf16WidenedProduct>(args);
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops::cpu_impl {

HWY_EXPORT(multiply_any);

PieceShape plain_piece(const WeightMatrix& w, int64_t count, int members) {
    const int64_t bundle = packed_lanes();
    return count > 1 ? PieceShape{bundle, kPlainTokens} : long_piece(w, members, bundle);
}

void plain_product(const MatmulArgs& piece) {
    HWY_DYNAMIC_DISPATCH(multiply_any)(piece);
}

}  // namespace cellar::ops::cpu_impl
#endif
