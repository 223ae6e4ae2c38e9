#include "model/parts.h"

#include <fmt/format.h>

namespace cellar::model {
namespace {

struct Projected {
    Ref q = graph::kNone;
    Ref k = graph::kNone;
    Ref v = graph::kNone;
};

Ref normalised(Builder& b, const Attention& part, Ref x, int heads, const NormWeights& weights, std::string_view label) {
    switch (part.qk_norm) {
        case Attention::QkNorm::None:
            return x;
        case Attention::QkNorm::PerHead:
            return b.head_norm(x, heads, part.k_width, weights, false, label);
        case Attention::QkNorm::PerHeadOwn:
            return b.head_norm(x, heads, part.k_width, weights, true, label);
        case Attention::QkNorm::WholeRow:
            return b.norm(x, weights, label);
    }
    return x;
}

// Projections, norms and positions; K and V stored.
Projected project(Builder& b, const Attention& part, const kv::LayerPlace& place, Ref x, bool want_q) {
    const int64_t q_cols = static_cast<int64_t>(part.heads) * part.k_width;
    const int64_t k_cols = static_cast<int64_t>(part.kv_heads) * part.k_width;
    const int64_t v_cols = static_cast<int64_t>(part.kv_heads) * part.v_width;
    Projected p;
    if (part.qkv.present()) {
        const Ref all = b.linear(x, part.qkv, "attn_qkv");
        p = {b.slice(all, 0, q_cols), b.slice(all, q_cols, k_cols), b.slice(all, q_cols + k_cols, v_cols)};
    } else {
        b.prepare_for(
            x, want_q ? std::initializer_list<const Linear*>{&part.q, &part.k, &part.v} : std::initializer_list<const Linear*>{&part.k, &part.v});
        if (want_q) p.q = b.linear(x, part.q, "attn_q");
        p.k = b.linear(x, part.k, "attn_k");
        p.v = b.linear(x, part.v, "attn_v");
    }
    if (want_q) p.q = normalised(b, part, p.q, part.heads, part.q_norm, "attn_q_norm");
    p.k = normalised(b, part, p.k, part.kv_heads, part.k_norm, "attn_k_norm");
    if (part.rope >= 0) {
        if (want_q) b.rope(p.q, part.heads, part.k_width, part.rope, part.pairing, "rope_q");
        b.rope(p.k, part.kv_heads, part.k_width, part.rope, part.pairing, "rope_k");
    }
    if (want_q && part.temperature.scale != 0.0F) p.q = b.scale_rows(p.q, part.temperature, "attn_temperature");
    b.store(p.k, place, 0, "store_k");
    b.store(p.v, place, 1, "store_v");
    return p;
}

}  // namespace

Ref build_attention(Builder& b, const Attention& part, const kv::LayerPlace& place, Ref x) {
    const Projected p = project(b, part, place, x, true);
    const Ref seen = b.attend(p.q, place, part.heads, part.k_width, part.v_width, part.scale, part.soft_cap, part.rope, part.pairing);
    return b.linear(seen, part.out, "attn_output");
}

void build_store_only(Builder& b, const Attention& part, const kv::LayerPlace& place, Ref x) {
    project(b, part, place, x, false);
}

Ref build_feed_forward(Builder& b, const FeedForward& part, Ref x, std::string_view label) {
    const auto named = [&](std::string_view what) { return fmt::format("{}_{}", label, what); };
    Ref hidden = graph::kNone;
    if (part.gate_up.present()) {
        const Ref both = b.linear(x, part.gate_up, named("up"));
        const int64_t half = part.gate_up.w.rows / 2;
        hidden = b.activate_mul(b.slice(both, 0, half), b.slice(both, half, half), part.activation, named("act"));
    } else if (part.gate.present() && ops::can_gate(part.gate.w, part.up.w)) {
        hidden = b.gated_linear(x, part.gate, part.up, part.activation, fmt::format("{0}_up, {0}_gate", label));
    } else if (part.gate.present()) {
        const Ref gate = b.linear(x, part.gate, named("gate"));
        const Ref up = b.linear(x, part.up, named("up"));
        hidden = b.activate_mul(gate, up, part.activation, named("act"));
    } else {
        hidden = b.activate(b.linear(x, part.up, named("up")), part.activation, named("act"));
    }
    return b.linear(hidden, part.down, named("down"));
}

Ref build_experts(Builder& b, const Experts& part, Ref x) {
    const Ref logits = b.linear(x, part.router, "ffn_gate_inp");
    const auto [ids, weights] = b.route(logits, part.route);
    const Ref groups = b.group_by_expert(ids, part.route.experts);
    const int64_t slots = b.value(x).rows * part.route.used;
    Ref hidden = graph::kNone;
    if (part.gate_up.present()) {
        const Ref both = b.expert_linear(x, groups, part.gate_up, slots, false, "ffn_gate_up_exps");
        const int64_t half = part.gate_up.w.rows / 2;
        hidden = b.activate_mul(b.slice(both, 0, half), b.slice(both, half, half), part.activation, "ffn_act_exps");
    } else if (ops::can_gate(part.gate.w, part.up.w)) {
        hidden = b.gated_expert_linear(x, groups, part.gate, part.up, slots, part.activation, "ffn_up_exps, ffn_gate_exps");
    } else {
        const Ref gate = b.expert_linear(x, groups, part.gate, slots, false, "ffn_gate_exps");
        const Ref up = b.expert_linear(x, groups, part.up, slots, false, "ffn_up_exps");
        hidden = b.activate_mul(gate, up, part.activation, "ffn_act_exps");
    }
    const Ref each = b.expert_linear(hidden, groups, part.down, slots, true, "ffn_down_exps");
    const Ref mixed = b.combine_experts(each, weights, part.route.used);
    if (!part.shared.present()) return mixed;
    return b.add(mixed, build_feed_forward(b, part.shared, x, "ffn_shexp"), "ffn_shared_add");
}

}  // namespace cellar::model
