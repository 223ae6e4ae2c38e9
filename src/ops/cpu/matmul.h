#pragma once
// Matrix products for the CPU's vector units, on weights as they lie in the file or packed. The contracts are those of ops.h.
//
// The bits of a result depend on the CPU target, but not on how rows are blocked, on the batch or on the team.
#include <span>

#include "ops/types.h"

namespace cellar {
class ThreadTeam;
}

namespace cellar::ops::cpu_impl {

size_t activation_row_bytes(ActivationForm form, int64_t n);
void prepare_activations(ActivationForm form, Mat x, std::byte* out, ThreadTeam& team);
void matmul(std::span<const MatmulArgs> products, ThreadTeam& team);
inline void matmul(const MatmulArgs& args, ThreadTeam& team) {
    matmul(std::span(&args, 1), team);
}
// Of weights in file layout.
void embed(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team);

}  // namespace cellar::ops::cpu_impl
