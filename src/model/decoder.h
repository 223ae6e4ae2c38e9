#pragma once
// The shape that most architectures share: embedding, blocks of attention and feed-forward around a residual stream, a final
// norm, logits. An architecture fills one in; what it has no use for stays empty.
#include <vector>

#include "model/parts.h"

namespace cellar::model {

struct Block {
    NormWeights attn_norm, attn_post_norm, ffn_norm, ffn_post_norm;
    Attention attention;
    FeedForward ffn;
    Experts experts;
    // The feed-forward part reads what attention read, not what it made: x + attention(n) + ffn(n).
    bool parallel = false;
};

struct Decoder {
    ops::WeightMatrix embedding;  // [vocabulary, embedding]
    float embedding_scale = 1.0F;
    std::vector<Block> blocks;
    float residual_scale = 1.0F;  // on what each part adds to the stream
    NormWeights output_norm;
    Linear output;
    float logit_scale = 1.0F;
    float logit_cap = 0.0F;  // 0: none
};

// places[i] is where block i keeps its rows. Returns the logits, or kNone when the shape wants none.
Ref build_decoder(Builder& b, const Decoder& decoder, const std::vector<kv::LayerPlace>& places);

}  // namespace cellar::model
