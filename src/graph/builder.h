#pragma once
// Writes a graph node by node. Models describe themselves with this and nothing else.
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace cellar::graph {

// A matrix with its optional bias. w is [rows = outputs, cols = inputs].
struct Linear {
    ops::WeightMatrix w;
    const float* bias = nullptr;  // [w.rows]
    [[nodiscard]] bool present() const { return w.data != nullptr; }
};

// One matrix for each expert, one behind the other.
struct ExpertLinear {
    ops::WeightMatrix w;  // of one expert
    int64_t experts = 0;
    [[nodiscard]] bool present() const { return w.data != nullptr; }
};

struct NormWeights {
    const float* weight = nullptr;
    const float* bias = nullptr;
    float eps = 1e-5F;
    bool rms = true;  // else mean and variance
    [[nodiscard]] bool present() const { return weight != nullptr; }
};

class Builder {
  public:
    Builder(Shape shape, const ops::Ops& ops, std::vector<ops::RopeSpec> ropes);

    // Labels of the nodes that follow: "blk.3." and the layer number; -1 and "" outside the layers.
    void enter_layer(int layer);
    [[nodiscard]] const Shape& shape() const { return graph_.shape; }

    Ref embed(const ops::WeightMatrix& table);  // [tokens, cols] of the step's token ids
    Ref norm(Ref x, const NormWeights& weights, std::string_view label);
    // Normalises each head of x [n, heads * width] on its own; weights are [width], or [heads][width] with per_head.
    Ref head_norm(Ref x, int heads, int width, const NormWeights& weights, bool per_head, std::string_view label);
    Ref linear(Ref x, const Linear& linear, std::string_view label);  // [n, w.rows]
    // f(gate * x) * (up * x) in one product. Requires: can_gate(gate.w, up.w).
    Ref gated_linear(Ref x, const Linear& gate, const Linear& up, ops::Activation activation, std::string_view label);
    // Rewrites x in all forms that these want, so that their products, written next, are neighbours.
    void prepare_for(Ref x, std::initializer_list<const Linear*> linears);
    Ref slice(Ref x, int64_t first_col, int64_t cols);                                                   // a window on x, nothing is copied
    void rope(Ref x, int heads, int width, int rope, ops::RopePairing pairing, std::string_view label);  // in place
    Ref scale_rows(Ref x, const Temperature& temperature, std::string_view label);                       // by the row's position
    void store(Ref x, const kv::LayerPlace& place, int row, std::string_view label);
    Ref attend(Ref q, const kv::LayerPlace& place, int heads, int k_width, int v_width, float scale, float soft_cap, int rope,
               ops::RopePairing pairing);
    Ref add(Ref a, Ref b, std::string_view label);
    Ref scale(Ref x, float factor, std::string_view label);  // x itself where factor is 1
    Ref activate(Ref x, ops::Activation kind, std::string_view label);
    Ref activate_mul(Ref gate, Ref up, ops::Activation kind, std::string_view label);
    Ref soft_cap(Ref x, float cap, std::string_view label);
    Ref outputs_only(Ref x, std::string_view label);  // the rows that logits are wanted of

    // Experts: route gives {ids, weights} of [n, used]; group sorts the choices by expert.
    std::pair<Ref, Ref> route(Ref logits, const ops::RouteSpec& spec);
    Ref group_by_expert(Ref ids, int experts);
    // [n * used, w.rows]. x has a row for each token, or with by_slot for each choice.
    Ref expert_linear(Ref x, Ref groups, const ExpertLinear& linear, int64_t slots, bool by_slot, std::string_view label);
    Ref gated_expert_linear(Ref x, Ref groups, const ExpertLinear& gate, const ExpertLinear& up, int64_t slots, ops::Activation activation,
                            std::string_view label);
    Ref combine_experts(Ref x, Ref weights, int used);  // [n, cols]

    [[nodiscard]] const Value& value(Ref ref) const { return graph_.values[static_cast<size_t>(ref)]; }
    Graph finish(Ref logits);

  private:
    Ref add_value(Kind kind, int64_t rows, int64_t cols, size_t bytes, std::string name);
    Ref floats(int64_t rows, int64_t cols, const std::string& label);
    Node& add_node(Op op, std::string_view label);
    Node& add_node_like(Op op, std::string_view label, Ref x, Ref other = kNone);
    Ref prepared(Ref x, ops::ActivationForm form);
    Ref rope_table(int rope);
    void touch(Ref ref);

    Graph graph_;
    const ops::Ops& ops_;
    int layer_ = -1;
    std::unordered_map<int64_t, Ref> prepared_;  // (value, form) -> its prepared form
    std::unordered_map<int, Ref> rope_tables_;
};

}  // namespace cellar::graph
