// MiniMax M2: Q and K normalised over all heads, half of each head turns, experts with sigmoid gates and a bias for choosing.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_minimax_m2(Loader& in) {
    Decoder d = in.decoder(Need::Required);
    Loader::AttentionSpec attention;
    attention.qk_norm = Attention::QkNorm::WholeRow;
    attention.pairing = ops::RopePairing::Halves;
    const ops::RouteSpec route = in.route(ops::RouteSpec::Gate::Sigmoid, true);
    if (route.experts == 0) in.refuse("minimax-m2 needs experts, but minimax-m2.expert_count is 0 or missing");
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        Block& block = d.blocks[static_cast<size_t>(i)];
        const int64_t width = in.config().feed_forward[static_cast<size_t>(i)];
        block.attn_norm = in.norm(Loader::layer(i, "attn_norm"), in.config().embedding);
        block.attention = in.attention(i, attention);
        block.ffn_norm = in.norm(Loader::layer(i, "ffn_norm"), in.config().embedding);
        block.experts = in.gated_experts(i, in.integer_or("expert_feed_forward_length", width, 0, int64_t{1} << 24), route, ops::Activation::Silu);
    }
    const RopeConfig rope = in.rope(false);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
