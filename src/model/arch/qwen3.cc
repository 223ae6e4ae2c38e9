// Qwen 3: each head of Q and K is normalised before it turns.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_qwen3(Loader& in) {
    Decoder d = in.decoder();
    Loader::AttentionSpec attention;
    attention.qk_norm = Attention::QkNorm::PerHead;
    attention.pairing = ops::RopePairing::Halves;
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        d.blocks[static_cast<size_t>(i)] = in.dense_block(i, attention, ops::Activation::Silu);
    }
    const RopeConfig rope = in.rope(false);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
