#pragma once
// The two halves of matmul(): products with quantized and with plain weights, of a piece of work each. A piece is a product of some rows
// of the weights and some rows of activations, small enough for one member; it starts at a multiple of the piece's rows and tokens.
#include "ops/types.h"

namespace cellar::ops::cpu_impl {

struct PieceShape {
    int64_t rows;    // of the weights; a multiple of packed_lanes()
    int64_t tokens;  // rows of activations
};

// Weights are quantized: their form is Q8 or Q8_256.
PieceShape quantized_piece(const WeightMatrix& w, int64_t count, int members);
void quantized_product(const MatmulArgs& piece);
// Weights are F32, F16 or BF16.
PieceShape plain_piece(const WeightMatrix& w, int64_t count, int members);
void plain_product(const MatmulArgs& piece);

#if defined(__x86_64__)
// Whether products of bf16 beat two products of floats. On Intel's cores one of them takes the time of four (their bf16 is in the matrix
// units), so there bf16 is widened.
inline bool has_fast_bf16_products() {
    static const bool has = __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_is("intel") == 0;
    return has;
}
#endif

}  // namespace cellar::ops::cpu_impl
