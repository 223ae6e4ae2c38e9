#pragma once
// A model file, open: its weights in place, its network, its words.
//
// Thread rule: immutable after open(); share it between engines.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "model/network.h"
#include "text/tokenizer.h"

namespace cellar::model {

struct LoadOptions {
    bool pack = false;               // rewrite weights for this machine; they then lie in memory of their own
    int threads = 1;                 // that pack
    bool exact_activations = false;  // activations that meet BF16 weights stay f32
};

class Packer;

class Model {
  public:
    ~Model();
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;

    // Maps the file and checks everything in it. Weights are read from the map when they are first used, or packed now.
    static Result<std::shared_ptr<const Model>> open(const std::string& path, const LoadOptions& options = {});

    [[nodiscard]] const gguf::File& file() const { return file_; }
    [[nodiscard]] const Network& network() const { return network_; }
    [[nodiscard]] const Config& config() const { return network_.config; }
    [[nodiscard]] const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }  // nullptr: a file without a vocabulary
    // Why there is no tokenizer; empty when there is one.
    [[nodiscard]] const std::string& why_no_tokenizer() const { return why_no_tokenizer_; }
    [[nodiscard]] const std::optional<std::string>& chat_template() const { return chat_template_; }
    [[nodiscard]] std::string display_name() const;  // general.name, or the file's name
    [[nodiscard]] uint64_t weight_bytes() const;     // of all tensors
    [[nodiscard]] uint64_t unread_bytes() const;     // of those that take memory when they are first used: not packed
    // On what the numbers of a step depend besides tokens, weights and the formats of the cache.
    [[nodiscard]] std::string numeric_path() const;
    [[nodiscard]] bool packed() const { return packer_ != nullptr; }

  private:
    explicit Model(gguf::File file);

    gguf::File file_;
    std::unique_ptr<Packer> packer_;  // nullptr: weights are read in file layout
    bool exact_activations_ = false;
    Network network_;
    std::unique_ptr<text::Tokenizer> tokenizer_;
    std::string why_no_tokenizer_;
    std::optional<std::string> chat_template_;
};

}  // namespace cellar::model
