// The parts of Loader that know the names files use for whole parts of a model.
#include <cmath>

#include <fmt/format.h>

#include "model/loader.h"

namespace cellar::model {

RopeConfig Loader::rope(bool with_factors) {
    RopeConfig out;
    out.dims = static_cast<int>(integer_or("rope.dimension_count", config_.k_width, 0, config_.k_width));
    if (out.dims % 2 != 0) refuse(fmt::format("{} = {} must be even: positions turn pairs", key("rope.dimension_count"), out.dims));
    out.base = positive_or("rope.freq_base", 10000.0F);
    const float factor = has("rope.scaling.factor") ? number_or("rope.scaling.factor", 1.0F) : number_or("rope.scale_linear", 1.0F);
    const std::string scaling = string_or("rope.scaling.type", "linear");
    out.original_context = integer_or("rope.scaling.original_context_length", config_.context, 1, int64_t{1} << 30);
    out.magnitude = number_or("rope.scaling.attn_factor", 1.0F);
    out.log_multiplier = number_or("rope.scaling.yarn_log_multiplier", 0.0F);
    out.beta_fast = positive_or("rope.scaling.yarn_beta_fast", 32.0F);
    out.beta_slow = positive_or("rope.scaling.yarn_beta_slow", 1.0F);
    if (factor < 0.0F) refuse(fmt::format("{} = {} must not be negative", key("rope.scaling.factor"), factor));
    out.factor = factor == 0.0F ? 1.0 : factor;
    if (scaling == "none") {
        out.factor = 1.0;
    } else if (scaling == "linear") {
        out.scaling = RopeConfig::Scaling::Linear;
    } else if (scaling == "yarn") {
        out.scaling = RopeConfig::Scaling::Yarn;
        if (out.base <= 1.0) refuse(fmt::format("{} = {}, but yarn scaling needs a base above 1", key("rope.freq_base"), out.base));
    } else if (scaling == "longrope") {
        out.scaling = RopeConfig::Scaling::LongRope;
    } else {
        refuse(fmt::format("{} is '{}'; known are none, linear, yarn, longrope", key("rope.scaling.type"), scaling));
    }
    if (!with_factors || !ok()) return out;
    const auto read = [&](const char* name) {
        const float* data = vector(name, {out.dims / 2}, Need::Optional);
        std::vector<float> factors;
        if (data != nullptr) factors.assign(data, data + out.dims / 2);
        for (const float f : factors)
            if (!(f > 0.0F) || !std::isfinite(f)) refuse(fmt::format("tensor '{}' holds {}; frequency factors must be above 0", name, f));
        return factors;
    };
    out.factors = read("rope_freqs.weight");
    out.short_factors = read("rope_factors_short.weight");
    out.long_factors = read("rope_factors_long.weight");
    if (out.short_factors.empty() != out.long_factors.empty())
        refuse("only one of 'rope_factors_short.weight' and 'rope_factors_long.weight' is there; both are needed");
    if (!out.long_factors.empty()) out.scaling = RopeConfig::Scaling::LongRope;
    return out;
}

Attention Loader::attention(int i, const AttentionSpec& spec) {
    Attention out;
    if (!ok()) return out;
    const auto at = static_cast<size_t>(i);
    out.heads = config_.heads[at];
    out.kv_heads = config_.kv_heads[at];
    out.k_width = config_.k_width;
    out.v_width = config_.v_width;
    const int64_t q_cols = static_cast<int64_t>(out.heads) * out.k_width;
    const int64_t k_cols = static_cast<int64_t>(out.kv_heads) * out.k_width;
    const int64_t v_cols = static_cast<int64_t>(out.kv_heads) * out.v_width;
    out.qkv = linear(layer(i, "attn_qkv"), q_cols + k_cols + v_cols, config_.embedding, Need::Optional);
    if (!out.qkv.present()) {
        out.q = linear(layer(i, "attn_q"), q_cols, config_.embedding);
        out.k = linear(layer(i, "attn_k"), k_cols, config_.embedding);
        out.v = linear(layer(i, "attn_v"), v_cols, config_.embedding);
    }
    out.out = linear(layer(i, "attn_output"), config_.embedding, static_cast<int64_t>(out.heads) * out.v_width);
    const auto head_norm = [&](const char* name, int heads) {
        switch (spec.qk_norm) {
            case Attention::QkNorm::None:
                return NormWeights{};
            case Attention::QkNorm::PerHead:
                return norm(layer(i, name), out.k_width, spec.qk_norm_need);
            case Attention::QkNorm::WholeRow:
                return norm(layer(i, name), static_cast<int64_t>(heads) * out.k_width, spec.qk_norm_need);
            case Attention::QkNorm::PerHeadOwn:
                break;
        }
        NormWeights own;
        own.weight = vector(layer(i, name) + ".weight", {out.k_width, heads}, spec.qk_norm_need);
        own.eps = config_.eps;
        own.rms = config_.rms;
        return own;
    };
    out.q_norm = head_norm("attn_q_norm", out.heads);
    out.k_norm = head_norm("attn_k_norm", out.kv_heads);
    if (out.q_norm.present() != out.k_norm.present())
        refuse(fmt::format("layer {}: only one of 'attn_q_norm' and 'attn_k_norm' is there; both are needed", i));
    out.qk_norm = out.q_norm.present() ? spec.qk_norm : Attention::QkNorm::None;
    out.rope = spec.rope;
    out.pairing = spec.pairing;
    out.scale = spec.scale != 0.0F ? spec.scale : 1.0F / std::sqrt(static_cast<float>(out.k_width));
    out.keep = spec.keep;
    return out;
}

Block Loader::attention_block(int i, const AttentionSpec& spec) {
    Block out;
    out.attn_norm = norm(layer(i, "attn_norm"), config_.embedding);
    out.attention = attention(i, spec);
    out.ffn_norm = norm(layer(i, "ffn_norm"), config_.embedding);
    return out;
}

Block Loader::dense_block(int i, const AttentionSpec& spec, ops::Activation activation) {
    Block out = attention_block(i, spec);
    out.ffn = gated_feed_forward(i, "", config_.feed_forward[static_cast<size_t>(i)], activation);
    return out;
}

FeedForward Loader::gated_feed_forward(int i, std::string_view suffix, int64_t width, ops::Activation activation) {
    FeedForward out;
    out.activation = activation;
    if (!ok()) return out;
    if (width < 1) {
        refuse(fmt::format("layer {}: {} is 0 or missing", i, key("feed_forward_length")));
        return out;
    }
    const auto named = [&](const char* what) { return layer(i, fmt::format("ffn_{}{}", what, suffix)); };
    out.gate = linear(named("gate"), width, config_.embedding, Need::Optional);
    if (out.gate.present()) {
        out.up = linear(named("up"), width, config_.embedding);
    } else {
        out.gate_up = linear(named("up"), 2 * width, config_.embedding);
    }
    out.down = linear(named("down"), config_.embedding, width);
    return out;
}

ops::RouteSpec Loader::route(ops::RouteSpec::Gate gate, bool normalise) {
    ops::RouteSpec out;
    out.experts = config_.experts;
    out.used = config_.experts_used;
    out.gate = gate;
    switch (integer_or("expert_gating_func", 0, 0, 3)) {
        case 1:
            out.gate = ops::RouteSpec::Gate::Softmax;
            break;
        case 2:
            out.gate = ops::RouteSpec::Gate::Sigmoid;
            break;
        case 3:
            out.gate = ops::RouteSpec::Gate::SoftmaxOfChosen;
            break;
        default:
            break;
    }
    out.normalise = boolean_or("expert_weights_norm", normalise);
    const float scale = number_or("expert_weights_scale", 1.0F);
    out.scale = scale == 0.0F ? 1.0F : scale;
    out.groups = static_cast<int>(integer_or("expert_group_count", 1, 0, 4096));
    if (out.groups < 1) out.groups = 1;
    out.groups_used = static_cast<int>(integer_or("expert_group_used_count", out.groups, 0, 4096));
    if (out.groups == 1 || out.groups_used < 1) out.groups_used = out.groups;
    if (ok() && (out.experts % out.groups != 0 || out.groups_used > out.groups || out.used > out.experts / out.groups * out.groups_used))
        refuse(fmt::format("{} experts in {} groups, {} experts of {} groups used: these do not fit together", out.experts, out.groups, out.used,
                           out.groups_used));
    return out;
}

int64_t Loader::expert_width(int64_t otherwise) {
    return integer_or("expert_feed_forward_length", otherwise, 0, int64_t{1} << 24);
}

Experts Loader::gated_experts(int i, int64_t width, const ops::RouteSpec& route, ops::Activation activation) {
    Experts out;
    if (!ok()) return out;
    if (width < 1) {
        refuse(fmt::format("layer {}: the width of the experts ({}) is 0 or missing", i, key("expert_feed_forward_length")));
        return out;
    }
    const int64_t n = config_.embedding;
    out.route = route;
    out.activation = activation;
    out.router = linear(layer(i, "ffn_gate_inp"), route.experts, n);
    out.gate_up = experts(layer(i, "ffn_gate_up_exps"), 2 * width, n, route.experts, Need::Optional);
    if (!out.gate_up.present()) {
        out.gate = experts(layer(i, "ffn_gate_exps"), width, n, route.experts);
        out.up = experts(layer(i, "ffn_up_exps"), width, n, route.experts);
    }
    out.down = experts(layer(i, "ffn_down_exps"), n, width, route.experts);
    out.route.selection_bias = vector(layer(i, "exp_probs_b.bias"), {route.experts}, Need::Optional);
    return out;
}

Decoder Loader::decoder(Need output) {
    Decoder out;
    if (!ok()) return out;
    out.embedding = matrix("token_embd.weight", config_.vocabulary, config_.embedding);
    out.output_norm = norm("output_norm", config_.embedding);
    out.output = linear("output", config_.vocabulary, config_.embedding, output);
    if (!out.output.present()) out.output.w = out.embedding;
    out.blocks.resize(static_cast<size_t>(config_.layers));
    return out;
}

}  // namespace cellar::model
