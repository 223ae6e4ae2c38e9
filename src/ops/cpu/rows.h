#pragma once
// Kernels for rows of activations, vectorised.
#include "ops/ops.h"

namespace cellar::ops::cpu_impl {

#include "ops/row_kernels_inl.h"

}  // namespace cellar::ops::cpu_impl
