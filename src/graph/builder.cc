#include "graph/builder.h"

#include <fmt/format.h>

#include "base/check.h"

namespace cellar::graph {

Builder::Builder(Shape shape, const ops::Ops& ops, std::vector<ops::RopeSpec> ropes) : ops_(ops) {
    CHECK_GE(shape.tokens, 1);
    CHECK(shape.outputs >= 0 && shape.outputs <= shape.tokens);
    graph_.shape = shape;
    graph_.ropes = std::move(ropes);
}

void Builder::enter_layer(int layer) {
    layer_ = layer;
}

Ref Builder::add_value(Kind kind, int64_t rows, int64_t cols, size_t bytes, std::string name) {
    Value value;
    value.name = std::move(name);
    value.kind = kind;
    value.rows = rows;
    value.cols = cols;
    value.bytes = bytes;
    graph_.values.push_back(std::move(value));
    return static_cast<Ref>(graph_.values.size() - 1);
}

Ref Builder::floats(int64_t rows, int64_t cols, const std::string& label) {
    return add_value(Kind::Floats, rows, cols, static_cast<size_t>(rows * cols) * sizeof(float), label);
}

Node& Builder::add_node(Op op, std::string_view label) {
    Node node;
    node.op = op;
    node.layer = layer_;
    node.label = layer_ >= 0 ? fmt::format("blk.{}.{}", layer_, label) : std::string(label);
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back();
}

// A node whose result has the shape of its first input. Fields of the node may be set behind it.
Node& Builder::add_node_like(Op op, std::string_view label, Ref x, Ref other) {
    Node& node = add_node(op, label);
    node.in = {x, other, kNone};
    node.out[0] = floats(value(x).rows, value(x).cols, node.label);
    touch(x);
    touch(other);
    touch(node.out[0]);
    return node;
}

// Ends a node: notes when its values are born and last used. In-place nodes name their value as input and output.
void Builder::touch(Ref ref) {
    if (ref == kNone) return;
    const auto now = static_cast<int32_t>(graph_.nodes.size()) - 1;
    for (; ref != kNone; ref = graph_.values[static_cast<size_t>(ref)].slice_of) {
        Value& value = graph_.values[static_cast<size_t>(ref)];
        if (value.born < 0) value.born = now;
        value.dies = now;
    }
}

Ref Builder::embed(const ops::WeightMatrix& table) {
    const Ref out = floats(graph_.shape.tokens, table.cols, "embeddings");
    Node& node = add_node(Op::Embed, "token_embd");
    node.weight = table;
    node.out[0] = out;
    touch(out);
    return out;
}

Ref Builder::norm(Ref x, const NormWeights& weights, std::string_view label) {
    Node& node = add_node_like(weights.rms ? Op::RmsNorm : Op::LayerNorm, label, x);
    node.vector = weights.weight;
    node.bias = weights.bias;
    node.factor = weights.eps;
    return node.out[0];
}

Ref Builder::head_norm(Ref x, int heads, int width, const NormWeights& weights, bool per_head, std::string_view label) {
    CHECK_EQ(value(x).cols, static_cast<int64_t>(heads) * width);
    Node& node = add_node_like(Op::HeadNorm, label, x);
    node.vector = weights.weight;
    node.bias = weights.bias;
    node.factor = weights.eps;
    node.rms = weights.rms;
    node.vector_per_head = per_head;
    node.heads = heads;
    node.width = width;
    return node.out[0];
}

Ref Builder::prepared(Ref x, ops::ActivationForm form) {
    const int64_t key = static_cast<int64_t>(x) * 16 + static_cast<int64_t>(form);
    if (auto found = prepared_.find(key); found != prepared_.end()) return found->second;
    const Value source = value(x);
    Node& node = add_node(Op::Prepare, "prepare");
    node.form = form;
    node.in[0] = x;
    const size_t row = ops_.activation_row_bytes(form, source.cols);
    const Ref out = add_value(Kind::Prepared, source.rows, source.cols, row * static_cast<size_t>(source.rows), node.label);
    node.out[0] = out;
    touch(x);
    touch(out);
    prepared_.emplace(key, out);
    return out;
}

Ref Builder::linear(Ref x, const Linear& linear, std::string_view label) {
    CHECK_EQ(value(x).cols, linear.w.cols);
    const Ref input = prepared(x, linear.w.form());
    Node& node = add_node(Op::MatMul, label);
    node.weight = linear.w;
    node.bias = linear.bias;
    node.in[0] = input;
    const Ref out = floats(value(x).rows, linear.w.rows, node.label);
    node.out[0] = out;
    touch(input);
    touch(out);
    return out;
}

Ref Builder::gated_linear(Ref x, const Linear& gate, const Linear& up, ops::Activation activation, std::string_view label) {
    CHECK(ops::can_gate(gate.w, up.w));
    const Ref out = linear(x, up, label);
    Node& node = graph_.nodes.back();
    node.gate = gate.w;
    node.gate_bias = gate.bias;
    node.activation = activation;
    return out;
}

void Builder::prepare_for(Ref x, std::initializer_list<const Linear*> linears) {
    for (const Linear* linear : linears) prepared(x, linear->w.form());
}

Ref Builder::slice(Ref x, int64_t first_col, int64_t cols) {
    CHECK_LE(first_col + cols, value(x).cols);
    const Ref out = add_value(value(x).kind, value(x).rows, cols, 0, value(x).name);
    Value& made = graph_.values[static_cast<size_t>(out)];
    made.slice_of = x;
    made.first_col = first_col;
    made.born = value(x).born;
    made.dies = made.born;
    return out;
}

Ref Builder::rope_table(int rope) {
    if (auto found = rope_tables_.find(rope); found != rope_tables_.end()) return found->second;
    Node& node = add_node(Op::RopeTable, "rope_table");
    node.rope = rope;
    const Ref out = floats(graph_.shape.tokens, graph_.ropes[static_cast<size_t>(rope)].dims, fmt::format("rope_table.{}", rope));
    node.out[0] = out;
    touch(out);
    rope_tables_.emplace(rope, out);
    return out;
}

void Builder::rope(Ref x, int heads, int width, int rope, ops::RopePairing pairing, std::string_view label) {
    CHECK_EQ(value(x).cols, static_cast<int64_t>(heads) * width);
    const Ref table = rope_table(rope);
    Node& node = add_node(Op::Rope, label);
    node.heads = heads;
    node.width = width;
    node.rope = rope;
    node.pairing = pairing;
    node.in = {x, table, kNone};
    node.out[0] = x;
    touch(x);
    touch(table);
}

Ref Builder::scale_rows(Ref x, const Temperature& temperature, std::string_view label) {
    Node& node = add_node_like(Op::ScaleRows, label, x);
    node.temperature = temperature;
    return node.out[0];
}

void Builder::store(Ref x, const kv::LayerPlace& place, int row, std::string_view label) {
    Node& node = add_node(Op::StoreRows, label);
    node.place = place;
    node.row = row;
    node.in[0] = x;
    touch(x);
}

Ref Builder::attend(Ref q, const kv::LayerPlace& place, int heads, int k_width, int v_width, float scale, float soft_cap, int rope,
                    ops::RopePairing pairing) {
    CHECK_EQ(value(q).cols, static_cast<int64_t>(heads) * k_width);
    Node& node = add_node(Op::Attend, "attention");
    node.place = place;
    node.heads = heads;
    node.width = k_width;
    node.v_width = v_width;
    node.factor = scale;
    node.cap = soft_cap;
    node.rope = rope;
    node.pairing = pairing;
    node.in[0] = q;
    const Ref out = floats(value(q).rows, static_cast<int64_t>(heads) * v_width, node.label);
    node.out[0] = out;
    touch(q);
    touch(out);
    return out;
}

Ref Builder::add(Ref a, Ref b, std::string_view label) {
    CHECK_EQ(value(a).cols, value(b).cols);
    CHECK_EQ(value(a).rows, value(b).rows);
    return add_node_like(Op::Add, label, a, b).out[0];
}

Ref Builder::scale(Ref x, float factor, std::string_view label) {
    if (factor == 1.0F) return x;
    Node& node = add_node_like(Op::Scale, label, x);
    node.factor = factor;
    return node.out[0];
}

Ref Builder::activate(Ref x, ops::Activation kind, std::string_view label) {
    Node& node = add_node_like(Op::Activate, label, x);
    node.activation = kind;
    return node.out[0];
}

Ref Builder::activate_mul(Ref gate, Ref up, ops::Activation kind, std::string_view label) {
    CHECK_EQ(value(gate).cols, value(up).cols);
    CHECK_EQ(value(gate).rows, value(up).rows);
    Node& node = add_node_like(Op::ActivateMul, label, gate, up);
    node.activation = kind;
    return node.out[0];
}

Ref Builder::soft_cap(Ref x, float cap, std::string_view label) {
    Node& node = add_node_like(Op::SoftCap, label, x);
    node.cap = cap;
    return node.out[0];
}

Ref Builder::outputs_only(Ref x, std::string_view label) {
    if (graph_.shape.outputs == graph_.shape.tokens) return x;
    Node& node = add_node(Op::GatherOutputs, label);
    node.in[0] = x;
    const Ref out = floats(graph_.shape.outputs, value(x).cols, node.label);
    node.out[0] = out;
    touch(x);
    touch(out);
    return out;
}

std::pair<Ref, Ref> Builder::route(Ref logits, const ops::RouteSpec& spec) {
    CHECK_EQ(value(logits).cols, static_cast<int64_t>(spec.experts));
    Node& node = add_node(Op::Route, "route");
    node.route = spec;
    node.in[0] = logits;
    const int64_t rows = value(logits).rows;
    const Ref ids = add_value(Kind::Ints, rows, spec.used, static_cast<size_t>(rows * spec.used) * sizeof(int32_t), node.label + ".ids");
    const Ref weights = floats(rows, spec.used, node.label + ".weights");
    node.out = {ids, weights};
    touch(logits);
    touch(ids);
    touch(weights);
    return {ids, weights};
}

Ref Builder::group_by_expert(Ref ids, int experts) {
    Node& node = add_node(Op::GroupByExpert, "group_by_expert");
    node.experts = experts;
    node.in[0] = ids;
    const int64_t slots = value(ids).rows * value(ids).cols;
    const int64_t count = experts + 1 + 2 * slots;  // first slot of each expert, then slots sorted by expert, then their tokens
    const Ref out = add_value(Kind::Ints, 1, count, static_cast<size_t>(count) * sizeof(int32_t), node.label);
    node.out[0] = out;
    touch(ids);
    touch(out);
    return out;
}

Ref Builder::expert_linear(Ref x, Ref groups, const ExpertLinear& linear, int64_t slots, bool by_slot, std::string_view label) {
    CHECK_EQ(value(x).cols, linear.w.cols);
    const Ref input = prepared(x, linear.w.form());
    Node& node = add_node(Op::ExpertMatMul, label);
    node.weight = linear.w;
    node.experts = linear.experts;
    node.by_slot = by_slot;
    node.in = {input, groups, kNone};
    const Ref out = floats(slots, linear.w.rows, node.label);
    node.out[0] = out;
    touch(input);
    touch(groups);
    touch(out);
    return out;
}

Ref Builder::gated_expert_linear(Ref x, Ref groups, const ExpertLinear& gate, const ExpertLinear& up, int64_t slots, ops::Activation activation,
                                 std::string_view label) {
    CHECK(ops::can_gate(gate.w, up.w) && gate.experts == up.experts);
    const Ref out = expert_linear(x, groups, up, slots, false, label);
    Node& node = graph_.nodes.back();
    node.gate = gate.w;
    node.activation = activation;
    return out;
}

Ref Builder::combine_experts(Ref x, Ref weights, int used) {
    Node& node = add_node(Op::CombineExperts, "combine_experts");
    node.width = used;
    node.in = {x, weights, kNone};
    const Ref out = floats(value(weights).rows, value(x).cols, node.label);
    node.out[0] = out;
    touch(x);
    touch(weights);
    touch(out);
    return out;
}

Graph Builder::finish(Ref logits) {
    graph_.logits = logits;
    if (logits != kNone) graph_.values[static_cast<size_t>(logits)].dies = static_cast<int32_t>(graph_.nodes.size());
    plan_stages(graph_);
    plan_workspace(graph_);
    return std::move(graph_);
}

}  // namespace cellar::graph
