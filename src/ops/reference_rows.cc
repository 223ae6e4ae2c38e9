#include "ops/reference_rows.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "ops/route.h"
#include "ops/row_store.h"

namespace cellar::ops::reference_impl {
namespace {

// y[r, c] = f(r, c)
template <class F>
void fill(MatOut y, F&& f) {
    for (int64_t r = 0; r < y.rows; ++r) {
        for (int64_t c = 0; c < y.cols; ++c) y.row(r)[c] = static_cast<float>(f(r, c));
    }
}

void check_same_shape(Mat a, Mat y) {
    CHECK_EQ(a.rows, y.rows);
    CHECK_EQ(a.cols, y.cols);
}

double activation(Activation kind, double x) {
    switch (kind) {
        case Activation::Silu:
            return x / (1.0 + std::exp(-x));
        case Activation::Gelu:
            // 0.5 (1 + tanh u) = 1 / (1 + e^(-2 u)), without the cancellation.
            return x / (1.0 + std::exp(-1.5957691216057307118 * (x + 0.044715 * x * x * x)));
        case Activation::GeluErf:
            return 0.5 * x * std::erfc(-x * 0.70710678118654752440);
        case Activation::Relu:
            return x < 0.0 ? 0.0 : x;
        case Activation::ReluSquared:
            return x < 0.0 ? 0.0 : x * x;
        case Activation::Sigmoid:
            return 1.0 / (1.0 + std::exp(-x));
        case Activation::Tanh:
            return std::tanh(x);
    }
    return 0.0;
}

}  // namespace

void rms_norm(Mat x, const float* weight, float eps, MatOut y, ThreadTeam& /*team*/) {
    check_same_shape(x, y);
    for (int64_t r = 0; r < x.rows; ++r) {
        double squares = 0.0;
        for (int64_t c = 0; c < x.cols; ++c) squares += static_cast<double>(x.row(r)[c]) * x.row(r)[c];
        const double factor = 1.0 / std::sqrt(squares / static_cast<double>(x.cols) + eps);
        for (int64_t c = 0; c < x.cols; ++c) {
            y.row(r)[c] = static_cast<float>(x.row(r)[c] * factor * (weight == nullptr ? 1.0 : weight[c]));
        }
    }
}

void layer_norm(Mat x, const float* weight, const float* bias, float eps, MatOut y, ThreadTeam& /*team*/) {
    check_same_shape(x, y);
    const auto n = static_cast<double>(x.cols);
    for (int64_t r = 0; r < x.rows; ++r) {
        double sum = 0.0;
        for (int64_t c = 0; c < x.cols; ++c) sum += x.row(r)[c];
        const double mean = sum / n;
        double squares = 0.0;
        for (int64_t c = 0; c < x.cols; ++c) squares += (x.row(r)[c] - mean) * (x.row(r)[c] - mean);
        const double factor = 1.0 / std::sqrt(squares / n + eps);
        for (int64_t c = 0; c < x.cols; ++c) {
            const double normal = (x.row(r)[c] - mean) * factor * (weight == nullptr ? 1.0 : weight[c]);
            y.row(r)[c] = static_cast<float>(normal + (bias == nullptr ? 0.0 : bias[c]));
        }
    }
}

void rope_table(const RopeSpec& rope, const int32_t* pos, int64_t rows, float* table) {
    for (int64_t r = 0; r < rows; ++r) {
        for (int i = 0; i < rope.dims / 2; ++i) {
            const double angle = pos[r] * rope.frequency[i];
            table[r * rope.dims + 2 * i] = static_cast<float>(std::cos(angle) * rope.magnitude);
            table[r * rope.dims + 2 * i + 1] = static_cast<float>(std::sin(angle) * rope.magnitude);
        }
    }
}

void rope(MatOut x, int heads, int width, int dims, RopePairing pairing, const float* table, ThreadTeam& /*team*/) {
    CHECK_LE(dims, width);
    for (int64_t r = 0; r < x.rows; ++r) {
        for (int h = 0; h < heads; ++h) {
            float* head = x.row(r) + static_cast<int64_t>(h) * width;
            for (int i = 0; i < dims / 2; ++i) {
                float& a = pairing == RopePairing::Neighbours ? head[2 * i] : head[i];
                float& b = pairing == RopePairing::Neighbours ? head[2 * i + 1] : head[i + dims / 2];
                const double cos = table[r * dims + 2 * i];
                const double sin = table[r * dims + 2 * i + 1];
                const double turned_a = a * cos - b * sin;
                const double turned_b = a * sin + b * cos;
                a = static_cast<float>(turned_a);
                b = static_cast<float>(turned_b);
            }
        }
    }
}

void add(Mat a, Mat b, MatOut y, ThreadTeam& /*team*/) {
    check_same_shape(a, y);
    check_same_shape(b, y);
    fill(y, [&](int64_t r, int64_t c) { return a.row(r)[c] + b.row(r)[c]; });
}

void scale(Mat a, float factor, MatOut y, ThreadTeam& /*team*/) {
    check_same_shape(a, y);
    fill(y, [&](int64_t r, int64_t c) { return a.row(r)[c] * factor; });
}

void activate(Activation kind, Mat a, MatOut y, ThreadTeam& /*team*/) {
    check_same_shape(a, y);
    fill(y, [&](int64_t r, int64_t c) { return activation(kind, a.row(r)[c]); });
}

void activate_mul(Activation kind, Mat gate, Mat up, MatOut y, ThreadTeam& /*team*/) {
    check_same_shape(gate, y);
    check_same_shape(up, y);
    fill(y, [&](int64_t r, int64_t c) { return activation(kind, gate.row(r)[c]) * up.row(r)[c]; });
}

void soft_cap(Mat a, float cap, MatOut y, ThreadTeam& /*team*/) {
    check_same_shape(a, y);
    fill(y, [&](int64_t r, int64_t c) { return cap * std::tanh(static_cast<double>(a.row(r)[c]) / cap); });
}

void gather_rows(Mat x, const int32_t* rows, int64_t count, MatOut y, ThreadTeam& /*team*/) {
    CHECK_EQ(x.cols, y.cols);
    for (int64_t i = 0; i < count; ++i) std::copy_n(x.row(rows[i]), x.cols, y.row(i));
}

void route(const RouteSpec& spec, Mat logits, int32_t* ids, float* weights, ThreadTeam& /*team*/) {
    CHECK_EQ(logits.cols, spec.experts);
    for (int64_t r = 0; r < logits.rows; ++r) route_row(spec, logits.row(r), ids + r * spec.used, weights + r * spec.used);
}

void combine_experts(Mat x, const float* weights, int used, MatOut y, ThreadTeam& /*team*/) {
    CHECK_EQ(x.rows, y.rows * used);
    CHECK_EQ(x.cols, y.cols);
    fill(y, [&](int64_t r, int64_t c) {
        double sum = 0.0;
        for (int64_t j = r * used; j < (r + 1) * used; ++j) sum += static_cast<double>(weights[j]) * x.row(j)[c];
        return sum;
    });
}

void store_rows(Mat x, const kv::RowTable& table, int plane, const int32_t* cells, ThreadTeam& /*team*/) {
    CHECK_EQ(x.cols, static_cast<int64_t>(table.heads) * table.width);
    for (int64_t t = 0; t < x.rows; ++t) {
        for (int h = 0; h < table.heads; ++h) {
            encode_head_row(table.format, x.row(t) + static_cast<int64_t>(h) * table.width, table.width, table.at(plane, h, cells[t]),
                            table.row_bytes);
        }
    }
}

}  // namespace cellar::ops::reference_impl
