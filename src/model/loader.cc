#include "model/loader.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/packer.h"
#include "tensor/row_codec.h"

namespace cellar::model {
namespace {

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadWidth = 4096;
constexpr int64_t kMaxExperts = 4096;
constexpr int64_t kMaxContext = int64_t{1} << 30;

}  // namespace

template <class T>
T Loader::take(Result<T> result, T otherwise) {
    if (failed_) return otherwise;
    if (result) return *std::move(result);
    failed_ = true;
    error_ = std::move(result).error();
    return otherwise;
}

Loader::Loader(const gguf::File& file, Packer* packer, bool exact_activations) : file_(file), packer_(packer), exact_activations_(exact_activations) {
    config_.architecture = std::string(take(file.string("general.architecture"), std::string_view()));
    if (ok()) read_config();
}

Result<void> Loader::status() const {
    if (failed_) return tl::unexpected<Error>(error_);
    return {};
}

void Loader::refuse(std::string message) {
    if (failed_) return;
    failed_ = true;
    error_ = Error{ErrorKind::Input, file_.path() + ": " + std::move(message)};
}

void Loader::drop_last_layers(int64_t count) {
    if (!ok()) return;
    if (count >= config_.layers) return refuse(fmt::format("{} of {} layers are for drafting; none is left", count, config_.layers));
    config_.layers -= static_cast<int>(count);
}

void Loader::use_layer_norm() {
    config_.rms = false;
    config_.eps = take(file_.number(key("attention.layer_norm_epsilon")), config_.eps);
}

bool Loader::has(std::string_view name) const {
    return file_.has(key(name));
}

int64_t Loader::integer(std::string_view name, int64_t low, int64_t high) {
    return take(file_.integer(key(name), low, high), low);
}

int64_t Loader::integer_or(std::string_view name, int64_t otherwise, int64_t low, int64_t high) {
    return take(file_.integer_or(key(name), otherwise, low, high), otherwise);
}

float Loader::number_or(std::string_view name, float otherwise) {
    return take(file_.number_or(key(name), otherwise), otherwise);
}

float Loader::positive_or(std::string_view name, float otherwise) {
    const float value = number_or(name, otherwise);
    if (!(value > 0.0F)) refuse(fmt::format("{} is {}, but must be above 0", key(name), value));
    return value;
}

bool Loader::boolean_or(std::string_view name, bool otherwise) {
    return take(file_.boolean_or(key(name), otherwise), otherwise);
}

std::string Loader::string_or(std::string_view name, std::string_view otherwise) {
    return std::string(take(file_.string_or(key(name), otherwise), otherwise));
}

std::vector<int> Loader::per_layer(std::string_view name, int64_t low, int64_t high) {
    const auto values = take(file_.integers(key(name), low, high), std::vector<int64_t>{low});
    if (!ok()) return {};
    if (values.size() != 1 && values.size() != static_cast<size_t>(config_.layers)) {
        refuse(fmt::format("{} has {} values for {} layers; one, or one for each layer, is wanted", key(name), values.size(), config_.layers));
        return {};
    }
    std::vector<int> out(static_cast<size_t>(config_.layers));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int>(values[values.size() == 1 ? 0 : i]);
    return out;
}

void Loader::read_config() {
    config_.embedding = integer("embedding_length", 1, kMaxWidth);
    config_.layers = static_cast<int>(integer("block_count", 1, kMaxLayers));
    config_.context = integer("context_length", 1, kMaxContext);
    config_.heads = per_layer("attention.head_count", 0, kMaxHeads);
    config_.kv_heads = has("attention.head_count_kv") ? per_layer("attention.head_count_kv", 0, kMaxHeads) : config_.heads;
    const std::vector<int> widths =
        has("feed_forward_length") ? per_layer("feed_forward_length", 0, kMaxWidth) : std::vector<int>(static_cast<size_t>(config_.layers));
    config_.feed_forward.assign(widths.begin(), widths.end());
    if (!ok()) return;
    for (int i = 0; i < config_.layers; ++i) {
        const int heads = config_.heads[static_cast<size_t>(i)];
        const int kv_heads = config_.kv_heads[static_cast<size_t>(i)];
        if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
            return refuse(fmt::format("layer {}: {} heads cannot share {} KV heads evenly ({}, {})", i, heads, kv_heads, key("attention.head_count"),
                                      key("attention.head_count_kv")));
    }
    const int first_heads = config_.heads[0];
    if (!has("attention.key_length") && config_.embedding % first_heads != 0)
        return refuse(fmt::format("{} = {} does not divide into {} heads, and there is no {}", key("embedding_length"), config_.embedding,
                                  first_heads, key("attention.key_length")));
    const int64_t width = std::clamp<int64_t>(config_.embedding / first_heads, 1, kMaxHeadWidth);
    config_.k_width = static_cast<int>(integer_or("attention.key_length", width, 1, kMaxHeadWidth));
    config_.v_width = static_cast<int>(integer_or("attention.value_length", width, 1, kMaxHeadWidth));
    config_.eps = has("attention.layer_norm_rms_epsilon") ? number_or("attention.layer_norm_rms_epsilon", config_.eps) : config_.eps;
    if (!(config_.eps >= 0.0F)) refuse(fmt::format("{} is {}, but must not be negative", key("attention.layer_norm_rms_epsilon"), config_.eps));
    config_.experts = static_cast<int>(integer_or("expert_count", 0, 0, kMaxExperts));
    config_.experts_used = static_cast<int>(integer_or("expert_used_count", 0, 0, kMaxExperts));
    if (config_.experts_used > config_.experts)
        return refuse(
            fmt::format("{} = {} is more than {} = {}", key("expert_used_count"), config_.experts_used, key("expert_count"), config_.experts));
    if (config_.experts > 0 && config_.experts_used == 0)
        return refuse(fmt::format("{} experts, but {} is 0 or missing", config_.experts, key("expert_used_count")));
    const gguf::TensorInfo* table = file_.tensor("token_embd.weight");
    if (table == nullptr) return refuse("tensor 'token_embd.weight' is missing");
    if (table->n_dims != 2 || table->dims[1] > INT32_MAX)
        return refuse(fmt::format("tensor 'token_embd.weight' must have 2 dimensions, embedding and vocabulary, but has {}", table->n_dims));
    config_.vocabulary = table->dims[1];
}

std::string Loader::layer(int i, std::string_view what) {
    return fmt::format("blk.{}.{}", i, what);
}

const gguf::TensorInfo* Loader::find(const std::string& name, std::initializer_list<int64_t> dims, Need need) {
    if (!ok()) return nullptr;
    const gguf::TensorInfo* tensor = file_.tensor(name);
    if (tensor == nullptr) {
        if (need == Need::Required) refuse(fmt::format("tensor '{}' is missing; a {} file must have it", name, config_.architecture));
        return nullptr;
    }
    std::array<int64_t, 4> want{1, 1, 1, 1};
    std::copy(dims.begin(), dims.end(), want.begin());
    if (tensor->dims != want) {
        const auto first = tensor->dims.begin();
        refuse(fmt::format("tensor '{}' has shape [{}], but the keys of the file ask for [{}]", name, fmt::join(first, first + tensor->n_dims, ", "),
                           fmt::join(dims, ", ")));
        return nullptr;
    }
    return tensor;
}

ops::WeightMatrix Loader::matrix(const std::string& name, int64_t rows, int64_t cols, Need need) {
    const gguf::TensorInfo* tensor = find(name, {cols, rows}, need);
    if (tensor == nullptr) return {};
    const ops::WeightMatrix w{tensor->type, rows, cols, tensor->data, false, exact_activations_};
    return packer_ != nullptr ? packer_->pack(w, 1) : w;
}

Linear Loader::linear(const std::string& base, int64_t rows, int64_t cols, Need need) {
    Linear out;
    out.w = matrix(base + ".weight", rows, cols, need);
    if (out.present()) out.bias = vector(base + ".bias", {rows}, Need::Optional);
    return out;
}

ExpertLinear Loader::experts(const std::string& base, int64_t rows, int64_t cols, int64_t count, Need need) {
    const gguf::TensorInfo* tensor = find(base + ".weight", {cols, rows, count}, need);
    if (tensor == nullptr) return {};
    const ops::WeightMatrix w{tensor->type, rows, cols, tensor->data, false, exact_activations_};
    return {packer_ != nullptr ? packer_->pack(w, count) : w, count};
}

const float* Loader::vector(const std::string& name, std::initializer_list<int64_t> dims, Need need) {
    const gguf::TensorInfo* tensor = find(name, dims, need);
    if (tensor == nullptr) return nullptr;
    const int64_t n = tensor->dims[0] * tensor->dims[1];
    std::vector<float>& floats = owned_.emplace_back(static_cast<size_t>(n));
    const size_t stored = row_bytes(tensor->type, tensor->dims[0]);
    for (int64_t i = 0; i < tensor->dims[1]; ++i)
        decode_row(tensor->type, tensor->data + static_cast<size_t>(i) * stored, tensor->dims[0], floats.data() + i * tensor->dims[0]);
    return floats.data();
}

NormWeights Loader::norm(const std::string& base, int64_t width, Need need) {
    NormWeights out;
    out.weight = vector(base + ".weight", {width}, need);
    out.eps = config_.eps;
    out.rms = config_.rms;
    if (out.present() && !out.rms) out.bias = vector(base + ".bias", {width}, Need::Optional);
    return out;
}

}  // namespace cellar::model
