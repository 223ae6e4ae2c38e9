// Which instruction set the kernels run on.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/target.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/matmul_parts.h"
#include "ops/ops.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {

int64_t own_target() {
    return HWY_TARGET;
}

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops {

HWY_EXPORT(own_target);

// The dispatcher itself is asked: Highway's list of supported targets forgets limits while it is asked, and its asking changes the choice.
std::string_view cpu_target() {
    return hwy::TargetName(HWY_DYNAMIC_DISPATCH(own_target)());
}

std::string_view cpu_variant() {
#if defined(__x86_64__)
    if (cpu_target() == "AVX3_DL" && cpu_impl::has_fast_bf16_products()) return "bf16 products";
#endif
    return "";
}

std::string cpu_targets() {
    std::string names;
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) names.append(names.empty() ? "" : ", ").append(hwy::TargetName(target));
    hwy::GetChosenTarget().DeInit();
    return names;
}

bool limit_cpu_target(std::string_view name) {
    bool found = false;
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        if (name != hwy::TargetName(target)) continue;
        // Better targets have lower bits.
        hwy::DisableTargets(target - 1);
        found = true;
        break;
    }
    // The next kernel chooses anew.
    hwy::GetChosenTarget().DeInit();
    return found;
}

}  // namespace cellar::ops
#endif
