#pragma once
// What the tests of matrix products share.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "base/thread_team.h"
#include "ops/activation_form.h"
#include "ops/cpu/each_target.h"
#include "ops/cpu/packed.h"
#include "tensor/normal_values_test.h"
#include "tensor/row_codec.h"

namespace cellar::ops {

// A product with everything it needs: weights that start at an odd address, and prepared activations.
struct Product {
    Product(DType type, int64_t rows, int64_t cols, int64_t x_count, uint32_t seed, bool exact = false)
        : type(type), rows(rows), cols(cols), x_count(x_count), exact(exact) {
        const std::vector<float> values = normal_values(static_cast<size_t>(rows * cols), seed);
        const size_t bytes = row_bytes(type, cols);
        weights.resize(static_cast<size_t>(rows) * bytes + 1);
        for (int64_t r = 0; r < rows; ++r) encode_row(type, values.data() + r * cols, cols, weights.data() + 1 + static_cast<size_t>(r) * bytes);
        x = normal_values(static_cast<size_t>(x_count * cols), seed + 1);
        bias = normal_values(static_cast<size_t>(rows), seed + 2);
        const ActivationForm form = matrix().form();
        prepared.resize(static_cast<size_t>(x_count) * form_row_bytes(form, cols));
        for (int64_t i = 0; i < x_count; ++i) {
            encode_activations(form, x.data() + i * cols, cols, prepared.data() + static_cast<size_t>(i) * form_row_bytes(form, cols));
        }
    }

    [[nodiscard]] MatmulArgs args(std::vector<float>& y, int64_t count) const {
        MatmulArgs a;
        a.w = matrix();
        a.x = prepared.data();
        a.count = count;
        y.assign(static_cast<size_t>(count * rows), -7.0F);
        a.y = {y.data(), count, rows, rows};
        return a;
    }

    [[nodiscard]] WeightMatrix matrix() const { return {type, rows, cols, weights.data() + 1, false, exact}; }

    DType type;
    int64_t rows;
    int64_t cols;
    int64_t x_count;
    bool exact;  // BF16 weights meet activations that are not rounded
    std::vector<std::byte> weights;
    std::vector<std::byte> prepared;
    std::vector<float> x;
    std::vector<float> bias;
};

// A matrix as it is or packed for the current target.
struct PackedWeights {
    PackedWeights(const WeightMatrix& w, bool pack) : matrix(w) {
        if (!pack) return;
        ThreadTeam team(1);
        data.reset(static_cast<std::byte*>(std::aligned_alloc(64, cpu_impl::packed_bytes(w.type, w.rows, w.cols))));
        cpu_impl::pack_rows(w, 0, w.rows, data.get(), team);
        matrix.data = data.get();
        matrix.packed = true;
    }
    struct Free {
        void operator()(std::byte* p) const { std::free(p); }
    };
    std::unique_ptr<std::byte, Free> data;
    WeightMatrix matrix;
};

inline bool same_bits(const float* a, const float* b, int64_t n) {
    return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

inline double error_ratio(const std::vector<float>& a, const std::vector<float>& b) {
    double error = 0;
    double power = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        error += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
        power += static_cast<double>(b[i]) * b[i];
    }
    return power > 0 ? error / power : error;
}

// Columns worth testing: one block, several, a whole number of chunks and not.
inline std::vector<int64_t> widths(DType type) {
    const int block = info(type).block;
#ifdef CELLAR_REDUCED_TESTS
    if (block == 1) return {7, 80, 259};
    if (block == 32) return {96, 288};
    return {256, 512};
#else
    if (block == 1) return {1, 7, 16, 31, 80, 256, 515};
    if (block == 32) return {32, 96, 256, 288, 512, 800};
    return {256, 512, 768, 1280};
#endif
}

}  // namespace cellar::ops
