#include "graph/walk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/check.h"
#include "ops/row_pieces.h"

namespace cellar::graph {
namespace {

// Rows that a node works on.
struct Rows {
    int64_t first = 0;
    int64_t count = 0;
};

class Walker {
  public:
    Walker(const Graph& graph, const ops::Ops& ops, const StepInputs& inputs, const Workspace& workspace, ThreadTeam& team)
        : graph_(graph), ops_(ops), inputs_(inputs), workspace_(workspace), team_(team) {}

    void run(const Stage& stage);
    [[nodiscard]] bool finite(const Node& node) const;

  private:
    [[nodiscard]] const Value& value(Ref ref) const { return graph_.values[static_cast<size_t>(ref)]; }
    [[nodiscard]] std::byte* bytes(Ref ref) const { return workspace_.values + value(ref).offset; }
    [[nodiscard]] int32_t* ints(Ref ref) const { return reinterpret_cast<int32_t*>(bytes(ref)); }
    [[nodiscard]] ops::MatOut mat(Ref ref) const { return mat(ref, {0, value(ref).rows}); }
    [[nodiscard]] ops::MatOut mat(Ref ref, Rows rows) const;
    [[nodiscard]] const kv::GroupView& group(const Node& node) const { return inputs_.view->groups[static_cast<size_t>(node.place.group)]; }
    [[nodiscard]] std::span<const Node> nodes(const Stage& stage) const {
        return std::span(graph_.nodes).subspan(static_cast<size_t>(stage.first), static_cast<size_t>(stage.last - stage.first));
    }

    void run(const Node& node);
    void run_rows(std::span<const Node> nodes);
    void run_on(const Node& node, Rows rows, ThreadTeam& team) const;
    void head_norm(const Node& node, Rows rows, ThreadTeam& team) const;
    void scale_rows(const Node& node, Rows rows, ThreadTeam& team) const;
    void attend(const Node& node);
    void group_by_expert(const Node& node);
    void multiply(std::span<const Node> nodes);
    void multiply(const Node& node);
    void multiply_experts(const Node& node);
    void add_product(const ops::MatmulArgs& args);
    void flush();

