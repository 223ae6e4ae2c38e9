// Files of every weight format, made by another program from a recipe: what is decoded from them is close to the recipe's values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/gguf.h"
#include "support/golden_recipe.h"
#include "tensor/row_codec.h"

namespace cellar {
namespace {

const std::string kFolder = CELLAR_SOURCE_DIR "/../shared/golden/quantized/";

// Root of the mean squared error over the mean square of normal values. The bounds are a third above what the formats reach.
const std::map<DType, double> kBounds{{DType::F32, 1e-9},   {DType::F16, 3e-4},   {DType::BF16, 1e-9}, {DType::Q8_0, 0.007},
                                      {DType::Q6_K, 0.025}, {DType::Q5_0, 0.06},  {DType::Q5_1, 0.05}, {DType::Q5_K, 0.05},
                                      {DType::Q4_0, 0.12},  {DType::Q4_1, 0.1},   {DType::Q4_K, 0.1},  {DType::IQ4_NL, 0.1},
                                      {DType::IQ4_XS, 0.1}, {DType::MXFP4, 0.16}, {DType::Q3_K, 0.2},  {DType::Q2_K, 0.4}};

double relative_error(const gguf::TensorInfo& tensor, const std::vector<float>& expected) {
    std::vector<float> row(static_cast<size_t>(tensor.dims[0]));
    const size_t bytes = row_bytes(tensor.type, tensor.dims[0]);
    double error = 0;
    double power = 0;
    for (size_t r = 0; r < expected.size() / row.size(); ++r) {
        decode_row(tensor.type, tensor.data + r * bytes, tensor.dims[0], row.data());
        for (size_t i = 0; i < row.size(); ++i) {
            const double x = expected[r * row.size() + i];
            error += (row[i] - x) * (row[i] - x);
            power += x * x;
        }
    }
    return std::sqrt(error / power);
}

TEST(QuantizedFiles, decode_to_the_values_they_were_made_from) {
    if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "no folder of quantized files beside this checkout";
    const auto recipe = golden::read_recipe(kFolder + "llama-256.json");
    ASSERT_TRUE(recipe.has_value()) << recipe.error().message;
    std::map<std::string, std::vector<float>> values;
    for (const auto& tensor : recipe->tensors) values[tensor.name] = golden::make_values(tensor, recipe->weight_seed);
    std::set<DType> seen;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
        if (entry.path().extension() != ".gguf") continue;
        SCOPED_TRACE(entry.path().filename().string());
        const auto file = gguf::File::open(entry.path().string());
        ASSERT_TRUE(file.has_value()) << file.error().message;
        for (const gguf::TensorInfo& tensor : file->tensors()) {
            const auto expected = values.find(std::string(tensor.name));
            ASSERT_NE(expected, values.end()) << tensor.name;
            ASSERT_EQ(static_cast<size_t>(tensor.dims[0] * tensor.dims[1]), expected->second.size()) << tensor.name;
            const double error = relative_error(tensor, expected->second);
            EXPECT_LE(error, kBounds.at(tensor.type)) << tensor.name << " in " << name(tensor.type);
            seen.insert(tensor.type);
        }
    }
    EXPECT_EQ(seen.size(), kBounds.size()) << "some format is in none of the files";
}

}  // namespace
}  // namespace cellar
