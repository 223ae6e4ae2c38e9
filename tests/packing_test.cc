// Packed weights give the same bits as weights in file layout.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "support/tiny_model.h"

namespace cellar {
namespace {

std::vector<float> logits_of(const std::string& path, bool pack, int threads, size_t chunk, bool exact = false) {
    model::LoadOptions load;
    load.pack = pack;
    load.threads = threads;
    load.exact_activations = exact;
    auto model = model::Model::open(path, load);
    EXPECT_TRUE(model) << model.error().message;
    if (!model) return {};
    EXPECT_EQ((*model)->packed(), pack);
    EngineOptions options = tiny::options();
    options.threads = threads;
    auto engine = tiny::engine(*model, options);
    return tiny::fresh_logits(*engine, tiny::tokens(**model, 70), chunk);
}

void expect_same(const std::string& path) {
    const std::vector<float> plain = logits_of(path, false, 1, 512);
    ASSERT_FALSE(plain.empty());
    for (const int threads : {1, 2}) {
        for (const size_t chunk : {1, 33, 512}) {
            const std::vector<float> packed = logits_of(path, true, threads, chunk);
            ASSERT_EQ(packed.size(), plain.size());
            EXPECT_EQ(std::memcmp(packed.data(), plain.data(), plain.size() * sizeof(float)), 0) << threads << " threads, chunks of " << chunk;
        }
    }
}

TEST(Packing, TheShippedModel) {
    expect_same(tiny::shipped_path());
}

TEST(Packing, ExactActivations) {
    const std::string path = CELLAR_SOURCE_DIR "/../shared/golden/quantized/llama-256-BF16.gguf";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "the golden files of quantized models are not there: " << path;
    const std::vector<float> plain = logits_of(path, false, 1, 512, true);
    EXPECT_EQ(logits_of(path, true, 2, 33, true), plain);
    EXPECT_NE(logits_of(path, true, 1, 512, false), plain);
}

TEST(Packing, EveryFormat) {
    const std::string folder = CELLAR_SOURCE_DIR "/../shared/golden/quantized";
    if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "the golden files of quantized models are not there: " << folder;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".gguf") continue;
        SCOPED_TRACE(entry.path().filename());
        expect_same(entry.path());
    }
}

}  // namespace
}  // namespace cellar
