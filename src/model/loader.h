#pragma once
// Reads an architecture's keys and tensors out of a GGUF file and checks that they fit together.
//
// The first error sticks: later calls return harmless empty values, so that an architecture reads as a plain list of what it
// needs and is asked once, at the end, whether all was there.
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/decoder.h"
#include "model/gguf.h"

namespace cellar::model {

// What every architecture has.
struct Config {
    std::string architecture;
    int64_t vocabulary = 0;
    int64_t context = 0;  // trained length
    int64_t embedding = 0;
    int layers = 0;
    std::vector<int> heads;             // [layers]
    std::vector<int> kv_heads;          // [layers]; 0: the layer keeps no rows
    std::vector<int64_t> feed_forward;  // [layers]
    int k_width = 0;
    int v_width = 0;
    float eps = 1e-5F;
    bool rms = true;
    int experts = 0;
    int experts_used = 0;
};

enum class Need : bool { Optional, Required };

class Packer;

class Loader {
  public:
    // Reads the keys that every architecture has. Matrices go through the packer, if there is one.
    explicit Loader(const gguf::File& file, Packer* packer = nullptr, bool exact_activations = false);

    [[nodiscard]] const gguf::File& file() const { return file_; }
    [[nodiscard]] const Config& config() const { return config_; }
    [[nodiscard]] bool ok() const { return !failed_; }
    [[nodiscard]] Result<void> status() const;
    void refuse(std::string message);      // "FILE: message"
    void drop_last_layers(int64_t count);  // of layers that are in the file but not in the model
    void use_layer_norm();                 // mean and variance; eps from attention.layer_norm_epsilon

    // Keys under "ARCHITECTURE.". Requires for ranges: low <= otherwise <= high.
    [[nodiscard]] bool has(std::string_view key) const;
    int64_t integer(std::string_view key, int64_t low, int64_t high);
    int64_t integer_or(std::string_view key, int64_t otherwise, int64_t low, int64_t high);
    float number_or(std::string_view key, float otherwise);
    float positive_or(std::string_view key, float otherwise);  // refuses zero and below
    bool boolean_or(std::string_view key, bool otherwise);
    std::string string_or(std::string_view key, std::string_view otherwise);

    // Tensors, by their full name. Shapes are checked; a missing Optional one is an empty value.
    ops::WeightMatrix matrix(const std::string& name, int64_t rows, int64_t cols, Need need = Need::Required);
    Linear linear(const std::string& base, int64_t rows, int64_t cols, Need need = Need::Required);  // BASE.weight and, if there, BASE.bias
    ExpertLinear experts(const std::string& base, int64_t rows, int64_t cols, int64_t count, Need need = Need::Required);
    const float* vector(const std::string& name, std::initializer_list<int64_t> dims, Need need = Need::Required);
    NormWeights norm(const std::string& base, int64_t width, Need need = Need::Required);  // in the model's kind, with BASE.bias if there
    [[nodiscard]] bool has_tensor(const std::string& name) const { return file_.tensor(name) != nullptr; }
    [[nodiscard]] static std::string layer(int i, std::string_view what);  // "blk.3.WHAT"

    // Rope as the keys say. factors are looked for where `with_factors`.
    RopeConfig rope(bool with_factors);

    // Parts with the names that files use.
    struct AttentionSpec {
        Attention::QkNorm qk_norm = Attention::QkNorm::None;
        Need qk_norm_need = Need::Required;
        ops::RopePairing pairing = ops::RopePairing::Neighbours;
        int rope = 0;        // -1: none
        float scale = 0.0F;  // 0: one over the root of the key width
        kv::Keep keep;
    };
    Attention attention(int layer, const AttentionSpec& spec);
    // A block as most are: a norm before attention and one before the feed-forward part, which the second form reads too.
    Block attention_block(int layer, const AttentionSpec& spec);
    Block dense_block(int layer, const AttentionSpec& spec, ops::Activation activation);
    FeedForward gated_feed_forward(int layer, std::string_view suffix, int64_t width, ops::Activation activation);
    int64_t expert_width(int64_t otherwise);
    Experts gated_experts(int layer, int64_t width, const ops::RouteSpec& route, ops::Activation activation);
    // Route as the expert_* keys say, starting from what the architecture does when they are absent.
    ops::RouteSpec route(ops::RouteSpec::Gate gate, bool normalise);

    // Embedding, final norm and output; the output is the embedding again where the file has none and `tied` allows it.
    Decoder decoder(Need output = Need::Optional);

    // Floats that were converted from another type, with the life of the model.
    std::deque<std::vector<float>> take_owned() { return std::move(owned_); }

  private:
    template <class T>
    T take(Result<T> result, T otherwise);
    std::string key(std::string_view name) const { return config_.architecture + "." + std::string(name); }
    const gguf::TensorInfo* find(const std::string& name, std::initializer_list<int64_t> dims, Need need);
    void read_config();
    std::vector<int> per_layer(std::string_view name, int64_t low, int64_t high);

    const gguf::File& file_;
    Packer* packer_;
    bool exact_activations_;
    Config config_;
    bool failed_ = false;
    Error error_;
    std::deque<std::vector<float>> owned_;
};

}  // namespace cellar::model
