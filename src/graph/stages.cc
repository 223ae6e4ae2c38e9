#include "graph/graph.h"

namespace cellar::graph {
namespace {

// Whether each row of the result comes from the same row of the inputs, and from nothing else of this step.
bool works_on_rows(Op op) {
    switch (op) {
        case Op::RmsNorm:
        case Op::LayerNorm:
        case Op::HeadNorm:
        case Op::Prepare:
        case Op::Rope:
        case Op::StoreRows:
        case Op::Add:
        case Op::Scale:
        case Op::ScaleRows:
        case Op::Activate:
        case Op::ActivateMul:
        case Op::SoftCap:
            return true;
        default:
            return false;
    }
}

bool is_product(Op op) {
    return op == Op::MatMul || op == Op::ExpertMatMul;
}

Stage::Kind kind_of(const Node& node) {
    if (works_on_rows(node.op)) return Stage::Kind::Rows;
    return is_product(node.op) ? Stage::Kind::Products : Stage::Kind::Node;
}

}  // namespace

void plan_stages(Graph& graph) {
    graph.stages.clear();
    const auto rows = [&](const Node& node) { return graph.values[static_cast<size_t>(node.in[0])].rows; };
    for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes.size()); ++i) {
        const Node& node = graph.nodes[static_cast<size_t>(i)];
        const Stage::Kind kind = kind_of(node);
        const auto joins = [&](const Stage& stage) {
            if (stage.kind != kind || kind == Stage::Kind::Node) return false;
            // Products read prepared activations, which no product writes.
            return kind == Stage::Kind::Products || rows(node) == rows(graph.nodes[static_cast<size_t>(stage.first)]);
        };
        if (!graph.stages.empty() && joins(graph.stages.back())) {
            graph.stages.back().last = i + 1;
        } else {
            graph.stages.push_back({kind, i, i + 1});
        }
    }
}

}  // namespace cellar::graph
