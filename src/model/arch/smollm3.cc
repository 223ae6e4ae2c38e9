// SmolLM 3: a llama in which every fourth layer has no positions.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_smollm3(Loader& in) {
    constexpr int kPositionlessEvery = 4;
    Decoder d = in.decoder();
    Loader::AttentionSpec attention;
    attention.scale = in.number_or("attention.scale", 0.0F);
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        attention.rope = (i + 1) % kPositionlessEvery == 0 ? -1 : 0;
        d.blocks[static_cast<size_t>(i)] = in.dense_block(i, attention, ops::Activation::Silu);
    }
    const RopeConfig rope = in.rope(true);
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
