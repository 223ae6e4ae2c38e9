#include "ops/cpu/matmul.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/thread_team.h"
#include "ops/activation_form.h"
#include "ops/cpu/activate.h"
#include "ops/cpu/matmul_parts.h"
#include "ops/cpu/packed.h"
#include "tensor/row_codec.h"

namespace cellar::ops::cpu_impl {
namespace {

bool is_quantized(const WeightMatrix& w) {
    return w.form() == ActivationForm::Q8 || w.form() == ActivationForm::Q8_256;
}

// The same matrix from `row` on, `rows` rows of it.
WeightMatrix rows_of(WeightMatrix w, int64_t row, int64_t rows) {
    w.data += w.packed ? packed_row_at(w.type, row, w.cols) : row_bytes(w.type, w.cols) * static_cast<size_t>(row);
    w.rows = rows;
    return w;
}

// A product as pieces of work.
class Pieces {
  public:
    Pieces() = default;
    Pieces(const MatmulArgs& args, int members) : args_(&args), shape_{1, 1}, blocks_(1), count_(0) {
        CHECK_EQ(args.y.cols, args.w.rows);
        if (args.gated()) CHECK(can_gate(args.gate, args.w));
        if (args.count == 0 || args.w.rows == 0) return;
        shape_ = is_quantized(args.w) ? quantized_piece(args.w, args.count, members) : plain_piece(args.w, args.count, members);
        if (args.gated()) shape_.rows = gated_rows(shape_, std::min(shape_.tokens, args.count));
        blocks_ = (args.count + shape_.tokens - 1) / shape_.tokens;
        count_ = (args.w.rows + shape_.rows - 1) / shape_.rows * blocks_;
    }

    [[nodiscard]] int64_t count() const { return count_; }

    void run(int64_t i) const {
        const MatmulArgs piece = cut(i);
        if (!piece.gated()) return multiply(piece);
        CHECK_LE(piece.count * piece.w.rows, kGatedProducts);
        alignas(64) float product[kGatedProducts];
        MatmulArgs one = piece;
        one.y_rows = nullptr;
        one.y = {product, piece.count, piece.w.rows, piece.w.rows};
        multiply(one);
        one = piece;
        one.w = piece.gate;
        one.bias = piece.gate_bias;
        multiply(one);
        for (int64_t t = 0; t < piece.count; ++t) {
            float* y = piece.y.row(piece.y_rows != nullptr ? piece.y_rows[t] : t);
            activate_row(piece.activation, y, product + t * piece.w.rows, y, piece.w.rows);
        }
    }

  private:
    // What a piece with a gate has beside its results.
    static constexpr int64_t kGatedProducts = 8192;

    // As many rows as there is room for beside the results.
    static int64_t gated_rows(const PieceShape& shape, int64_t tokens) {
        const int64_t step = packed_lanes();
        const int64_t wanted = std::min(shape.rows, kGatedProducts / tokens);
        return std::max<int64_t>(step, wanted / step * step);
    }

    static void multiply(const MatmulArgs& piece) { is_quantized(piece.w) ? quantized_product(piece) : plain_product(piece); }

    [[nodiscard]] MatmulArgs cut(int64_t i) const {
        const int64_t row = i / blocks_ * shape_.rows;
        const int64_t token = i % blocks_ * shape_.tokens;
        const int64_t rows = std::min(shape_.rows, args_->w.rows - row);
        MatmulArgs piece = *args_;
        piece.count = std::min(shape_.tokens, args_->count - token);
        piece.w = rows_of(args_->w, row, rows);
        if (args_->gated()) piece.gate = rows_of(args_->gate, row, rows);
        if (args_->bias != nullptr) piece.bias += row;
        if (args_->gate_bias != nullptr) piece.gate_bias += row;
        if (args_->x_rows != nullptr) {
            piece.x_rows += token;
        } else {
            piece.x += static_cast<size_t>(token) * form_row_bytes(args_->w.form(), args_->w.cols);
        }
        if (args_->y_rows != nullptr) {
            piece.y_rows += token;
        } else {
            piece.y.data += token * args_->y.stride;
        }
        piece.y.data += row;
        piece.y.cols = rows;
        return piece;
    }

    const MatmulArgs* args_;
    PieceShape shape_;
    int64_t blocks_;
    int64_t count_;
};

// A decode step comes here some hundred times: what is not used is not set.
void multiply_some(std::span<const MatmulArgs> products, ThreadTeam& team) {
    std::array<Pieces, kJoinedProducts> pieces;
    std::array<int64_t, kJoinedProducts> ends;
    int64_t count = 0;
    for (size_t p = 0; p < products.size(); ++p) {
        pieces[p] = Pieces(products[p], team.size());
        count += pieces[p].count();
        ends[p] = count;
    }
    team.run(count, [&](int64_t i, int) {
        const auto p = static_cast<size_t>(std::upper_bound(ends.begin(), ends.begin() + products.size(), i) - ends.begin());
        pieces[p].run(i - ends[p] + pieces[p].count());
    });
}

}  // namespace

void matmul(std::span<const MatmulArgs> products, ThreadTeam& team) {
    for (; !products.empty(); products = products.subspan(std::min(products.size(), kJoinedProducts))) {
        multiply_some(products.first(std::min(products.size(), kJoinedProducts)), team);
    }
}

void embed(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team) {
    CHECK_EQ(y.cols, table.cols);
    const size_t bytes = row_bytes(table.type, table.cols);
    team.run(count, [&](int64_t i, int) { decode_row(table.type, table.data + static_cast<size_t>(ids[i]) * bytes, table.cols, y.row(i)); });
}

}  // namespace cellar::ops::cpu_impl
