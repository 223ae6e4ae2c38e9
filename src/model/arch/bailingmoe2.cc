// Ling 2 and Ring 2: projections in one matrix, heads normalised, a few dense layers, then experts in groups beside a shared one.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_bailingmoe2(Loader& in) {
    constexpr int64_t kMaxWidth = int64_t{1} << 24;
    in.drop_last_layers(in.integer_or("nextn_predict_layers", 0, 0, 4096));
    Decoder d = in.decoder(Need::Required);
    Loader::AttentionSpec attention;
    attention.qk_norm = Attention::QkNorm::PerHead;
    attention.pairing = ops::RopePairing::Halves;
    const ops::RouteSpec route = in.route(ops::RouteSpec::Gate::Sigmoid, false);
    if (route.experts == 0) in.refuse("bailingmoe2 needs experts, but bailingmoe2.expert_count is 0 or missing");
    const int64_t dense = in.integer_or("leading_dense_block_count", 0, 0, 4096);
    const int64_t width = in.integer("expert_feed_forward_length", 1, kMaxWidth);
    const int64_t shared = in.integer_or("expert_shared_feed_forward_length", width, 0, kMaxWidth) * in.integer("expert_shared_count", 0, 4096);
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        Block& block = d.blocks[static_cast<size_t>(i)] = in.attention_block(i, attention);
        if (i < dense) {
            block.ffn = in.gated_feed_forward(i, "", in.config().feed_forward[static_cast<size_t>(i)], ops::Activation::Silu);
        } else {
            block.experts = in.gated_experts(i, width, route, ops::Activation::Silu);
            if (shared > 0) block.experts.shared = in.gated_feed_forward(i, "_shexp", shared, ops::Activation::Silu);
        }
    }
    const RopeConfig rope = in.rope(false);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
