// Logits of one llama in every weight format against those of an independent engine.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "engine/engine.h"
#include "support/golden_recipe.h"
#include "support/numbers.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

const std::string kFolder = CELLAR_SOURCE_DIR "/../shared/golden/quantized/";

struct Format {
    const char* name;
    double nmse;  // the recorded logits come from activations rounded to 8 bits, or to the type of the weights
};

class Quantized : public testing::TestWithParam<Format> {};

std::vector<float> read_floats(const std::string& path) {
    const auto text = read_file(path, size_t{1} << 26);
    std::vector<float> out(text ? text->size() / sizeof(float) : 0);
    if (text) std::memcpy(out.data(), text->data(), out.size() * sizeof(float));
    return out;
}

std::vector<int32_t> prompt() {
    return {83, 9,   64,  55, 112, 31,  23, 116, 109, 26, 96,  1,   85, 54, 126, 72,  32, 108, 3,   125, 81,  41,  108, 71,
            94, 76,  2,   36, 14,  81,  38, 26,  87,  36, 110, 79,  25, 50, 84,  71,  89, 115, 45,  66,  101, 120, 104, 94,
            25, 33,  121, 54, 61,  124, 85, 24,  27,  68, 103, 62,  40, 99, 37,  89,  38, 108, 105, 69,  70,  46,  24,  102,
            91, 120, 81,  71, 68,  102, 73, 95,  1,   20, 88,  111, 68, 60, 10,  122, 1,  63,  35,  96,  127, 71,  28,  7};
}

TEST_P(Quantized, LogitsAreCloseToTheRecordedOnes) {
    const std::string path = kFolder + "llama-256-" + GetParam().name;
    if (!std::filesystem::exists(path + ".gguf")) GTEST_SKIP() << "the golden files of quantized models are not there: " << kFolder;
    const std::vector<float> expected = read_floats(path + ".logits");
    ASSERT_EQ(expected.size(), prompt().size() * 128);
    auto model = model::Model::open(path + ".gguf");
    ASSERT_TRUE(model) << model.error().message;
    for (const bool reference : {false, true}) {
        EngineOptions options = tiny::options(kv::RowFormat::F32);
        options.max_outputs = 96;
        options.reference_kernels = reference;
        auto engine = tiny::engine(*model, options);
        std::vector<float> got;
        ASSERT_TRUE(engine->append_all_logits(*engine->cache().open(), prompt(),
                                              [&](ops::Mat rows) { got.insert(got.end(), rows.data, rows.data + rows.rows * rows.cols); }));
        const double found = nmse(got, expected);
        EXPECT_LE(found, GetParam().nmse) << (reference ? "reference" : "cpu");
        std::printf("  %-10s %-9s NMSE %.2e of %.0e allowed\n", GetParam().name, reference ? "reference" : "cpu", found, GetParam().nmse);
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, Quantized,
                         testing::Values(Format{"F16", 1e-6}, Format{"BF16", 4e-5}, Format{"Q8_0", 1e-3}, Format{"Q4_0", 1e-3}, Format{"Q4_1", 1e-3},
                                         Format{"Q5_0", 1e-3}, Format{"Q5_1", 1e-3}, Format{"Q2_K", 1e-3}, Format{"Q3_K_M", 1e-3},
                                         Format{"Q4_K_M", 1e-3}, Format{"Q5_K_M", 1e-3}, Format{"Q6_K", 1e-3}, Format{"IQ4_NL", 1e-3},
                                         Format{"IQ4_XS", 1e-3}, Format{"MXFP4_MOE", 1e-3}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cellar
