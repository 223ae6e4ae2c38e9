// Llama and everything that calls itself so: RMS norms, grouped queries, SwiGLU; with experts where the file has them.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_llama(Loader& in) {
    Decoder d = in.decoder();
    Loader::AttentionSpec attention;
    attention.scale = in.number_or("attention.scale", 0.0F);
    const ops::RouteSpec route = in.route(ops::RouteSpec::Gate::Softmax, true);
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        Block& block = d.blocks[static_cast<size_t>(i)];
        const int64_t width = in.config().feed_forward[static_cast<size_t>(i)];
        block.attn_norm = in.norm(Loader::layer(i, "attn_norm"), in.config().embedding);
        block.attention = in.attention(i, attention);
        block.ffn_norm = in.norm(Loader::layer(i, "ffn_norm"), in.config().embedding);
        if (in.config().experts > 0) {
            block.experts =
                in.gated_experts(i, in.integer_or("expert_feed_forward_length", width, 0, int64_t{1} << 24), route, ops::Activation::Silu);
        } else {
            block.ffn = in.gated_feed_forward(i, "", width, ops::Activation::Silu);
        }
    }
    const RopeConfig rope = in.rope(true);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
