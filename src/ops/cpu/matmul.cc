#include "ops/cpu/matmul.h"

#include "base/check.h"
#include "base/thread_team.h"
#include "ops/cpu/matmul_parts.h"
#include "tensor/row_codec.h"

namespace cellar::ops::cpu_impl {

void matmul(const MatmulArgs& args, ThreadTeam& team) {
    CHECK_EQ(args.y.cols, args.w.rows);
    if (args.count == 0 || args.w.rows == 0) return;
    switch (args.w.form()) {
        case ActivationForm::F32:
        case ActivationForm::BF16:
            return plain_matmul(args, team);
        case ActivationForm::Q8:
        case ActivationForm::Q8_256:
            return quantized_matmul(args, team);
    }
}

void embed(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team) {
    CHECK_EQ(y.cols, table.cols);
    const size_t bytes = row_bytes(table.type, table.cols);
    team.run(count, [&](int64_t i, int) { decode_row(table.type, table.data + static_cast<size_t>(ids[i]) * bytes, table.cols, y.row(i)); });
}

}  // namespace cellar::ops::cpu_impl
