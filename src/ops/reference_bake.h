#pragma once
// Turned rows into other cells, in double. The contract is that of ops/bake.h.
#include "ops/bake.h"

namespace cellar::ops::reference_impl {

void bake_rows(const BakeArgs& args, ThreadTeam& team);

}  // namespace cellar::ops::reference_impl
