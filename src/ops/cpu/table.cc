#include "ops/cpu/targets.h"
//
#include <hwy/highway.h>

#include "ops/cpu/attend.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/rows.h"
#include "ops/ops.h"

namespace cellar::ops {
namespace {

// The best of these targets: Highway gives better targets lower bits.
int64_t best_of(int64_t targets) {
    return targets & -targets;
}

}  // namespace

const Ops& cpu() {
    namespace impl = cpu_impl;
    static constexpr Ops kOps{
        .name = "cpu",
        .activation_row_bytes = impl::activation_row_bytes,
        .prepare_activations = impl::prepare_activations,
        .matmul = impl::matmul,
        .rms_norm = impl::rms_norm,
        .layer_norm = impl::layer_norm,
        .rope_table = impl::rope_table,
        .rope = impl::rope,
        .add = impl::add,
        .add_row = impl::add_row,
        .mul = impl::mul,
        .scale = impl::scale,
        .activate = impl::activate,
        .activate_mul = impl::activate_mul,
        .soft_cap = impl::soft_cap,
        .embed = impl::embed,
        .gather_rows = impl::gather_rows,
        .route = impl::route,
        .combine_experts = impl::combine_experts,
        .store_rows = impl::store_rows,
        .attend_scratch_bytes = impl::attend_scratch_bytes,
        .attend = impl::attend,
    };
    return kOps;
}

std::string_view cpu_target() {
    return hwy::TargetName(best_of((hwy::SupportedTargets() & HWY_TARGETS) | HWY_STATIC_TARGET));
}

bool limit_cpu_target(std::string_view name) {
    for (int64_t left = (hwy::SupportedTargets() & HWY_TARGETS) | HWY_STATIC_TARGET; left != 0; left &= left - 1) {
        const int64_t target = best_of(left);
        if (name != hwy::TargetName(target)) continue;
        hwy::DisableTargets(target - 1);
        hwy::GetChosenTarget().DeInit();
        return true;
    }
    return false;
}

}  // namespace cellar::ops
