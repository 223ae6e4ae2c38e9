// Gemma (the first): embeddings grow by the root of their width, GELU gates, the output is the embedding again.
#include <cmath>

#include "model/arch/archs.h"

namespace cellar::model {

Network load_gemma(Loader& in) {
    Decoder d = in.decoder();
    d.embedding_scale = std::sqrt(static_cast<float>(in.config().embedding));
    Loader::AttentionSpec attention;
    attention.pairing = ops::RopePairing::Halves;
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        d.blocks[static_cast<size_t>(i)] = in.dense_block(i, attention, ops::Activation::Gelu);
    }
    const RopeConfig rope = in.rope(false);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
