#pragma once
// Carries a graph out.
#include <cstddef>
#include <cstdint>

#include "graph/graph.h"
#include "graph/profile.h"
#include "kv/view.h"

namespace cellar::graph {

// What changes from step to step.
struct StepInputs {
    const int32_t* ids = nullptr;          // [tokens] token ids, inside the vocabulary
    const int32_t* output_rows = nullptr;  // [outputs] rows of the step whose logits are wanted, ascending
    const kv::View* view = nullptr;
};

struct Workspace {
    std::byte* values = nullptr;   // graph.workspace_bytes, 64-byte aligned
    std::byte* scratch = nullptr;  // scratch_bytes(...), 64-byte aligned
    size_t scratch_bytes = 0;
};

// Scratch that the kernels of `graph` need when queries see up to `context` positions.
size_t scratch_bytes(const Graph& graph, const ops::Ops& ops, int64_t context, int threads);

// Runs every stage in order. Allocates nothing. With check_finite every result is looked through, and the first node whose result
// holds a NaN or an infinity ends the walk behind its stage and is returned; otherwise returns nullptr. With a profile, the time of every
// stage is added to it (that allocates).
// Requires: inputs.view->tokens == graph.shape.tokens.
const Node* walk(const Graph& graph, const ops::Ops& ops, const StepInputs& inputs, const Workspace& workspace, ThreadTeam& team,
                 bool check_finite = false, Profile* profile = nullptr);

// The logits after a walk: [outputs, vocabulary].
ops::Mat logits(const Graph& graph, const Workspace& workspace);

}  // namespace cellar::graph
