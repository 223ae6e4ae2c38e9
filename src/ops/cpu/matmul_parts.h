#pragma once
// The two halves of matmul(): products with quantized and with plain weights, of a piece of work each. A piece is a product of some rows
// of the weights and some rows of activations, small enough for one member; it starts at a multiple of the piece's rows and tokens.
#include <algorithm>

#include "ops/types.h"

namespace cellar::ops::cpu_impl {

struct PieceShape {
    int64_t rows;    // of the weights; a multiple of packed_lanes()
    int64_t tokens;  // rows of activations
};

// Of one row of activations, which waits for memory: long streams serve it best, and each member still gets several. `step` is the least, and what
// the rows are a multiple of.
inline PieceShape long_piece(const WeightMatrix& w, int members, int64_t step) {
    constexpr int64_t kBytes = 256 << 10;
    constexpr int64_t kEach = 4;
    const int64_t wanted = std::min<int64_t>(kBytes / static_cast<int64_t>(row_bytes(w.type, w.cols)), w.rows / (kEach * members));
    return {std::max<int64_t>(step, wanted / step * step), 1};
}

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
