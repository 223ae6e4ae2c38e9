#pragma once
// The parts that architectures are put together from: their weights, and how they write themselves into a graph.
#include <vector>

#include "graph/builder.h"
#include "kv/spec.h"
#include "model/rope_config.h"

namespace cellar::model {

using graph::Builder;
using graph::ExpertLinear;
using graph::Linear;
using graph::NormWeights;
using graph::Ref;

struct Attention {
    enum class QkNorm : uint8_t { None, PerHead, PerHeadOwn /* each head its own weights */, WholeRow };

    Linear qkv;  // or q, k, v
    Linear q, k, v;
    Linear out;
    NormWeights q_norm, k_norm;
    QkNorm qk_norm = QkNorm::None;
    int heads = 0;
    int kv_heads = 0;
    int k_width = 0;
    int v_width = 0;
    int rope = -1;  // index into Network::ropes; -1: no positions in this layer
    ops::RopePairing pairing = ops::RopePairing::Neighbours;
    float scale = 1.0F;
    float soft_cap = 0.0F;
    graph::Temperature temperature;  // scale 0: none
    kv::Keep keep;
};

struct FeedForward {
    Linear gate_up;  // both in one, gate first; or gate and up; or up alone
    Linear gate, up, down;
    ops::Activation activation = ops::Activation::Silu;
    [[nodiscard]] bool present() const { return down.present(); }
};

struct Experts {
    Linear router;
    ExpertLinear gate_up;  // or gate and up
    ExpertLinear gate, up, down;
    ops::RouteSpec route;
    ops::Activation activation = ops::Activation::Silu;
    FeedForward shared;  // an expert that every token meets
    [[nodiscard]] bool present() const { return router.present(); }
};

// x [tokens, embedding] -> [tokens, embedding]; stores K and V of the step, then attends.
Ref build_attention(Builder& b, const Attention& part, const kv::LayerPlace& place, Ref x);
// Only K and V of the step: what the last layer does for tokens whose logits nobody wants.
void build_store_only(Builder& b, const Attention& part, const kv::LayerPlace& place, Ref x);
Ref build_feed_forward(Builder& b, const FeedForward& part, Ref x, std::string_view label = "ffn");
Ref build_experts(Builder& b, const Experts& part, Ref x);

}  // namespace cellar::model
