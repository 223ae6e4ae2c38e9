// Granite: a llama with scales on embedding, residuals, scores and logits.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_granite(Loader& in) {
    Decoder d = in.decoder();
    const auto one_if_zero = [](float x) { return x == 0.0F ? 1.0F : x; };
    d.embedding_scale = one_if_zero(in.number_or("embedding_scale", 0.0F));
    d.residual_scale = one_if_zero(in.number_or("residual_scale", 0.0F));
    d.logit_scale = 1.0F / one_if_zero(in.number_or("logit_scale", 1.0F));
    Loader::AttentionSpec attention;
    attention.scale = in.number_or("attention.scale", 0.0F);
    attention.rope = in.boolean_or("rope.scaling.finetuned", true) ? 0 : -1;
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        d.blocks[static_cast<size_t>(i)] = in.dense_block(i, attention, ops::Activation::Silu);
    }
    const RopeConfig rope = in.rope(true);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
