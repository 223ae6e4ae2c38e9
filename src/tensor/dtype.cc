#include "tensor/dtype.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace cellar {
namespace {

constexpr std::array<DTypeInfo, 16> kTypes{{
    {DType::F32, "F32", 1, 4},
    {DType::F16, "F16", 1, 2},
    {DType::Q4_0, "Q4_0", 32, 18},
    {DType::Q4_1, "Q4_1", 32, 20},
    {DType::Q5_0, "Q5_0", 32, 22},
    {DType::Q5_1, "Q5_1", 32, 24},
    {DType::Q8_0, "Q8_0", 32, 34},
    {DType::Q2_K, "Q2_K", 256, 84},
    {DType::Q3_K, "Q3_K", 256, 110},
    {DType::Q4_K, "Q4_K", 256, 144},
    {DType::Q5_K, "Q5_K", 256, 176},
    {DType::Q6_K, "Q6_K", 256, 210},
    {DType::IQ4_NL, "IQ4_NL", 32, 18},
    {DType::IQ4_XS, "IQ4_XS", 256, 136},
    {DType::BF16, "BF16", 1, 2},
    {DType::MXFP4, "MXFP4", 32, 17},
}};

}  // namespace

const DTypeInfo* find_dtype(uint32_t number) {
    const auto* found = std::find_if(kTypes.begin(), kTypes.end(), [&](const DTypeInfo& t) { return static_cast<uint32_t>(t.type) == number; });
    return found == kTypes.end() ? nullptr : found;
}

const DTypeInfo& info(DType type) {
    const DTypeInfo* found = find_dtype(static_cast<uint32_t>(type));
    CHECK(found != nullptr);
    return *found;
}

DTypeList all_dtypes() {
    return {kTypes.data(), kTypes.data() + kTypes.size()};
}

size_t row_bytes(DType type, int64_t n) {
    const DTypeInfo& t = info(type);
    CHECK_EQ(n % t.block, 0);
    return static_cast<size_t>(n / t.block) * static_cast<size_t>(t.block_bytes);
}

}  // namespace cellar
