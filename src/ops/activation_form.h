#pragma once
// How prepared activations lie in memory. Both tables of kernels use these layouts, so rows prepared by one may be multiplied by the other.
//
// All quantities are little-endian, in the order given; every row starts at a multiple of 4 bytes when the buffer does.
//   F32     n floats
//   BF16    n bf16, rounded to nearest even                       (padded to 4 bytes)
//   Q8      n int8 values, then n / 32 float scales               x = scale * value, scale = amax / 127
//   Q8_256  n int8 values, then n / 256 float scales, then n / 16 int16 sums of the values of each 16
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

}  // namespace cellar::ops
