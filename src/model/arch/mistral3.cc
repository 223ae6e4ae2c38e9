// Mistral Small 3 and Ministral 3: a llama whose scores grow with the position, with experts where the file has them.
#include "model/arch/archs.h"

namespace cellar::model {

Network load_mistral3(Loader& in) {
    Decoder d = in.decoder();
    RopeConfig rope = in.rope(true);
    // YaRN without growing magnitudes, also in files that do not say so.
    if (rope.log_multiplier == 0.0) rope.log_multiplier = 1.0;
    Loader::AttentionSpec attention;
    attention.scale = in.number_or("attention.scale", 0.0F);
    graph::Temperature temperature;
    temperature.scale = in.number_or("attention.temperature_scale", 0.0F);
    temperature.floor = static_cast<float>(rope.original_context);
    const ops::RouteSpec route = in.route(ops::RouteSpec::Gate::Softmax, true);
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        const int64_t width = in.config().feed_forward[static_cast<size_t>(i)];
        Block& block = d.blocks[static_cast<size_t>(i)] = in.attention_block(i, attention);
        block.attention.temperature = temperature;
        if (route.experts > 0) {
            block.experts = in.gated_experts(i, in.expert_width(width), route, ops::Activation::Silu);
        } else {
            block.ffn = in.gated_feed_forward(i, "", width, ops::Activation::Silu);
        }
    }
    return decoder_network(in, std::move(d), {rope});
}

}  // namespace cellar::model
