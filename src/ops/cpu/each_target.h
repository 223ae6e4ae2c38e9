#pragma once
// For tests: every target that this machine has and the kernels are built for.
#include "ops/cpu/targets.h"
//
#include <hwy/highway.h>

#include <string_view>

namespace cellar::ops {

// Calls body(name) once for each target, with the kernels limited to it. The best target is in force again afterwards.
template <class Body>
void for_each_target(Body&& body) {
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        body(std::string_view(hwy::TargetName(target)));
    }
    hwy::SetSupportedTargetsForTest(0);
}

}  // namespace cellar::ops
