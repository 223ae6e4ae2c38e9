#include "support/tiny_model.h"

#include <unistd.h>

#include <filesystem>
#include <map>

#include "base/check.h"
#include "support/golden_recipe.h"

namespace cellar::tiny {

std::shared_ptr<const model::Model> model(const std::string& recipe) {
    static std::map<std::string, std::shared_ptr<const model::Model>> made;
    auto& slot = made[recipe];
    if (slot == nullptr) {
        const auto parsed = golden::read_named(recipe);
        CHECK(parsed.has_value());
        const std::string path = fmt::format("{}/tiny-{}-{}.gguf", CELLAR_BINARY_DIR, recipe, getpid());
        CHECK(golden::write_gguf(*parsed, path).has_value());
        auto opened = model::Model::open(path);
        std::filesystem::remove(path);  // the map stays
        CHECK(opened.has_value());
        slot = *std::move(opened);
    }
    return slot;
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
