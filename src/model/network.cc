#include "model/network.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/arch/archs.h"

namespace cellar::model {
namespace {

// Layers with the same rows and the same lifetime become planes of one group, in the order of the layers.
void place_layers(Network& network) {
    std::vector<LayerRows> kinds;
    std::vector<int> planes;
    for (const LayerRows& layer : network.layers) {
        size_t group = 0;
        while (group < kinds.size() && !(kinds[group] == layer)) ++group;
        if (group == kinds.size()) {
            kinds.push_back(layer);
            planes.push_back(0);
        }
        network.places.push_back({static_cast<int>(group), planes[group]++});
    }
}

}  // namespace

Network decoder_network(Loader& in, Decoder decoder, std::vector<RopeConfig> ropes) {
    Network out;
    out.config = in.config();
    if (!in.ok()) return out;
    for (const Block& block : decoder.blocks) {
        const Attention& a = block.attention;
        out.layers.push_back({a.keep, a.kv_heads, a.k_width, a.v_width});
    }
    out.ropes = std::move(ropes);
    place_layers(out);
    out.owned = in.take_owned();
    out.build = [decoder = std::make_shared<const Decoder>(std::move(decoder)), places = out.places](graph::Builder& b) {
        return build_decoder(b, *decoder, places);
    };
    return out;
}

Result<Network> load_network(const gguf::File& file, Packer* packer, bool exact_activations) {
    CELLAR_TRY(const std::string_view wanted, file.string("general.architecture"));
    for (const ArchEntry& arch : kArchs) {
        if (arch.name != wanted) continue;
        Loader in(file, packer, exact_activations);
        if (!in.ok()) return pass(in.status());
        Network network = arch.load(in);
        const int64_t window = in.integer_or("attention.sliding_window", 0, INT64_MIN, INT64_MAX);
        CELLAR_TRY_VOID(in.status());
        const bool windowed =
            std::any_of(network.layers.begin(), network.layers.end(), [](const LayerRows& l) { return l.keep.kind == kv::Keep::Kind::Window; });
        if (window > 0 && !windowed)
            network.notes.push_back(
                fmt::format("the file names a sliding window of {}, which this architecture does not use: full attention", window));
        return network;
    }
    return fail(ErrorKind::Unsupported, "{}: architecture '{}' is not supported; supported are {}", file.path(), wanted,
                fmt::join(supported_architectures(), ", "));
}

std::vector<std::string_view> supported_architectures() {
    std::vector<std::string_view> out;
    for (const ArchEntry& arch : kArchs) out.push_back(arch.name);
    return out;
}

}  // namespace cellar::model
