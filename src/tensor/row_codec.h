#pragma once
// Slow, obvious conversion of one row between floats and its stored form: for tests, tools, the reference table of kernels, table look-ups.
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace cellar {

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);  // rounds to nearest, ties to even; overflow gives infinity
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);  // rounds to nearest, ties to even; keeps NaN a NaN

// Decodes n elements. Requires: n is a multiple of the block; row has row_bytes(type, n) bytes.
void decode_row(DType type, const std::byte* row, int64_t n, float* out /* [n] */);

// True for the types that encode_row knows.
bool can_encode(DType type);

// Encodes n elements. Requires: can_encode(type), n is a multiple of the block.
void encode_row(DType type, const float* values /* [n] */, int64_t n, std::byte* row);

}  // namespace cellar
