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
        Block& block = d.blocks[static_cast<size_t>(i)] = in.attention_block(i, attention);
        const int64_t otherwise = in.config().feed_forward[static_cast<size_t>(i)] / route.used;
        block.experts = in.gated_experts(i, in.expert_width(otherwise), route, ops::Activation::Silu);
    }
    const RopeConfig rope = in.rope(false);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
