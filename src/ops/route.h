#pragma once
// The choice of experts for one token. Both tables of kernels use it: it works in double, and costs nothing beside the experts.
#include <cstdint>

#include "ops/types.h"

namespace cellar::ops {

// Requires: 1 <= spec.used <= experts in the groups searched; groups divides experts; at most kMostGroups groups and kMostUsed used.
// Logits that are not finite give ids that are in range and distinct, and weights that may not be finite.
void route_row(const RouteSpec& spec, const float* logits /* [experts] */, int32_t* ids /* [used] */, float* weights /* [used] */);

inline constexpr int kMostGroups = 64;
inline constexpr int kMostUsed = 128;

}  // namespace cellar::ops
