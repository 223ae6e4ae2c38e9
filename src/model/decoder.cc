#include "model/decoder.h"

namespace cellar::model {
namespace {

Ref norm_if(Builder& b, Ref x, const NormWeights& weights, std::string_view label) {
    return weights.present() ? b.norm(x, weights, label) : x;
}

Ref build_block(Builder& b, const Decoder& decoder, const Block& block, const kv::LayerPlace& place, Ref stream, bool last) {
    Ref read = norm_if(b, stream, block.attn_norm, "attn_norm");
    Ref attended = build_attention(b, block.attention, place, read);
    if (last) {
        attended = b.outputs_only(attended, "outputs");
        stream = b.outputs_only(stream, "outputs_stream");
        if (block.parallel) read = b.outputs_only(read, "outputs_norm");
    }
    attended = norm_if(b, attended, block.attn_post_norm, "post_attention_norm");
    stream = b.add(stream, b.scale(attended, decoder.residual_scale, "attn_residual_scale"), "attn_residual");
    const Ref input = block.parallel ? read : norm_if(b, stream, block.ffn_norm, "ffn_norm");
    Ref fed = block.experts.present() ? build_experts(b, block.experts, input) : build_feed_forward(b, block.ffn, input);
    fed = norm_if(b, fed, block.ffn_post_norm, "post_ffw_norm");
    return b.add(stream, b.scale(fed, decoder.residual_scale, "ffn_residual_scale"), "ffn_residual");
}

}  // namespace

Ref build_decoder(Builder& b, const Decoder& decoder, const std::vector<kv::LayerPlace>& places) {
    Ref stream = b.scale(b.embed(decoder.embedding), decoder.embedding_scale, "embedding_scale");
    for (size_t i = 0; i < decoder.blocks.size(); ++i) {
        const Block& block = decoder.blocks[i];
        b.enter_layer(static_cast<int>(i));
        const bool last = i + 1 == decoder.blocks.size();
        if (last && b.shape().outputs == 0) {
            build_store_only(b, block.attention, places[i], norm_if(b, stream, block.attn_norm, "attn_norm"));
            b.enter_layer(-1);
            return graph::kNone;
        }
        stream = build_block(b, decoder, block, places[i], stream, last);
    }
    b.enter_layer(-1);
    Ref logits = b.linear(b.norm(stream, decoder.output_norm, "output_norm"), decoder.output, "output");
    logits = b.scale(logits, decoder.logit_scale, "logit_scale");
    return decoder.logit_cap != 0.0F ? b.soft_cap(logits, decoder.logit_cap, "logit_cap") : logits;
}

}  // namespace cellar::model
