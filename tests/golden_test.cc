// Logits of every architecture against those of an independent engine, on tiny models made from recipes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "engine/engine.h"
#include "support/golden_recipe.h"

namespace cellar {
namespace {

// Recipes of the architectures that this build supports; the folder holds more.
std::vector<std::string> supported_recipes() {
    const std::vector<std::string_view> architectures = model::supported_architectures();
    std::vector<std::string> out;
    for (const std::string& name : golden::names()) {
        const auto recipe = golden::read_named(name);
        if (recipe && std::find(architectures.begin(), architectures.end(), recipe->architecture) != architectures.end()) out.push_back(name);
    }
    return out;
}

class Scratch {
  public:
    explicit Scratch(const std::string& name) : path_(std::string(CELLAR_BINARY_DIR) + "/golden-" + name + ".gguf") {}
    ~Scratch() { std::filesystem::remove(path_); }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

int32_t best(std::span<const float> logits) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void compare(const std::string& name, bool reference_kernels) {
    auto recipe = golden::read_named(name);
    ASSERT_TRUE(recipe) << recipe.error().message;
    auto expected = golden::read_logits(*recipe);
    ASSERT_TRUE(expected) << expected.error().message;
    const Scratch file(name + (reference_kernels ? "-reference" : ""));
    ASSERT_TRUE(golden::write_gguf(*recipe, file.path()));
    auto model = model::Model::open(file.path());
    ASSERT_TRUE(model) << model.error().message;
    EngineOptions options;
    options.threads = 2;
    options.formats = {kv::RowFormat::F32, kv::RowFormat::F32};
    options.max_outputs = 64;
    options.poison = true;
    options.reference_kernels = reference_kernels;
    options.context = static_cast<int64_t>(recipe->tokens.size() + recipe->greedy_continuation.size());
    auto engine = Engine::make(*model, options);
    ASSERT_TRUE(engine) << engine.error().message;
    auto seq = (*engine)->cache().open();
    ASSERT_TRUE(seq);

    std::vector<float> got;
    const auto done = (*engine)->append_all_logits(*seq, recipe->tokens,
                                                   [&](ops::Mat rows) { got.insert(got.end(), rows.data, rows.data + rows.rows * rows.cols); });
    ASSERT_TRUE(done) << done.error().message;
    ASSERT_EQ(got.size(), recipe->tokens.size() * static_cast<size_t>(recipe->n_vocab));
    const double tolerance = std::max(20.0 * recipe->reference_batch_vs_step_max_abs, 2e-4 * recipe->max_abs_logit);
    const size_t skip = got.size() - expected->size();
    double worst = 0.0;
    for (size_t i = 0; i < expected->size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(got[skip + i]) - static_cast<double>((*expected)[i])));
    EXPECT_LE(worst, tolerance);
    std::printf("  %-20s worst %.2e of %.2e allowed\n", name.c_str(), worst, tolerance);

    std::vector<float> logits(got.end() - recipe->n_vocab, got.end());
    for (size_t i = 0; i < recipe->greedy_continuation.size(); ++i) {
        const int32_t want = recipe->greedy_continuation[i];
        if (best(logits) != want) {
            EXPECT_LE(logits[static_cast<size_t>(best(logits))] - logits[static_cast<size_t>(want)], tolerance)
                << "step " << i << ": " << best(logits) << " instead of " << want;
            std::printf("  %-20s step %zu: %d and %d are closer than the tolerance\n", name.c_str(), i, best(logits), want);
        }
        auto next = (*engine)->append(*seq, {&want, 1});
        ASSERT_TRUE(next) << next.error().message;
        logits.assign(next->begin(), next->end());
    }
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, LogitsAndGreedyTokensAreThoseOfTheReference) {
    compare(GetParam(), false);
}
TEST_P(Golden, SlowKernelsAgree) {
    compare(GetParam(), true);
}

INSTANTIATE_TEST_SUITE_P(Recipes, Golden, testing::ValuesIn(supported_recipes()), [](const auto& info) {
    std::string out = info.param;
    std::replace_if(
        out.begin(), out.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
    return out;
});

TEST(GoldenFolder, EveryArchitectureHasARecipe) {
    const std::vector<std::string> recipes = supported_recipes();
    for (const std::string_view architecture : model::supported_architectures())
        EXPECT_TRUE(std::any_of(recipes.begin(), recipes.end(), [&](const std::string& r) {
            return golden::read_named(r)->architecture == architecture;
        })) << architecture;
}

}  // namespace
}  // namespace cellar