    const Graph& graph_;
    const ops::Ops& ops_;
    const StepInputs& inputs_;
    const Workspace& workspace_;
    ThreadTeam& team_;
    std::array<ops::MatmulArgs, ops::kJoinedProducts> products_;  // that wait to be worked through as one
    size_t product_count_ = 0;
};

ops::MatOut Walker::mat(Ref ref, Rows rows) const {
    const Value& v = value(ref);
    const Value* owner = &v;
    while (owner->slice_of != kNone) owner = &value(owner->slice_of);
    return {reinterpret_cast<float*>(workspace_.values + v.offset) + rows.first * owner->cols, rows.count, v.cols, owner->cols};
}

void Walker::run(const Stage& stage) {
    switch (stage.kind) {
        case Stage::Kind::Node:
            return run(graph_.nodes[static_cast<size_t>(stage.first)]);
        case Stage::Kind::Rows:
            return run_rows(nodes(stage));
        case Stage::Kind::Products:
            return multiply(nodes(stage));
    }
}

void Walker::run(const Node& node) {
    const Ref in = node.in[0];
    const Ref out = node.out[0];
    switch (node.op) {
        case Op::Embed:
            return ops_.embed(node.weight, inputs_.ids, graph_.shape.tokens, mat(out), team_);
        case Op::RopeTable:
            return ops_.rope_table(graph_.ropes[static_cast<size_t>(node.rope)], inputs_.view->rotary.data(), graph_.shape.tokens, mat(out).data);
        case Op::Attend:
            return attend(node);
        case Op::GatherOutputs:
            return ops_.gather_rows(mat(in), inputs_.output_rows, graph_.shape.outputs, mat(out), team_);
        case Op::Route:
            return ops_.route(node.route, mat(in), ints(out), mat(node.out[1]).data, team_);
        case Op::GroupByExpert:
            return group_by_expert(node);
        case Op::CombineExperts:
            return ops_.combine_experts(mat(in), mat(node.in[1]).data, node.width, mat(out), team_);
        default:
            CHECK(false);  // belongs into another kind of stage
    }
}

// --- nodes that work on rows one by one

void Walker::run_rows(std::span<const Node> nodes) {
    const int64_t rows = value(nodes.front().in[0]).rows;
    int64_t cols = 0;
    for (const Node& node : nodes) cols += value(node.in[0]).cols;
    // A node by itself cuts its row for the team, if that is long enough.
    if (nodes.size() == 1) return run_on(nodes.front(), {0, rows}, team_);
    ops::for_row_pieces(rows, cols, team_, [&](int64_t first, int64_t count, int member) {
        for (const Node& node : nodes) run_on(node, {first, count}, team_.alone(member));
    });
}

void Walker::run_on(const Node& node, Rows rows, ThreadTeam& team) const {
    const Ref in = node.in[0];
    const Ref out = node.out[0];
    const auto x = [&] { return mat(in, rows); };
    const auto y = [&] { return mat(out, rows); };
    switch (node.op) {
        case Op::RmsNorm:
            return ops_.rms_norm(x(), node.vector, node.factor, y(), team);
        case Op::LayerNorm:
            return ops_.layer_norm(x(), node.vector, node.bias, node.factor, y(), team);
        case Op::HeadNorm:
            return head_norm(node, rows, team);
        case Op::Prepare: {
            const size_t row_bytes = ops_.activation_row_bytes(node.form, value(in).cols);
            return ops_.prepare_activations(node.form, x(), bytes(out) + row_bytes * static_cast<size_t>(rows.first), team);
        }
        case Op::Rope:
            return ops_.rope(x(), node.heads, node.width, graph_.ropes[static_cast<size_t>(node.rope)].dims, node.pairing, mat(node.in[1], rows).data,
                             team);
        case Op::StoreRows:
            return ops_.store_rows(x(), group(node).rows[static_cast<size_t>(node.row)], node.place.plane,
                                   group(node).write_cells.data() + rows.first, team);
        case Op::Add:
            return ops_.add(x(), mat(node.in[1], rows), y(), team);
        case Op::Scale:
            return ops_.scale(x(), node.factor, y(), team);
        case Op::ScaleRows:
            return scale_rows(node, rows, team);
        case Op::Activate:
            return ops_.activate(node.activation, x(), y(), team);
        case Op::ActivateMul:
            return ops_.activate_mul(node.activation, x(), mat(node.in[1], rows), y(), team);
        case Op::SoftCap:
            return ops_.soft_cap(x(), node.cap, y(), team);
        default:
            CHECK(false);  // looks at other rows too
    }
}

void Walker::head_norm(const Node& node, Rows rows, ThreadTeam& team) const {
    const ops::MatOut x = mat(node.in[0], rows);
    const ops::MatOut y = mat(node.out[0], rows);
    const auto norm = [&](ops::Mat from, const float* weight, ops::MatOut to) {
        if (node.rms) {
            ops_.rms_norm(from, weight, node.factor, to, team);
        } else {
            ops_.layer_norm(from, weight, node.bias, node.factor, to, team);
        }
    };
    if (x.stride == x.cols && !node.vector_per_head) {
        const int64_t heads = x.rows * node.heads;
        return norm({x.data, heads, node.width, node.width}, node.vector, {y.data, heads, node.width, node.width});
    }
    for (int h = 0; h < node.heads; ++h) {
        const int64_t first = static_cast<int64_t>(h) * node.width;
        norm({x.data + first, x.rows, node.width, x.stride}, node.vector + (node.vector_per_head ? first : 0),
             {y.data + first, y.rows, node.width, y.stride});
    }
}

void Walker::scale_rows(const Node& node, Rows rows, ThreadTeam& team) const {
    const ops::MatOut x = mat(node.in[0], rows);
    const ops::MatOut y = mat(node.out[0], rows);
    const Temperature& t = node.temperature;
    for (int64_t i = 0; i < x.rows; ++i) {
        const auto pos = static_cast<float>(inputs_.view->rotary[static_cast<size_t>(rows.first + i)]);
        const float factor = std::log(std::floor((pos + t.offset) / t.floor) + 1.0F) * t.scale + 1.0F;
        ops_.scale({x.row(i), 1, x.cols, x.stride}, factor, {y.row(i), 1, y.cols, y.stride}, team);
    }
}

// --- attention

void Walker::attend(const Node& node) {
    ops::AttendArgs args;
    args.q = mat(node.in[0]);
    args.out = mat(node.out[0]);
    args.heads = node.heads;
    args.group = &group(node);
    args.plane = node.place.plane;
    args.scale = node.factor;
    args.soft_cap = node.cap;
    if (node.rope >= 0) args.rope = graph_.ropes[static_cast<size_t>(node.rope)];
    args.pairing = node.pairing;
    args.scratch = workspace_.scratch;
    args.scratch_bytes = workspace_.scratch_bytes;
    ops_.attend(args, team_);
}

// --- products, of experts too

void Walker::group_by_expert(const Node& node) {
    const Value& ids = value(node.in[0]);
    const int32_t* chosen = ints(node.in[0]);
    const int64_t slots = ids.rows * ids.cols;
    int32_t* first = ints(node.out[0]);  // [experts + 1]
    int32_t* slot = first + node.experts + 1;
    int32_t* token = slot + slots;
    std::fill(first, first + node.experts + 1, 0);
    for (int64_t s = 0; s < slots; ++s) ++first[chosen[s] + 1];
    for (int64_t e = 0; e < node.experts; ++e) first[e + 1] += first[e];
    for (int64_t s = 0; s < slots; ++s) {
        const int32_t at = first[chosen[s]]++;
        slot[at] = static_cast<int32_t>(s);
        token[at] = static_cast<int32_t>(s / ids.cols);
    }
    // The loop above moved each start to the next expert's; move them back.
    for (int64_t e = node.experts; e > 0; --e) first[e] = first[e - 1];
    first[0] = 0;
}

void Walker::multiply(std::span<const Node> nodes) {
    for (const Node& node : nodes) node.op == Op::MatMul ? multiply(node) : multiply_experts(node);
    flush();
}

void Walker::multiply(const Node& node) {
    ops::MatmulArgs args;
    args.w = node.weight;
    args.bias = node.bias;
    args.gate = node.gate;
    args.gate_bias = node.gate_bias;
    args.activation = node.activation;
    args.x = bytes(node.in[0]);
    args.count = value(node.in[0]).rows;
    args.y = mat(node.out[0]);
    add_product(args);
}

void Walker::multiply_experts(const Node& node) {
    const int64_t slots = value(node.out[0]).rows;
    const int32_t* first = ints(node.in[1]);
    const int32_t* slot = first + node.experts + 1;
    const int32_t* token = slot + slots;
    const auto bytes_of = [&](const ops::WeightMatrix& w) {
        return w.packed ? ops_.packed_bytes(w.type, w.rows, w.cols) : row_bytes(w.type, w.cols) * static_cast<size_t>(w.rows);
    };
    const size_t weight_bytes = bytes_of(node.weight);
    const size_t gate_bytes = node.gate.data == nullptr ? 0 : bytes_of(node.gate);
    ops::MatmulArgs args;
    args.w = node.weight;
    args.gate = node.gate;
    args.activation = node.activation;
    args.x = bytes(node.in[0]);
    args.y = mat(node.out[0]);
    for (int64_t e = 0; e < node.experts; ++e) {
        args.count = first[e + 1] - first[e];
        if (args.count == 0) continue;
        args.w.data = node.weight.data + static_cast<size_t>(e) * weight_bytes;
        if (gate_bytes > 0) args.gate.data = node.gate.data + static_cast<size_t>(e) * gate_bytes;
        args.x_rows = (node.by_slot ? slot : token) + first[e];
        args.y_rows = slot + first[e];
        add_product(args);
    }
}

void Walker::add_product(const ops::MatmulArgs& args) {
    if (product_count_ == products_.size()) flush();
    products_[product_count_++] = args;
}

void Walker::flush() {
    ops_.matmul({products_.data(), product_count_}, team_);
    product_count_ = 0;
}

bool Walker::finite(const Node& node) const {
    for (const Ref ref : node.out) {
        if (ref == kNone || value(ref).kind != Kind::Floats) continue;
        const ops::MatOut m = mat(ref);
        for (int64_t i = 0; i < m.rows; ++i)
            if (!std::all_of(m.row(i), m.row(i) + m.cols, [](float x) { return std::isfinite(x); })) return false;
    }
    return true;
}

}  // namespace

size_t scratch_bytes(const Graph& graph, const ops::Ops& ops, int64_t context, int threads) {
    size_t most = 0;
    for (const Node& node : graph.nodes)
        if (node.op == Op::Attend)
            most = std::max(most, ops.attend_scratch_bytes(graph.shape.tokens, node.heads, std::max(node.width, node.v_width), context, threads));
    return most;
}

const Node* walk(const Graph& graph, const ops::Ops& ops, const StepInputs& inputs, const Workspace& workspace, ThreadTeam& team, bool check_finite,
                 Profile* profile) {
    CHECK_EQ(inputs.view->tokens, graph.shape.tokens);
    Walker walker(graph, ops, inputs, workspace, team);
    if (profile != nullptr) profile->begin(graph);
    for (const Stage& stage : graph.stages) {
        walker.run(stage);
        if (profile != nullptr) profile->mark();
        if (!check_finite) continue;
        for (int32_t i = stage.first; i < stage.last; ++i) {
            if (const Node& node = graph.nodes[static_cast<size_t>(i)]; !walker.finite(node)) return &node;
        }
    }
    if (profile != nullptr) profile->end(graph, *inputs.view);
    return nullptr;
}

ops::Mat logits(const Graph& graph, const Workspace& workspace) {
    CHECK_NE(graph.logits, kNone);
    const Value& v = graph.values[static_cast<size_t>(graph.logits)];
    return {reinterpret_cast<const float*>(workspace.values + v.offset), v.rows, v.cols, v.cols};
}

}  // namespace cellar::graph
