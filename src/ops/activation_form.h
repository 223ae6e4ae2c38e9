#pragma once
// How prepared activations lie in memory. Both tables of kernels use these layouts, so rows prepared by one may be multiplied by the other.
//
// All quantities are little-endian, in the order given; every row is a multiple of 4 bytes long.
//   F32     n floats
//   BF16    n bf16, rounded to nearest even, padded to 4 bytes
//   Q8      n int8 values, then n / 32 float scales, then n / 32 int32 sums of the values of each 32
//   Q8_256  n int8 values, then n / 256 float scales, then n / 16 int32 sums of the values of each 16
// An activation is scale * value.
#include <cstddef>
#include <cstdint>

#include "ops/types.h"

namespace cellar::ops {

// Elements that n must be a multiple of: 1, 32 or 256.
int form_block(ActivationForm form);
// Bytes of one row. Requires: n is a multiple of form_block(form).
size_t form_row_bytes(ActivationForm form, int64_t n);
// Rewrites one row, with plain code.
void encode_activations(ActivationForm form, const float* x /* [n] */, int64_t n, std::byte* out);
// The values that an encoded row stands for.
void decode_activations(ActivationForm form, const std::byte* row, int64_t n, float* out /* [n] */);

// Blocks whose largest magnitude is below this are stored as zeros: the inverse of their scale could overflow.
inline constexpr float kSmallestActivation = 1e-30F;

// One block: values x * (127 / largest magnitude), rounded to nearest even. Returns the scale, which is largest magnitude / 127;
// NaN, with values 0, where a value is not finite: so every product of the block comes out as NaN and not as a plausible number.
float quantize_activations(const float* x /* [count] */, int count, int8_t* out);

}  // namespace cellar::ops
