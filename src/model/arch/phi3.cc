// Phi 3 and 4 (dense): projections in one matrix, two sets of frequency factors of which the engine's context chooses one.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_phi3(Loader& in) {
    Decoder d = in.decoder();
    Loader::AttentionSpec attention;
    attention.pairing = ops::RopePairing::Halves;
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        d.blocks[static_cast<size_t>(i)] = in.dense_block(i, attention, ops::Activation::Silu);
    }
    const RopeConfig rope = in.rope(true);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
