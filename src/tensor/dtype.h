#pragma once
// Element types of weights and of cache rows, and how many bytes their blocks take.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cellar {

// The numbers are those of GGUF files.
enum class DType : uint32_t {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    IQ4_NL = 20,
    IQ4_XS = 23,
    BF16 = 30,
    MXFP4 = 39,
};

struct DTypeInfo {
    DType type;
    std::string_view name;  // as GGUF tools spell it: "Q4_K"
    int block;              // elements that share a scale; 1 for plain types
    int block_bytes;        // bytes of one block
};

// nullptr for a number that is no known type.
const DTypeInfo* find_dtype(uint32_t number);
const DTypeInfo& info(DType type);
inline std::string_view name(DType type) {
    return info(type).name;
}

// All types, in the order of their numbers.
struct DTypeList {
    const DTypeInfo* first;
    const DTypeInfo* last;
    const DTypeInfo* begin() const { return first; }
    const DTypeInfo* end() const { return last; }
};
DTypeList all_dtypes();

// Bytes of a row of n elements. Requires: n is a multiple of the type's block.
size_t row_bytes(DType type, int64_t n);

}  // namespace cellar
