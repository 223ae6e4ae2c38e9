#pragma once
// The two halves of matmul(): products with quantized and with plain weights.
#include "ops/types.h"

namespace cellar {
class ThreadTeam;
}

namespace cellar::ops::cpu_impl {

// Requires: activation_form(args.w.type) is Q8 or Q8_256.
void quantized_matmul(const MatmulArgs& args, ThreadTeam& team);
// Requires: args.w.type is F32, F16 or BF16.
void float_matmul(const MatmulArgs& args, ThreadTeam& team);

#if defined(__x86_64__)
inline bool has_bf16_products() {
    static const bool has = __builtin_cpu_supports("avx512bf16") != 0;
    return has;
}
#endif

}  // namespace cellar::ops::cpu_impl
