#pragma once
// Matrix products that are slow and obvious: weights and prepared activations are decoded, then multiplied in double.
// The contracts are those of ops.h.
#include <span>

#include "ops/types.h"

namespace cellar {
class ThreadTeam;
}

namespace cellar::ops::reference_impl {

size_t activation_row_bytes(ActivationForm form, int64_t n);
void prepare_activations(ActivationForm form, Mat x, std::byte* out, ThreadTeam& team);
void matmul(std::span<const MatmulArgs> products, ThreadTeam& team);
inline void matmul(const MatmulArgs& args, ThreadTeam& team) {
    matmul(std::span(&args, 1), team);
}
void embed(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team);

}  // namespace cellar::ops::reference_impl
