#pragma once
// Activations on a span of elements, for kernels that have other work around them.
#include <cstdint>

#include "ops/types.h"

namespace cellar::ops::cpu_impl {

// y[i] = f(gate[i]) * up[i]; y may be gate or up. Each element comes out the same wherever a row is cut at a multiple of 16.
void activate_row(Activation kind, const float* gate, const float* up, float* y, int64_t n);

}  // namespace cellar::ops::cpu_impl
