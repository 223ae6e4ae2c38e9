#pragma once
// A model as the engine sees it: what its layers keep, how positions turn, and how to write a step.
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/builder.h"
#include "kv/spec.h"
#include "model/loader.h"
#include "model/rope_config.h"

namespace cellar::model {

// What one layer keeps of each token.
struct LayerRows {
    kv::Keep keep;
    int kv_heads = 0;
    int k_width = 0;
    int v_width = 0;
    friend bool operator==(const LayerRows&, const LayerRows&) = default;
};

struct Network {
    Config config;
    std::vector<LayerRows> layers;       // [config.layers]
    std::vector<kv::LayerPlace> places;  // [config.layers], layers with equal rows share a group
    std::vector<RopeConfig> ropes;
    std::function<graph::Ref(graph::Builder&)> build;  // writes the whole step, returns the logits
    std::deque<std::vector<float>> owned;              // vectors that were converted from the file's types
    std::vector<std::string> notes;                    // things a user may want to know, one line each
};

// Reads the file's architecture; refuses one that is not known, with the list. The file must outlive the network.
// With a packer the weights it can pack are read from its memory, which must outlive the network too.
Result<Network> load_network(const gguf::File& file, Packer* packer = nullptr, bool exact_activations = false);

// Sorted names of all architectures.
std::vector<std::string_view> supported_architectures();

// How arch/*.cc hand in what they made. `status` of the loader is checked by the caller.
Network decoder_network(Loader& in, Decoder decoder, std::vector<RopeConfig> ropes);

}  // namespace cellar::model
