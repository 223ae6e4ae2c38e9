// Llama and everything that calls itself so: RMS norms, grouped queries, SwiGLU; with experts where the file has them.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_llama(Loader& in) {
    Decoder d = in.decoder();
    Loader::AttentionSpec attention;
    attention.scale = in.number_or("attention.scale", 0.0F);
    const ops::RouteSpec route = in.route(ops::RouteSpec::Gate::Softmax, true);
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        const int64_t width = in.config().feed_forward[static_cast<size_t>(i)];
        Block& block = d.blocks[static_cast<size_t>(i)] = in.attention_block(i, attention);
        if (in.config().experts > 0) {
            block.experts = in.gated_experts(i, in.expert_width(width), route, ops::Activation::Silu);
        } else {
            block.ffn = in.gated_feed_forward(i, "", width, ops::Activation::Silu);
        }
    }
    const RopeConfig rope = in.rope(true);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
