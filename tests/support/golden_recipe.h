#pragma once
// Golden models: recipes of tiny models, and the logits an independent engine computed for them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf_writer.h"

namespace cellar::golden {

struct TensorRecipe {
    std::string name;
    DType type = DType::F32;    // F32 or F16
    std::vector<int64_t> dims;  // fastest first
    double mean = 0;
    double sd = 0;
    bool negative = false;

    [[nodiscard]] int64_t elements() const;
};

struct Recipe {
    std::string path;
    std::string architecture;
    uint64_t weight_seed = 0;
    gguf::Writer metadata;  // general.architecture and the keys of the recipe; no tensors
    std::vector<TensorRecipe> tensors;

    std::vector<int32_t> tokens;  // the prompt
    int n_vocab = 0;
    int logits_of_last = 0;  // positions that the recorded logits cover
    std::vector<int32_t> greedy_continuation;
    double reference_batch_vs_step_max_abs = 0;
    double max_abs_logit = 0;
};

// The folders with recipes: the repository's own, and one with many more beside the checkout where it is there.
std::vector<std::string> folders();
// Names of all recipes, sorted: "llama", "qwen3-hd80".
std::vector<std::string> names();

[[nodiscard]] Result<Recipe> read_recipe(const std::string& path);
[[nodiscard]] Result<Recipe> read_named(const std::string& name);

// The values of a tensor in storage order.
std::vector<float> make_values(const TensorRecipe& tensor, uint64_t weight_seed);

// The model as a GGUF file: in memory (for gguf::File::parse), or on disk.
[[nodiscard]] Result<std::vector<std::byte>> make_gguf(const Recipe& recipe);
[[nodiscard]] Result<void> write_gguf(const Recipe& recipe, const std::string& path);

// The recorded logits beside the recipe. [logits_of_last, n_vocab]
[[nodiscard]] Result<std::vector<float>> read_logits(const Recipe& recipe);

}  // namespace cellar::golden
