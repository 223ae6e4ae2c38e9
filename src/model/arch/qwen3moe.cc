// Qwen 3 with experts in every layer.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_qwen3moe(Loader& in) {
    Decoder d = in.decoder();
    Loader::AttentionSpec attention;
    attention.qk_norm = Attention::QkNorm::PerHead;
    attention.pairing = ops::RopePairing::Halves;
    const ops::RouteSpec route = in.route(ops::RouteSpec::Gate::Softmax, true);
    if (route.experts == 0) in.refuse("qwen3moe needs experts, but qwen3moe.expert_count is 0 or missing");
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        Block& block = d.blocks[static_cast<size_t>(i)];
        block.attn_norm = in.norm(Loader::layer(i, "attn_norm"), in.config().embedding);
        block.attention = in.attention(i, attention);
        block.ffn_norm = in.norm(Loader::layer(i, "ffn_norm"), in.config().embedding);
        const int64_t otherwise = in.config().feed_forward[static_cast<size_t>(i)] / route.used;
        block.experts =
            in.gated_experts(i, in.integer_or("expert_feed_forward_length", otherwise, 0, int64_t{1} << 24), route, ops::Activation::Silu);
    }
    const RopeConfig rope = in.rope(false);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
