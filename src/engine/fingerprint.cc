#include "engine/fingerprint.h"

#include <xxhash.h>

#include <algorithm>

#include <fmt/format.h>

#include "engine/engine.h"

namespace cellar {
namespace {

// A few bytes of every tensor: another model, or other weights of the same one, hash differently. A model that was edited in a few rows may not;
// all of its bytes would take longer than starting does.
uint64_t weight_hash(const gguf::File& file) {
    constexpr size_t kSamples = 16;
    constexpr size_t kSample = 64;
    uint64_t hash = 0;
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        hash = XXH3_64bits_withSeed(tensor.name.data(), tensor.name.size(), hash);
        const auto type = static_cast<uint64_t>(tensor.type);
        hash = XXH3_64bits_withSeed(&type, sizeof type, hash);
        hash = XXH3_64bits_withSeed(tensor.dims.data(), sizeof tensor.dims, hash);
        for (size_t i = 0; i < kSamples; ++i) {
            const size_t at = tensor.bytes <= kSample ? 0 : (tensor.bytes - kSample) / (kSamples - 1) * i;
            hash = XXH3_64bits_withSeed(tensor.data + at, std::min(kSample, tensor.bytes), hash);
        }
    }
    return hash;
}

}  // namespace

Fingerprint fingerprint(const Engine& engine) {
    const model::Model& model = engine.model();
    const model::Config& c = model.config();
    Fingerprint out;
    out["architecture"] = c.architecture;
    out["layers"] = fmt::to_string(c.layers);
    out["embedding"] = fmt::to_string(c.embedding);
    out["vocabulary"] = fmt::to_string(c.vocabulary);
    uint64_t keys = 0;
    for (const gguf::Key& key : model.file().keys()) {
        if (!key.name.starts_with(c.architecture + ".") || key.name.ends_with(".context_length")) continue;
        keys = XXH3_64bits_withSeed(key.name.data(), key.name.size(), keys);
        keys = XXH3_64bits_withSeed(key.data, key.bytes, keys);
    }
    out["keys"] = fmt::format("{:016x}", keys);
    out["weights"] = fmt::format("{:016x}", weight_hash(model.file()));
    for (size_t i = 0; i < engine.ropes().size(); ++i) {
        const model::Rope& rope = engine.ropes()[i];
        const uint64_t hash = XXH3_64bits(rope.frequency.data(), rope.frequency.size() * sizeof(double));
        out[fmt::format("rope.{}", i)] = fmt::format("{:016x} {:a}", hash, rope.magnitude);
    }
    const kv::CacheSpec& spec = engine.cache().spec();
    for (size_t g = 0; g < spec.groups.size(); ++g) {
        const kv::GroupSpec& group = spec.groups[g];
        std::string rows =
            fmt::format("keeps {} {} {}, {} layers", static_cast<int>(group.keep.kind), group.keep.size, group.keep.sinks, group.planes);
        for (const kv::RowSpec& row : group.rows) {
            rows += fmt::format(", {} {}x{}", row.name, row.heads, row.width);
            out[fmt::format("format.{}.{}", g, row.name)] = std::string(kv::name(row.format));
        }
        out[fmt::format("rows.{}", g)] = rows;
    }
    out["numbers"] = engine.options().reference_kernels ? "reference" : engine.model().numeric_path();
    return out;
}

bool decides_use(const std::string& name) {
    return !name.starts_with("format.") && name != "numbers";
}

}  // namespace cellar
