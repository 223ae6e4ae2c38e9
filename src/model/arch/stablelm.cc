// StableLM: norms with mean and bias; in the large ones each head has its own norm, and attention and feed-forward run side by side.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_stablelm(Loader& in) {
    in.use_layer_norm();
    Decoder d = in.decoder(Need::Required);
    Loader::AttentionSpec attention;
    attention.qk_norm = Attention::QkNorm::PerHeadOwn;
    attention.qk_norm_need = Need::Optional;
    attention.pairing = ops::RopePairing::Halves;
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        Block& block = d.blocks[static_cast<size_t>(i)];
        block.attn_norm = in.norm(Loader::layer(i, "attn_norm"), in.config().embedding);
        block.attention = in.attention(i, attention);
        block.ffn_norm = in.norm(Loader::layer(i, "ffn_norm"), in.config().embedding, Need::Optional);
        block.parallel = !block.ffn_norm.present();
        block.ffn = in.gated_feed_forward(i, "", in.config().feed_forward[static_cast<size_t>(i)], ops::Activation::Silu);
    }
    const RopeConfig rope = in.rope(false);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
