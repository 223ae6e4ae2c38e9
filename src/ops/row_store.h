#pragma once
// How the row of one KV head lies in a cell, in plain code: what store_rows writes and attend reads.
//
//   F32, F16, BF16   `width` values; f16 and bf16 are rounded to nearest even, overflow gives infinity, NaN stays NaN
//   Q8_0             blocks of 34 bytes: f16 scale = amax / 127, then 32 int8 values, rounded half to even after dividing by the scale
//                    before its own rounding. The last block is padded with zero values. A scale that rounds to zero makes all values of its
//                    block zero. A block that holds a value which is not finite, or whose scale overflows f16, decodes to NaN.
//
// Bytes of the row behind the last value are zero, so equal rows are equal byte for byte.
#include <cstddef>

#include "kv/view.h"

namespace cellar::ops {

inline constexpr int kPackedBlock = 32;       // values
inline constexpr int kPackedBlockBytes = 34;  // scale first

// Requires: bytes holds the values of the format.
void encode_head_row(kv::RowFormat format, const float* values /* [width] */, int width, std::byte* row, size_t bytes);

// Decodes the first `width` values. Exact for every format.
void decode_head_row(kv::RowFormat format, const std::byte* row, int width, float* values /* [width] */);

}  // namespace cellar::ops
