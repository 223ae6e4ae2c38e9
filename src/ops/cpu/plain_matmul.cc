// Products with packed F32, F16 and BF16 weights. Every output element is one chain of additions over the columns, in order, in one
// lane: the same for one row of activations and for many.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/plain_matmul.cc"
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

#include "ops/cpu/plain_product_inl.h"

#include <algorithm>

#include "base/thread_team.h"
#include "ops/activation_form.h"
#include "ops/cpu/matmul_parts.h"
#include "ops/cpu/plain_layout.h"
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
constexpr int kTokens = 6;
constexpr int64_t kTokenBlock = 96;  // tokens of a piece of work
constexpr int kFetchAhead = 4096;    // bytes

struct Job {
    const MatmulArgs& args;
    PlainLayout layout;
    size_t x_bytes;  // of a row
};

// The sums of rows [row, row + count) with `tokens` tokens.
void write(const MatmulArgs& args, const float* sums, int64_t token, int tokens, int64_t row, int64_t count) {
    const float* bias = args.bias == nullptr ? nullptr : args.bias + row;
    const int64_t wanted = std::min(count, args.w.rows - row);
    for (int t = 0; t < tokens; ++t, sums += count) {
        float* y = args.y.row(args.y_rows != nullptr ? args.y_rows[token + t] : token + t) + row;
        for (int64_t i = 0; i < wanted; ++i) y[i] = bias == nullptr ? sums[i] : sums[i] + bias[i];
    }
}

// `groups` neighbouring groups of a bundle, the first of which starts at `row`, with `tokens` tokens.
template <class Product, int groups, int tokens>
void multiply_tile(const Job& job, const std::byte* w, size_t step_bytes, int64_t row, int64_t token) {
    constexpr int kGroupBytes = kLanes * Product::w_bytes;
    const MatmulArgs& args = job.args;
    const std::byte* x[tokens];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) x[t] = args.x + static_cast<size_t>(args.x_rows != nullptr ? args.x_rows[token + t] : token + t) * job.x_bytes;
    VF sum[tokens][groups];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) sum[t][g] = hn::Zero(DF());
    }
    const auto step = [&](const std::byte* const* at, int64_t offset) HWY_ATTR {
        typename Product::Weights weights[groups];
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) weights[g] = Product::weight(w + g * kGroupBytes);
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) {
            const auto activations = Product::activation(at[t] + offset);
#pragma GCC unroll 4
            for (int g = 0; g < groups; ++g) sum[t][g] = Product::add(sum[t][g], weights[g], activations);
        }
    };
    const int64_t whole = args.w.cols / Product::columns * Product::x_bytes;
    for (int64_t offset = 0; offset < whole; offset += Product::x_bytes, w += step_bytes) {
#pragma GCC unroll 4
        for (int i = 0; i < groups * kGroupBytes; i += 64) __builtin_prefetch(w + kFetchAhead + i);
        step(x, offset);
    }
    if (args.w.cols % Product::columns != 0) {
        // Half a step, with a zero behind it.
        std::byte last[tokens][Product::x_bytes] = {};
        const std::byte* at[tokens];
        for (int t = 0; t < tokens; ++t) {
            std::memcpy(last[t], x[t] + whole, Product::x_bytes / Product::columns);
            at[t] = last[t];
        }
        step(at, 0);
    }
    HWY_ALIGN float sums[tokens][groups * kLanes];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) hn::Store(sum[t][g], DF(), sums[t] + g * kLanes);
    }
    write(args, sums[0], token, tokens, row, groups * kLanes);
}

template <class Product, int groups>
void multiply_tokens(const Job& job, const std::byte* w, size_t step_bytes, int64_t row, int64_t token, int64_t end) {
    for (; token + kTokens <= end; token += kTokens) multiply_tile<Product, groups, kTokens>(job, w, step_bytes, row, token);
    if (token + 4 <= end) {
        multiply_tile<Product, groups, 4>(job, w, step_bytes, row, token);
        token += 4;
    }
    if (token + 2 <= end) {
        multiply_tile<Product, groups, 2>(job, w, step_bytes, row, token);
        token += 2;
    }
    if (token < end) multiply_tile<Product, groups, 1>(job, w, step_bytes, row, token);
}

// The bundle that starts at `row` with tokens [token, end).
template <class Product>
void multiply_bundle(const Job& job, int64_t row, int64_t token, int64_t end) {
    constexpr size_t kGroupBytes = size_t{kLanes} * Product::w_bytes;
    const std::byte* w = job.args.w.data + job.layout.bundle_at(row);
    const int groups = job.layout.groups(row, job.args.w.rows);
    const size_t step_bytes = static_cast<size_t>(groups) * kGroupBytes;
    if (groups == kBundle && token + 1 == end) return multiply_tile<Product, kBundle, 1>(job, w, kBundle * kGroupBytes, row, token);
    int g = 0;
    for (; g + kGroups <= groups; g += kGroups) {
        multiply_tokens<Product, kGroups>(job, w + static_cast<size_t>(g) * kGroupBytes, step_bytes, row + g * kLanes, token, end);
    }
    for (; g < groups; ++g) multiply_tokens<Product, 1>(job, w + static_cast<size_t>(g) * kGroupBytes, step_bytes, row + g * kLanes, token, end);
}

template <class Product>
void multiply(const MatmulArgs& args, ThreadTeam& team) {
    const Job job{args, PlainLayout(Product::weights, kLanes, args.w.cols), form_row_bytes(args.w.form(), args.w.cols)};
    const int64_t each = job.layout.bundle_rows();
    const int64_t blocks = (args.count + kTokenBlock - 1) / kTokenBlock;
    team.run((args.w.rows + each - 1) / each * blocks, [&](int64_t i, int) {
        const int64_t token = i % blocks * kTokenBlock;
        multiply_bundle<Product>(job, i / blocks * each, token, std::min(token + kTokenBlock, args.count));
    });
}

void multiply_any(const MatmulArgs& args, ThreadTeam& team) {
    if (args.w.type == DType::F32) return multiply<F32Product>(args, team);
    if (args.w.type == DType::F16) return multiply<F16Product>(args, team);
    if (args.w.form() == ActivationForm::F32) return multiply<Bf16ExactProduct>(args, team);
#if HWY_TARGET == HWY_AVX3_DL
    if (has_bf16_products()) return multiply<Bf16Product>(args, team);
#endif
    return multiply<Bf16WidenedProduct>(args, team);
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops::cpu_impl {

HWY_EXPORT(multiply_any);

void plain_packed_matmul(const MatmulArgs& args, ThreadTeam& team) {
    HWY_DYNAMIC_DISPATCH(multiply_any)(args, team);
}

}  // namespace cellar::ops::cpu_impl
#endif
