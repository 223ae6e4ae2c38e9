#include <gtest/gtest.h>

#include "model/gguf.h"
#include "support/golden_recipe.h"

namespace cellar::golden {
namespace {

TEST(GoldenRecipe, MakesTheDocumentedValues) {
    TensorRecipe tensor;
    tensor.name = "blk.0.attn_q.weight";
    tensor.dims = {128, 128};
    tensor.sd = 0.106066;
    const std::vector<float> values = make_values(tensor, 11);
    ASSERT_EQ(values.size(), 128U * 128U);
    EXPECT_EQ(values[0], -0.044189453125F);
    EXPECT_EQ(values[1], -0.0791015625F);
    EXPECT_EQ(values[2], 0.028076171875F);
    EXPECT_EQ(values[3], 0.1298828125F);

    tensor.negative = true;
    const std::vector<float> negative = make_values(tensor, 11);
    for (const float value : negative) ASSERT_LT(value, -0.0099F);
}

TEST(GoldenRecipe, EveryRecipeBecomesAFileThatTheReaderTakes) {
    ASSERT_FALSE(names().empty());
    for (const std::string& name : names()) {
        SCOPED_TRACE(name);
        const auto recipe = read_named(name);
        ASSERT_TRUE(recipe) << recipe.error().message;
        const auto logits = read_logits(*recipe);
        ASSERT_TRUE(logits) << logits.error().message;
#ifdef CELLAR_REDUCED_TESTS
        if (name != "llama" && name != "gemma4" && name != "rwkv7") continue;
#endif
        const auto bytes = make_gguf(*recipe);
        ASSERT_TRUE(bytes) << bytes.error().message;
        const auto file = gguf::File::parse(*bytes, name);
        ASSERT_TRUE(file) << file.error().message;
        EXPECT_EQ(file->string("general.architecture").value(), recipe->architecture);
        ASSERT_EQ(file->tensors().size(), recipe->tensors.size());
        for (const TensorRecipe& wanted : recipe->tensors) {
            const gguf::TensorInfo* found = file->tensor(wanted.name);
            ASSERT_NE(found, nullptr) << wanted.name;
            EXPECT_EQ(found->type, wanted.type);
            ASSERT_EQ(static_cast<size_t>(found->n_dims), wanted.dims.size());
            EXPECT_TRUE(std::equal(wanted.dims.begin(), wanted.dims.end(), found->dims.begin()));
        }
    }
}

TEST(GoldenRecipe, NamesWhatIsWrong) {
    const auto missing = read_recipe("/nowhere/recipe.json");
    ASSERT_FALSE(missing);
    EXPECT_NE(missing.error().message.find("no such file"), std::string::npos);
}

}  // namespace
}  // namespace cellar::golden
