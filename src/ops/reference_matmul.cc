#include "ops/reference_matmul.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/thread_team.h"
#include "ops/activation_form.h"
#include "ops/reference_rows.h"
#include "tensor/row_codec.h"

namespace cellar::ops::reference_impl {

size_t activation_row_bytes(ActivationForm form, int64_t n) {
    return form_row_bytes(form, n);
}

void prepare_activations(ActivationForm form, Mat x, std::byte* out, ThreadTeam& team) {
    const size_t bytes = form_row_bytes(form, x.cols);
    team.run(x.rows, [&](int64_t i, int) { encode_activations(form, x.row(i), x.cols, out + static_cast<size_t>(i) * bytes); });
}

namespace {

void multiply(const MatmulArgs& args, ThreadTeam& team) {
    const WeightMatrix& w = args.w;
    CHECK_EQ(args.y.cols, w.rows);
    const ActivationForm form = w.form();
    const auto cols = static_cast<size_t>(w.cols);
    const size_t x_bytes = form_row_bytes(form, w.cols);
    std::vector<float> x(static_cast<size_t>(args.count) * cols);
    for (int64_t i = 0; i < args.count; ++i) {
        const int64_t row = args.x_rows != nullptr ? args.x_rows[i] : i;
        decode_activations(form, args.x + static_cast<size_t>(row) * x_bytes, w.cols, x.data() + static_cast<size_t>(i) * cols);
    }
    team.run(w.rows, [&](int64_t r, int) {
        std::vector<float> weights(cols);
        decode_row(w.type, w.data + static_cast<size_t>(r) * row_bytes(w.type, w.cols), w.cols, weights.data());
        for (int64_t i = 0; i < args.count; ++i) {
            double sum = 0;
            for (size_t k = 0; k < cols; ++k) sum += static_cast<double>(weights[k]) * x[static_cast<size_t>(i) * cols + k];
            if (args.bias != nullptr) sum += args.bias[r];
            args.y.row(args.y_rows != nullptr ? args.y_rows[i] : i)[r] = static_cast<float>(sum);
        }
    });
}

void multiply_gated(const MatmulArgs& args, ThreadTeam& team) {
    CHECK(can_gate(args.gate, args.w));
    std::vector<float> product(static_cast<size_t>(args.count * args.w.rows));
    std::vector<float> gate(product.size());
    const auto compute = [&](const WeightMatrix& w, const float* bias, std::vector<float>& out) {
        MatmulArgs one = args;
        one.w = w;
        one.bias = bias;
        one.y_rows = nullptr;
        one.y = {out.data(), args.count, w.rows, w.rows};
        multiply(one, team);
    };
    compute(args.w, args.bias, product);
    compute(args.gate, args.gate_bias, gate);
    const Mat g{gate.data(), args.count, args.w.rows, args.w.rows};
    activate_mul(args.activation, g, {product.data(), args.count, args.w.rows, args.w.rows}, {gate.data(), args.count, args.w.rows, args.w.rows},
                 team);
    for (int64_t i = 0; i < args.count; ++i) std::copy_n(g.row(i), g.cols, args.y.row(args.y_rows != nullptr ? args.y_rows[i] : i));
}

}  // namespace

void matmul(std::span<const MatmulArgs> products, ThreadTeam& team) {
    for (const MatmulArgs& args : products) args.gated() ? multiply_gated(args, team) : multiply(args, team);
}

void embed(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team) {
    CHECK_EQ(y.cols, table.cols);
    const size_t bytes = row_bytes(table.type, table.cols);
    team.run(count, [&](int64_t i, int) { decode_row(table.type, table.data + static_cast<size_t>(ids[i]) * bytes, table.cols, y.row(i)); });
}

}  // namespace cellar::ops::reference_impl
