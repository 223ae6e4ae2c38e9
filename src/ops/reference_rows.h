#pragma once
// The reference kernels other than matrix products: plain loops that sum in double.
#include "ops/ops.h"

namespace cellar::ops::reference_impl {

#include "ops/row_kernels_inl.h"
size_t attend_scratch_bytes(int tokens, int heads, int width, int64_t context, int threads);
void attend(const AttendArgs& args, ThreadTeam& team);

}  // namespace cellar::ops::reference_impl
