// OLMo 2 and 3: norms behind the parts instead of before them, Q and K normalised over all heads; OLMo 3 files have windows.
#include "model/arch/archs.h"

namespace cellar::model {
namespace {

// Which layers have a window: the pattern is a period (the last layer of each has none), or a flag for each layer.
std::vector<bool> windowed_layers(Loader& in) {
    constexpr int64_t kDefaultPeriod = 4;
    const int layers = in.config().layers;
    std::vector<bool> out(static_cast<size_t>(layers));
    const std::string key = in.config().architecture + ".attention.sliding_window_pattern";
    int64_t period = kDefaultPeriod;
    if (const gguf::Key* found = in.file().find(key); found != nullptr) {
        if (found->type == gguf::ValueType::Array) {
            auto flags = in.file().booleans(key);
            if (!flags || flags->size() < out.size()) {
                in.refuse(key + " must have a flag for each layer");
                return out;
            }
            std::copy(flags->begin(), flags->begin() + layers, out.begin());
            return out;
        }
        period = in.integer("attention.sliding_window_pattern", 0, 4096);
    }
    for (int i = 0; i < layers; ++i) out[static_cast<size_t>(i)] = period == 0 || i % period < period - 1;
    return out;
}

}  // namespace

Network load_olmo2(Loader& in) {
    Decoder d = in.decoder(Need::Required);
    const auto window = static_cast<int32_t>(in.integer_or("attention.sliding_window", 0, 0, int64_t{1} << 30));
    const std::vector<bool> windowed = window > 0 && in.ok() ? windowed_layers(in) : std::vector<bool>(d.blocks.size());
    const RopeConfig rope = in.rope(false);
    RopeConfig window_rope;  // never stretched
    window_rope.dims = rope.dims;
    window_rope.base = window > 0 ? in.positive_or("rope.freq_base_swa", static_cast<float>(rope.base)) : rope.base;
    for (int i = 0; in.ok() && i < in.config().layers; ++i) {
        Block& block = d.blocks[static_cast<size_t>(i)];
        Loader::AttentionSpec attention;
        attention.qk_norm = Attention::QkNorm::WholeRow;
        attention.pairing = ops::RopePairing::Halves;
        if (windowed[static_cast<size_t>(i)]) {
            attention.rope = 1;
            attention.keep = kv::Keep::window(window);
        }
        block.attention = in.attention(i, attention);
        block.attn_post_norm = in.norm(Loader::layer(i, "post_attention_norm"), in.config().embedding);
        block.ffn = in.gated_feed_forward(i, "", in.config().feed_forward[static_cast<size_t>(i)], ops::Activation::Silu);
        block.ffn_post_norm = in.norm(Loader::layer(i, "post_ffw_norm"), in.config().embedding);
    }
    return decoder_network(in, std::move(d), {rope, window_rope});
}

}  // namespace cellar::model
