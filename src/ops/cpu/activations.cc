// Rewriting activations into the form that the weights ask for, with the same bits as encode_activations.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/activations.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <bit>
#include <cstring>

#include "base/thread_team.h"
#include "ops/activation_form.h"
#include "ops/cpu/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

namespace hn = hwy::HWY_NAMESPACE;

// Requires: count is a multiple of 32.
float quantize(const float* x, int count, int8_t* out) {
    const hn::ScalableTag<float> df;
    const hn::ScalableTag<int32_t> di;
    const hn::Rebind<int8_t, decltype(df)> db;
    const int lanes = static_cast<int>(hn::Lanes(df));
    const auto magnitude_bits = hn::Set(di, 0x7FFFFFFF);
    auto most_bits = hn::Zero(di);
    for (int i = 0; i < count; i += lanes) {
        most_bits = hn::Max(most_bits, hn::And(hn::BitCast(di, hn::LoadU(df, x + i)), magnitude_bits));
    }
    const float most = hn::GetLane(hn::BitCast(df, hn::MaxOfLanes(di, most_bits)));
    if (!(most >= kSmallestActivation && most <= 3.4e38F)) return quantize_activations(x, count, out);
    const auto inverse = hn::Set(df, 127.0F / most);
    for (int i = 0; i < count; i += lanes) {
        hn::StoreU(hn::DemoteTo(db, hn::NearestInt(hn::Mul(hn::LoadU(df, x + i), inverse))), db, out + i);
    }
    return most / 127.0F;
}

#else

float quantize(const float* x, int count, int8_t* out) {
    return quantize_activations(x, count, out);
}

#endif

void quantize_row(int block, int sum_block, const float* x, int64_t n, std::byte* out) {
    auto* values = reinterpret_cast<int8_t*>(out);
    std::byte* scales = out + n;
    std::byte* sums = scales + n / block * 4;
    for (int64_t b = 0; b < n / block; ++b) {
        const float scale = quantize(x + b * block, block, values + b * block);
        std::memcpy(scales + b * 4, &scale, 4);
    }
    for (int64_t b = 0; b < n / sum_block; ++b) {
        int32_t sum = 0;
        for (int i = 0; i < sum_block; ++i) sum += values[b * sum_block + i];
        std::memcpy(sums + b * 4, &sum, 4);
    }
}

// As f32_to_bf16, in a loop that compilers vectorise.
void round_row(const float* x, int64_t n, std::byte* out) {
    if (n % 2 != 0) std::memset(out + n * 2, 0, 2);
    auto* rounded = reinterpret_cast<uint16_t*>(out);
    for (int64_t i = 0; i < n; ++i) {
        const auto bits = std::bit_cast<uint32_t>(x[i]);
        const uint32_t nearest = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
        rounded[i] = static_cast<uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? bits >> 16 | 0x40U : nearest);
    }
}

void prepare(ActivationForm form, Mat x, std::byte* out, ThreadTeam& team) {
    const size_t bytes = form_row_bytes(form, x.cols);
    team.run(x.rows, [&](int64_t i, int) {
        std::byte* row = out + static_cast<size_t>(i) * bytes;
        if (form == ActivationForm::Q8) {
            quantize_row(32, 32, x.row(i), x.cols, row);
        } else if (form == ActivationForm::Q8_256) {
            quantize_row(256, 16, x.row(i), x.cols, row);
        } else if (form == ActivationForm::BF16) {
            round_row(x.row(i), x.cols, row);
        } else {
            encode_activations(form, x.row(i), x.cols, row);
        }
    });
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops::cpu_impl {

HWY_EXPORT(prepare);

size_t activation_row_bytes(ActivationForm form, int64_t n) {
    return form_row_bytes(form, n);
}

void prepare_activations(ActivationForm form, Mat x, std::byte* out, ThreadTeam& team) {
    HWY_DYNAMIC_DISPATCH(prepare)(form, x, out, team);
}

}  // namespace cellar::ops::cpu_impl
#endif
