#pragma once
// The list of architectures. A new one is a file beside this and a line in each of the two lists here.
#include <string_view>

#include "model/network.h"

namespace cellar::model {

Network load_bailingmoe2(Loader& in);
Network load_gemma(Loader& in);
Network load_granite(Loader& in);
Network load_llama(Loader& in);
Network load_minimax_m2(Loader& in);
Network load_mistral3(Loader& in);
Network load_olmo2(Loader& in);
Network load_phi3(Loader& in);
Network load_qwen2(Loader& in);
Network load_qwen3(Loader& in);
Network load_qwen3moe(Loader& in);
Network load_smollm3(Loader& in);
Network load_stablelm(Loader& in);
Network load_starcoder2(Loader& in);

struct ArchEntry {
    std::string_view name;  // general.architecture
    Network (*load)(Loader&);
};

// Sorted by name.
inline constexpr ArchEntry kArchs[] = {
    {"bailingmoe2", load_bailingmoe2},
    {"gemma", load_gemma},
    {"granite", load_granite},
    {"llama", load_llama},
    {"minimax-m2", load_minimax_m2},
    {"mistral3", load_mistral3},
    {"olmo2", load_olmo2},
    {"phi3", load_phi3},
    {"qwen2", load_qwen2},
    {"qwen3", load_qwen3},
    {"qwen3moe", load_qwen3moe},
    {"smollm3", load_smollm3},
    {"stablelm", load_stablelm},
    {"starcoder2", load_starcoder2},
};

}  // namespace cellar::model
