#pragma once
// A model file: what it is, what it needs, and its words.
//
// A Model is a handle: copies stand for the same open file, which stays open as long as a handle or an engine has it.
// Thread rule: any number of threads may use it at once.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cellar/options.h>
#include <cellar/status.h>

namespace cellar::v1 {

struct ModelInfo {
    std::string path;
    std::string name;          // what the file says, or the file's name
    std::string architecture;  // "llama", "qwen3"...
    int layers = 0;
    int embedding = 0;  // width of the network
    int64_t trained_context = 0;
    int64_t vocabulary = 0;     // logits of one position; every token id is below it
    uint64_t weight_bytes = 0;  // of all tensors
    bool has_text = false;      // false: no vocabulary; runs on token ids only
    bool has_template = false;  // of chats
    std::optional<int32_t> bos, eos;
    std::vector<std::string> notes;  // things worth a line
};

// What an engine would take. Bytes.
struct MemoryEstimate {
    int64_t context = 0;  // that it is for
    uint64_t cache_bytes_per_token = 0;
    uint64_t cache_bytes = 0;  // of the whole room, full, to the byte
    uint64_t weight_bytes = 0;
    uint64_t transient_bytes = 0;  // at most: workspace and scratch
    uint64_t total_bytes = 0;
    std::optional<uint64_t> usable_bytes;  // that this process may take now; unset where the system does not say
    bool fits = true;                      // total_bytes <= usable_bytes
};

struct EncodeOptions {
    bool add_special = true;     // put the tokens around the text that the model expects there (BOS, EOS)
    bool parse_special = false;  // text that spells a control token becomes that token
};

class Model {
  public:
    Model(const Model&) = default;
    Model& operator=(const Model&) = default;

    // Maps the file (the first one of a split model) and checks everything in it. Weights that are not packed are read when they are
    // first used.
    static Result<Model> open(const std::string& path, const ModelOptions& options = {});

    [[nodiscard]] const ModelInfo& info() const;

    // Of an engine with these options; a context of 0 stands for the trained one.
    [[nodiscard]] Result<MemoryEstimate> estimate(const EngineOptions& options) const;

    // Takes any bytes. Refuses a model without a vocabulary.
    [[nodiscard]] Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;
    // Valid UTF-8, whatever the ids are. Control tokens are spelled only with show_special. Refuses ids outside the vocabulary.
    [[nodiscard]] Result<std::string> decode(std::span<const int32_t> ids, bool show_special = false) const;
    [[nodiscard]] bool ends_answer(int32_t id) const;  // the model ends its turn with this token

  private:
    friend class Engine;
    struct State;
    explicit Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}
    std::shared_ptr<const State> state_;  // never null
};

// Of the library: "0.1.0".
std::string_view version();

}  // namespace cellar::v1
