#include "ops/reference_matmul.h"

#include <vector>

#include "base/check.h"
#include "base/thread_team.h"
#include "ops/activation_form.h"
#include "tensor/row_codec.h"

namespace cellar::ops::reference_impl {

size_t activation_row_bytes(ActivationForm form, int64_t n) {
    return form_row_bytes(form, n);
}

void prepare_activations(ActivationForm form, Mat x, std::byte* out, ThreadTeam& team) {
    const size_t bytes = form_row_bytes(form, x.cols);
    team.run(x.rows, [&](int64_t i, int) { encode_activations(form, x.row(i), x.cols, out + static_cast<size_t>(i) * bytes); });
}

void matmul(const MatmulArgs& args, ThreadTeam& team) {
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

void embed(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team) {
    CHECK_EQ(y.cols, table.cols);
    const size_t bytes = row_bytes(table.type, table.cols);
    team.run(count, [&](int64_t i, int) { decode_row(table.type, table.data + static_cast<size_t>(ids[i]) * bytes, table.cols, y.row(i)); });
}

}  // namespace cellar::ops::reference_impl
