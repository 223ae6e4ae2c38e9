#include "base/check.h"
#include "ops/ops.h"
#include "ops/reference_bake.h"
#include "ops/reference_matmul.h"
#include "ops/reference_rows.h"

namespace cellar::ops {

const Ops& reference() {
    namespace impl = reference_impl;
    static constexpr Ops kOps{
        .name = "reference",
        .activation_row_bytes = impl::activation_row_bytes,
        .prepare_activations = impl::prepare_activations,
        .packed_bytes = [](DType, int64_t, int64_t) -> size_t { return 0; },
        .packed_lanes = []() -> int64_t { return 0; },
        .pack_rows = [](const WeightMatrix&, int64_t, int64_t, std::byte*, ThreadTeam&) { CHECK(!"the reference table packs nothing"); },
        .matmul = impl::matmul,
        .rms_norm = impl::rms_norm,
        .layer_norm = impl::layer_norm,
        .rope_table = impl::rope_table,
        .rope = impl::rope,
        .add = impl::add,
        .scale = impl::scale,
        .activate = impl::activate,
        .activate_mul = impl::activate_mul,
        .soft_cap = impl::soft_cap,
        .embed = impl::embed,
        .gather_rows = impl::gather_rows,
        .route = impl::route,
        .combine_experts = impl::combine_experts,
        .store_rows = impl::store_rows,
        .bake_rows = impl::bake_rows,
        .attend_scratch_bytes = impl::attend_scratch_bytes,
        .attend = impl::attend,
    };
    return kOps;
}

}  // namespace cellar::ops
