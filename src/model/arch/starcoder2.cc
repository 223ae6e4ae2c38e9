// StarCoder 2: norms with mean and bias, biases everywhere, a feed-forward part without a gate.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_starcoder2(Loader& in) {
    in.use_layer_norm();
    Decoder d = in.decoder();
    Loader::AttentionSpec attention;
    attention.pairing = ops::RopePairing::Halves;
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        const int64_t width = in.config().feed_forward[static_cast<size_t>(i)];
        Block& block = d.blocks[static_cast<size_t>(i)] = in.attention_block(i, attention);
        block.ffn.activation = ops::Activation::Gelu;
        block.ffn.up = in.linear(Loader::layer(i, "ffn_up"), width, in.config().embedding);
        block.ffn.down = in.linear(Loader::layer(i, "ffn_down"), in.config().embedding, width);
    }
    const RopeConfig rope = in.rope(false);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
