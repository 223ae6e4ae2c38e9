#pragma once
// How packed F32, F16 and BF16 weights lie in memory: lanes are rows, as in packed_layout.h.
//
//   matrix  bundles of kBundle groups of `lanes` rows; the last has as many groups as there are rows for, filled up with rows of zeros
//   bundle  [steps][groups][lanes] of values, filled up to 64 bytes
//
// A step is one column; of BF16 it is two, lane by lane next to each other, because that is what products of bf16 take. Several groups
// lie together because the sum of a group is one chain of additions: with one row of activations, four of them wait side by side.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace cellar::ops::cpu_impl {

inline constexpr int kBundle = 4;        // groups
inline constexpr int kPlainTokens = 96;  // rows of activations that a piece of work takes

constexpr bool is_plain(DType type) {
    return type == DType::F32 || type == DType::F16 || type == DType::BF16;
}

struct PlainLayout {
    PlainLayout(DType type, int lanes, int64_t cols)
        : lanes(lanes), step(type == DType::BF16 ? 2 : 1), steps((cols + step - 1) / step), lane_bytes(type == DType::F16 ? 2 : 4) {}

    // Bytes of a bundle of `groups` groups.
    [[nodiscard]] size_t bundle_bytes(int groups) const {
        return (static_cast<size_t>(steps) * static_cast<size_t>(groups * lanes * lane_bytes) + 63) / 64 * 64;
    }
    // Groups of the bundle that starts at `row` of a matrix.
    [[nodiscard]] int groups(int64_t row, int64_t rows) const {
        return static_cast<int>(std::min<int64_t>(kBundle, (rows - row + lanes - 1) / lanes));
    }
    [[nodiscard]] int64_t bundle_rows() const { return int64_t{kBundle} * lanes; }
    // Where the bundle that starts at `row` lies.
    [[nodiscard]] size_t bundle_at(int64_t row) const { return static_cast<size_t>(row / bundle_rows()) * bundle_bytes(kBundle); }
    [[nodiscard]] size_t matrix_bytes(int64_t rows) const {
        const int64_t rest = rows % bundle_rows();
        return bundle_at(rows) + (rest == 0 ? 0 : bundle_bytes(groups(0, rest)));
    }

    int lanes;
    int step;       // columns
    int64_t steps;  // of a row
    int lane_bytes;
};

}  // namespace cellar::ops::cpu_impl
