#include "support/golden_recipe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tensor/row_codec.h"

#ifndef CELLAR_SOURCE_DIR
#error "define CELLAR_SOURCE_DIR: the root of the sources"
#endif

namespace cellar::golden {
namespace {

using Json = nlohmann::json;

uint64_t name_hash(const std::string& name) {
    uint64_t hash = 1469598103934665603U;
    for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211U;
    return hash;
}

// The golden-ratio step of splitmix64.
constexpr uint64_t kStep = 0x9E3779B97F4A7C15U;

uint64_t scramble(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

float to_eight_bits(double x) {
    const auto rounded = static_cast<float>(x);
    uint32_t bits = 0;
    std::memcpy(&bits, &rounded, sizeof(bits));
    bits = (bits + 0x8000U) & 0xFFFF0000U;
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

template <class T>
void add_value(gguf::Writer& writer, const std::string& key, const Json& value, bool array) {
    if (array) {
        writer.add_array(key, value.get<std::vector<T>>());
    } else {
        writer.add(key, value.get<T>());
    }
}

Result<void> add_metadata(gguf::Writer& writer, const std::string& key, std::string type, const Json& value) {
    const bool array = type.starts_with("array:");
    if (array) type = type.substr(6);
    if (type == "u32") {
        add_value<uint32_t>(writer, key, value, array);
    } else if (type == "i32") {
        add_value<int32_t>(writer, key, value, array);
    } else if (type == "u64") {
        add_value<uint64_t>(writer, key, value, array);
    } else if (type == "f32") {
        add_value<float>(writer, key, value, array);
    } else if (type == "bool") {
        add_value<bool>(writer, key, value, array);
    } else if (type == "str" && array) {
        writer.add_strings(key, value.get<std::vector<std::string>>());
    } else if (type == "str") {
        writer.add(key, value.get<std::string>());
    } else {
        return fail("key '{}' has the unknown type '{}'", key, type);
    }
    return {};
}

Result<TensorRecipe> read_tensor(const Json& json) {
    TensorRecipe tensor;
    tensor.name = json.at("name").get<std::string>();
    const std::string type = json.value("type", "F32");
    if (type != "F32" && type != "F16") return fail("tensor '{}' has the type '{}', known are F32 and F16", tensor.name, type);
    tensor.type = type == "F16" ? DType::F16 : DType::F32;
    tensor.dims = json.at("shape").get<std::vector<int64_t>>();
    tensor.mean = json.at("mean").get<double>();
    tensor.sd = json.at("sd").get<double>();
    tensor.negative = json.value("negative", false);
    return tensor;
}

Result<Recipe> from_json(const Json& json, const std::string& path) {
    Recipe recipe;
    recipe.path = path;
    recipe.architecture = json.at("architecture").get<std::string>();
    recipe.weight_seed = json.at("weight_seed").get<uint64_t>();
    recipe.metadata.add("general.architecture", recipe.architecture);
    for (const Json& entry : json.at("metadata")) {
        CELLAR_TRY_VOID(add_metadata(recipe.metadata, entry.at(0).get<std::string>(), entry.at(1).get<std::string>(), entry.at(2)));
    }
    for (const Json& entry : json.at("tensors")) {
        CELLAR_TRY(TensorRecipe tensor, read_tensor(entry));
        recipe.tensors.push_back(std::move(tensor));
    }
    recipe.tokens = json.at("tokens").get<std::vector<int32_t>>();
    recipe.n_vocab = json.at("n_vocab").get<int>();
    recipe.logits_of_last = json.at("logits_of_last").get<int>();
    recipe.greedy_continuation = json.at("greedy_continuation").get<std::vector<int32_t>>();
    recipe.reference_batch_vs_step_max_abs = json.at("reference_batch_vs_step_max_abs").get<double>();
    recipe.max_abs_logit = json.at("max_abs_logit").get<double>();
    return recipe;
}

gguf::Writer with_tensors(const Recipe& recipe) {
    gguf::Writer writer = recipe.metadata;
    for (const TensorRecipe& tensor : recipe.tensors) {
        writer.add_tensor(tensor.name, tensor.type, tensor.dims, [&tensor, seed = recipe.weight_seed](const gguf::Writer::Sink& sink) {
            const std::vector<float> values = make_values(tensor, seed);
            if (tensor.type == DType::F32) return sink(std::as_bytes(std::span(values)));
            std::vector<std::byte> data(row_bytes(tensor.type, tensor.elements()));
            encode_row(tensor.type, values.data(), tensor.elements(), data.data());
            return sink(data);
        });
    }
    return writer;
}

}  // namespace

int64_t TensorRecipe::elements() const {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    return count;
}

std::vector<std::string> folders() {
    std::vector<std::string> out{CELLAR_SOURCE_DIR "/tests/data/golden"};
    const std::string shared = CELLAR_SOURCE_DIR "/../shared/golden";
    if (std::filesystem::is_directory(shared)) out.push_back(shared);
    return out;
}

std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const std::string& folder : folders()) {
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            if (entry.path().extension() == ".logits") found.push_back(entry.path().stem().string());
        }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

Result<Recipe> read_named(const std::string& name) {
    for (const std::string& folder : folders()) {
        const std::string path = folder + "/" + name + ".json";
        if (std::filesystem::exists(path)) return read_recipe(path);
    }
    return fail("there is no golden recipe '{}'", name);
}

Result<Recipe> read_recipe(const std::string& path) {
    constexpr size_t kMaxBytes = size_t{16} << 20;
    CELLAR_TRY(const std::string text, read_file(path, kMaxBytes));
    try {
        auto recipe = from_json(Json::parse(text), path);
        if (!recipe) return fail("{}: {}", path, recipe.error().message);
        return recipe;
    } catch (const Json::exception& error) {
        return fail("{}: {}", path, error.what());
    }
}

std::vector<float> make_values(const TensorRecipe& tensor, uint64_t weight_seed) {
    const uint64_t base = name_hash(tensor.name) ^ (weight_seed * kStep);
    const double unit = std::sqrt(3.0) / 65536;
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    uint64_t counter = base;
    for (float& value : values) {
        counter += kStep;
        const uint64_t z = scramble(counter);
        const auto sum = static_cast<int64_t>((z & 0xFFFF) + ((z >> 16) & 0xFFFF) + ((z >> 32) & 0xFFFF) + (z >> 48));
        double x = tensor.mean + tensor.sd * (static_cast<double>(sum - 131070) * unit);
        if (tensor.negative) x = -std::abs(x) - 0.01;
        value = to_eight_bits(x);
    }
    return values;
}

Result<std::vector<std::byte>> make_gguf(const Recipe& recipe) {
    return with_tensors(recipe).to_bytes();
}

Result<void> write_gguf(const Recipe& recipe, const std::string& path) {
    return with_tensors(recipe).write(path);
}

Result<std::vector<float>> read_logits(const Recipe& recipe) {
    const std::filesystem::path path = std::filesystem::path(recipe.path).replace_extension(".logits");
    CELLAR_TRY(const std::string bytes, read_file(path.string(), size_t{1} << 30));
    std::vector<float> logits(static_cast<size_t>(recipe.logits_of_last) * static_cast<size_t>(recipe.n_vocab));
    if (bytes.size() != logits.size() * sizeof(float)) {
        return fail("{}: has {} bytes, but {} x {} logits take {}", path.string(), bytes.size(), recipe.logits_of_last, recipe.n_vocab,
                    logits.size() * sizeof(float));
    }
    std::memcpy(logits.data(), bytes.data(), bytes.size());
    return logits;
}

}  // namespace cellar::golden
