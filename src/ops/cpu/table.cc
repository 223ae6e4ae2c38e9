#include "ops/cpu/attend.h"
#include "ops/cpu/bake.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/packed.h"
#include "ops/cpu/rows.h"
#include "ops/ops.h"

namespace cellar::ops {

const Ops& cpu() {
    namespace impl = cpu_impl;
    static constexpr Ops kOps{
        .name = "cpu",
        .activation_row_bytes = impl::activation_row_bytes,
        .prepare_activations = impl::prepare_activations,
        .packed_bytes = impl::packed_bytes,
        .packed_lanes = []() -> int64_t { return impl::packed_lanes(); },
        .pack_rows = impl::pack_rows,
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
        .embed = [](const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y,
                    ThreadTeam& team) { table.packed ? impl::packed_embed(table, ids, count, y, team) : impl::embed(table, ids, count, y, team); },
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
