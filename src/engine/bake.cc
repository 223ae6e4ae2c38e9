#include "engine/bake.h"

#include <algorithm>
#include <vector>

#include "ops/bake.h"

namespace cellar {
namespace {

// How the keys of one plane were rotated, from the graph that every step runs.
struct PlaneRope {
    kv::LayerPlace place;
    ops::RopeSpec rope;
    ops::RopePairing pairing{};
};

std::vector<PlaneRope> plane_ropes(Engine& engine) {
    const graph::Graph& graph = engine.graph({1, 1});
    std::vector<PlaneRope> out;
    for (const graph::Node& node : graph.nodes) {
        if (node.op != graph::Op::Attend || node.rope < 0) continue;
        out.push_back({node.place, graph.ropes[static_cast<size_t>(node.rope)], node.pairing});
    }
    return out;
}

constexpr size_t kKeyRow = 0;  // the row that carries a rotary position

void bake_plane(Engine& engine, std::span<const kv::RowTable> rows, int plane, std::span<const kv::TurnedMove> moves, const PlaneRope* rope) {
    for (size_t r = 0; r < rows.size(); ++r) {
        ops::BakeArgs args;
        args.rows = &rows[r];
        args.plane = plane;
        args.moves = moves;
        if (r == kKeyRow && rope != nullptr) {
            args.rope = rope->rope;
            args.pairing = rope->pairing;
        }
        engine.kernels().bake_rows(args, engine.team());
    }
}

}  // namespace

Result<Baked> bake(Engine& engine, SeqId seq, const Cancel* cancel, const Progress& progress) {
    kv::Cache& cache = engine.cache();
    kv::Bake bake;
    CELLAR_TRY_VOID(cache.begin_bake(seq, bake));
    Baked out;
    const std::vector<PlaneRope> ropes = plane_ropes(engine);
    int64_t done = 0;
    int64_t planes = 0;
    for (const kv::GroupSpec& group : cache.spec().groups) planes += group.planes;
    for (size_t g = 0; g < cache.spec().groups.size(); ++g) {
        const kv::GroupSpec& group = cache.spec().groups[g];
        std::vector<kv::TurnedMove> moves;
        std::ranges::copy_if(bake.moves(), std::back_inserter(moves), [&](const kv::TurnedMove& m) { return m.group == static_cast<int>(g); });
        if (moves.empty()) {
            done += group.planes;
            continue;
        }
        for (int plane = 0; plane < group.planes; ++plane) {
            if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
                cache.abandon_bake(bake);
                return fail(ErrorKind::Cancelled, "cancelled when {} of {} layers were written anew", done, planes);
            }
            const auto rope =
                std::ranges::find_if(ropes, [&](const PlaneRope& r) { return r.place.group == static_cast<int>(g) && r.place.plane == plane; });
            bake_plane(engine, cache.rows(static_cast<int>(g)), plane, moves, rope == ropes.end() ? nullptr : &*rope);
            ++done;
            if (progress) progress(done, planes);
        }
        int64_t cells = 0;
        for (const kv::TurnedMove& move : moves) cells += move.len;
        out.cells += cells;
        out.bytes += static_cast<size_t>(cells) * group.cell_bytes();
    }
    cache.commit_bake(bake);
    return out;
}

}  // namespace cellar
