#include "support/tiny_model.h"

#include <unistd.h>

#include <filesystem>
#include <map>

#include "base/check.h"
#include "support/golden_recipe.h"

namespace cellar::tiny {
namespace {

std::shared_ptr<const model::Model> make(const golden::Recipe& recipe, const std::string& name) {
    const std::string path = fmt::format("{}/tiny-{}-{}.gguf", CELLAR_BINARY_DIR, name, getpid());
    CHECK(golden::write_gguf(recipe, path).has_value());
    auto opened = model::Model::open(path);
    std::filesystem::remove(path);  // the map stays
    if (!opened) cellar::check_failed(__FILE__, __LINE__, "Model::open", opened.error().message);
    return *std::move(opened);
}

void copy(const gguf::File& file, const gguf::Key& key, gguf::Writer& out) {
    if (key.type != gguf::ValueType::Array) return out.add_raw(key.name, key.type, {key.data, key.bytes});
    if (key.element == gguf::ValueType::F32) return out.add_array(key.name, *file.numbers(key.name));
    if (key.element == gguf::ValueType::String) {
        std::vector<std::string> texts;
        const gguf::StringArray strings = *file.strings(key.name);
        for (const std::string_view text : strings) texts.emplace_back(text);
        return out.add_strings(key.name, texts);
    }
    const std::vector<int64_t> wide = *file.integers(key.name);
    out.add_array(key.name, std::vector<int32_t>(wide.begin(), wide.end()));
}

}  // namespace

std::shared_ptr<const model::Model> model(const std::string& recipe) {
    static std::map<std::string, std::shared_ptr<const model::Model>> made;
    auto& slot = made[recipe];
    if (slot == nullptr) {
        const auto parsed = golden::read_named(recipe);
        CHECK(parsed.has_value());
        slot = make(*parsed, recipe);
    }
    return slot;
}

std::shared_ptr<const model::Model> windowed_chat() {
    auto recipe = golden::read_named("olmo2");
    CHECK(recipe.has_value());
    const std::vector<std::byte> bytes = *golden::make_gguf(*recipe);
    const gguf::File weights = *gguf::File::parse(bytes, "olmo2");
    const gguf::File words = *gguf::File::open(shipped_path());
    const auto vocabulary = static_cast<uint32_t>(words.strings("tokenizer.ggml.tokens")->size());
    const std::string size_key = "olmo2.vocab_size";
    recipe->metadata = gguf::Writer();
    recipe->metadata.add(size_key, vocabulary);
    for (const gguf::Key& key : weights.keys())
        if (key.name != size_key && !key.name.starts_with("tokenizer.")) copy(weights, key, recipe->metadata);
    for (const gguf::Key& key : words.keys())
        if (key.name.starts_with("tokenizer.")) copy(words, key, recipe->metadata);
    for (golden::TensorRecipe& tensor : recipe->tensors)
        if (tensor.name == "token_embd.weight" || tensor.name == "output.weight") tensor.dims[1] = vocabulary;
    return make(*recipe, "windowed-chat");
}

std::string shipped_path() {
    return CELLAR_SOURCE_DIR "/models/cellar-recall.gguf";
}

std::shared_ptr<const model::Model> shipped() {
    auto opened = model::Model::open(shipped_path());
    CHECK(opened.has_value());
    return *opened;
}

EngineOptions options(kv::RowFormat format) {
    EngineOptions out;
    out.threads = 2;
    out.formats = {format, format};
    out.poison = true;
    return out;
}

std::unique_ptr<Engine> engine(const std::shared_ptr<const model::Model>& model, const EngineOptions& options) {
    auto made = Engine::make(model, options);
    if (!made) cellar::check_failed(__FILE__, __LINE__, "Engine::make", made.error().message);
    return *std::move(made);
}

std::vector<int32_t> tokens(const model::Model& model, size_t count, uint64_t seed) {
    std::vector<int32_t> out(count);
    uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
    for (int32_t& id : out) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        id = static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(model.config().vocabulary));
    }
    return out;
}

std::vector<float> fresh_logits(Engine& engine, std::span<const int32_t> ids, size_t chunk) {
    const auto seq = engine.cache().open();
    CHECK(seq.has_value());
    std::vector<float> out;
    for (size_t at = 0; at < ids.size(); at += chunk) {
        const auto logits = engine.append(*seq, ids.subspan(at, std::min(chunk, ids.size() - at)));
        if (!logits) cellar::check_failed(__FILE__, __LINE__, "append", logits.error().message);
        out.assign(logits->begin(), logits->end());
    }
    engine.cache().close(*seq);
    return out;
}

}  // namespace cellar::tiny
