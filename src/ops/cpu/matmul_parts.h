#pragma once
// The two halves of matmul(): products with quantized and with plain weights.
#include "ops/types.h"

namespace cellar {
class ThreadTeam;
}

namespace cellar::ops::cpu_impl {

// Requires: activation_form(args.w.type) is Q8 or Q8_256.
void quantized_matmul(const MatmulArgs& args, ThreadTeam& team);
// Requires: args.w.type is F32, F16 or BF16. Weights may be packed.
void plain_matmul(const MatmulArgs& args, ThreadTeam& team);

#if defined(__x86_64__)
// Whether products of bf16 beat two products of floats. On Intel's cores one of them takes the time of four (their bf16 is in the matrix
// units), so there bf16 is widened.
inline bool has_fast_bf16_products() {
    static const bool has = __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_is("intel") == 0;
    return has;
}
#endif

}  // namespace cellar::ops::cpu_impl
