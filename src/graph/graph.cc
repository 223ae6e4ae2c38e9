#include "graph/graph.h"

#include <algorithm>

#include <fmt/format.h>

namespace cellar::graph {

std::string_view name(Op op) {
    switch (op) {
        case Op::Embed:
            return "embed";
        case Op::RopeTable:
            return "rope_table";
        case Op::RmsNorm:
            return "rms_norm";
        case Op::LayerNorm:
            return "layer_norm";
        case Op::HeadNorm:
            return "head_norm";
        case Op::Prepare:
            return "prepare";
        case Op::MatMul:
            return "matmul";
        case Op::Rope:
            return "rope";
        case Op::StoreRows:
            return "store_rows";
        case Op::Attend:
            return "attend";
        case Op::Add:
            return "add";
        case Op::Scale:
            return "scale";
        case Op::ScaleRows:
            return "scale_rows";
        case Op::Activate:
            return "activate";
        case Op::ActivateMul:
            return "activate_mul";
        case Op::SoftCap:
            return "soft_cap";
        case Op::GatherOutputs:
            return "gather_outputs";
        case Op::Route:
            return "route";
        case Op::GroupByExpert:
            return "group_by_expert";
        case Op::ExpertMatMul:
            return "expert_matmul";
        case Op::CombineExperts:
            return "combine_experts";
    }
    return "?";
}

void plan_workspace(Graph& graph) {
    constexpr size_t kAlign = 64;
    // From nodes to stages; what outlives all nodes outlives all stages.
    std::vector<int32_t> stage_of(graph.nodes.size() + 1, static_cast<int32_t>(graph.stages.size()));
    for (size_t s = 0; s < graph.stages.size(); ++s) {
        for (int32_t node = graph.stages[s].first; node < graph.stages[s].last; ++node) stage_of[static_cast<size_t>(node)] = static_cast<int32_t>(s);
    }
    const auto stage = [&](int32_t node) { return node < 0 ? node : stage_of[static_cast<size_t>(node)]; };
    struct Placed {
        size_t lo, hi;
        int32_t born, dies;
    };
    // Values in order of birth take the lowest gap among those that are alive at the same time.
    std::vector<size_t> order;
    for (size_t i = 0; i < graph.values.size(); ++i)
        if (graph.values[i].slice_of == kNone) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return graph.values[a].born < graph.values[b].born; });
    std::vector<Placed> placed;
    std::vector<Placed> alive;
    size_t end = 0;
    for (const size_t i : order) {
        Value& value = graph.values[i];
        const size_t bytes = (value.bytes + kAlign - 1) / kAlign * kAlign;
        const int32_t born = stage(value.born);
        const int32_t dies = stage(value.dies);
        alive.clear();
        for (const Placed& p : placed)
            if (p.dies >= born && p.born <= dies) alive.push_back(p);
        std::sort(alive.begin(), alive.end(), [](const Placed& a, const Placed& b) { return a.lo < b.lo; });
        size_t at = 0;
        for (const Placed& p : alive) {
            if (at + bytes <= p.lo) break;
            at = std::max(at, p.hi);
        }
        value.offset = at;
        placed.push_back({at, at + bytes, born, dies});
        std::erase_if(placed, [&](const Placed& p) { return p.dies < born; });
        end = std::max(end, at + bytes);
    }
    for (Value& value : graph.values)
        if (value.slice_of != kNone)
            value.offset = graph.values[static_cast<size_t>(value.slice_of)].offset + static_cast<size_t>(value.first_col) * sizeof(float);
    graph.workspace_bytes = end;
}

std::string Graph::text() const {
    std::string out = fmt::format("graph for {} tokens, {} outputs: {} nodes, {} values, {} bytes of workspace\n", shape.tokens, shape.outputs,
                                  nodes.size(), values.size(), workspace_bytes);
    const auto describe = [&](Ref ref) {
        const Value& v = values[static_cast<size_t>(ref)];
        return fmt::format("%{}[{}x{}@{}]", ref, v.rows, v.cols, v.offset);
    };
    for (size_t i = 0; i < nodes.size(); ++i) {
        const Node& node = nodes[i];
        out += fmt::format("{:5} {:<16} {:<28}", i, name(node.op), node.label);
        for (const Ref ref : node.in)
            if (ref != kNone) out += ' ' + describe(ref);
        for (const ops::WeightMatrix& w : {node.weight, node.gate}) {
            if (w.data != nullptr) out += fmt::format(" {}[{}x{}]", cellar::name(w.type), w.rows, w.cols);
        }
        if (node.place.group >= 0) out += fmt::format(" group {} plane {}", node.place.group, node.place.plane);
        for (const Ref ref : node.out)
            if (ref != kNone) out += " -> " + describe(ref);
        out += '\n';
    }
    return out;
}

std::string Graph::graphviz() const {
    std::string out = "digraph step {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n";
    std::vector<int> writer(values.size(), -1);
    const auto root = [&](Ref ref) {
        while (values[static_cast<size_t>(ref)].slice_of != kNone) ref = values[static_cast<size_t>(ref)].slice_of;
        return static_cast<size_t>(ref);
    };
    for (size_t i = 0; i < nodes.size(); ++i) {
        const Node& node = nodes[i];
        out += fmt::format("  n{} [label=\"{}\\n{}\"];\n", i, name(node.op), node.label);
        for (const Ref ref : node.in)
            if (ref != kNone && writer[root(ref)] >= 0)
                out += fmt::format("  n{} -> n{} [label=\"{}x{}\"];\n", writer[root(ref)], i, values[static_cast<size_t>(ref)].rows,
                                   values[static_cast<size_t>(ref)].cols);
        for (const Ref ref : node.out)
            if (ref != kNone) writer[root(ref)] = static_cast<int>(i);
    }
    return out + "}\n";
}

}  // namespace cellar::graph
