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
        const int64_t width = in.config().feed_forward[static_cast<size_t>(i)];
        Block& block = d.blocks[static_cast<size_t>(i)] = in.attention_block(i, attention);
        block.experts = in.gated_experts(i, in.expert_width(width), route, ops::Activation::Silu);
    }
    const RopeConfig rope = in.rope(false);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
