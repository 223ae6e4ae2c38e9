#pragma once
// Operands of the kernels in ops.h.
#include <cstddef>
#include <cstdint>

#include "kv/view.h"
#include "tensor/dtype.h"

namespace cellar::ops {

// [rows, cols] of floats, rows `stride` floats apart.
struct Mat {
    const float* data = nullptr;
    int64_t rows = 0;
    int64_t cols = 0;
    int64_t stride = 0;
    [[nodiscard]] const float* row(int64_t i) const { return data + i * stride; }
};

struct MatOut {
    float* data = nullptr;
    int64_t rows = 0;
    int64_t cols = 0;
    int64_t stride = 0;
    [[nodiscard]] float* row(int64_t i) const { return data + i * stride; }
    operator Mat() const { return {data, rows, cols, stride}; }  // NOLINT: a writable matrix is a readable one
};

// The form that activations take before they meet weights of a type.
enum class ActivationForm : uint8_t {
    F32,
    BF16,
    Q8,      // per 32 values: int8 with a float scale
    Q8_256,  // per 256 values: int8 with a float scale and the sums of each 16
};
ActivationForm activation_form(DType weights);

// Weights: rows are outputs, cols inputs. As they lie in the file, [rows][cols], row after row; or packed for this machine by
// Ops::pack_rows, which only the table that packed them can read.
struct WeightMatrix {
    DType type = DType::F32;
    int64_t rows = 0;
    int64_t cols = 0;
    const std::byte* data = nullptr;
    bool packed = false;
    bool exact = false;  // activations that would be rounded to BF16 stay f32
    [[nodiscard]] ActivationForm form() const { return exact && type == DType::BF16 ? ActivationForm::F32 : activation_form(type); }
};

// Whether `gate` can weigh the results of `w` in one product: of the same shape, and of the same form of activations.
inline bool can_gate(const WeightMatrix& gate, const WeightMatrix& w) {
    return gate.rows == w.rows && gate.cols == w.cols && gate.form() == w.form();
}

enum class Activation : uint8_t { Silu, Gelu /* tanh form */, GeluErf, Relu, ReluSquared, Sigmoid, Tanh };

// y = w * x + bias, for each of `count` rows of activations; with a gate y = f(gate * x + gate_bias) * (w * x + bias).
struct MatmulArgs {
    WeightMatrix w;
    const std::byte* x = nullptr;  // activations in w.form(), rows of activation_row_bytes(form, w.cols)
    int64_t count = 0;
    const int32_t* x_rows = nullptr;  // [count] or null: row i
    const int32_t* y_rows = nullptr;  // [count] or null: row i
    const float* bias = nullptr;      // [w.rows] or null
    MatOut y;                         // cols == w.rows
    WeightMatrix gate;                // no data: no gate. Else can_gate(gate, w)
    const float* gate_bias = nullptr;
    Activation activation = Activation::Silu;  // f
    [[nodiscard]] bool gated() const { return gate.data != nullptr; }
};

// Products that a table works through as one, at most.
inline constexpr size_t kJoinedProducts = 128;

enum class RopePairing : uint8_t {
    Neighbours,  // (2i, 2i + 1)
    Halves,      // (i, i + dims / 2)
};

// Angle of pair i at position p, in double: p * frequency[i], where the model has already worked all scaling into `frequency`.
struct RopeSpec {
    int dims = 0;                       // even
    const double* frequency = nullptr;  // [dims / 2]
    double magnitude = 1.0;             // what cos and sin are multiplied by
};

struct RouteSpec {
    enum class Gate : uint8_t { Softmax, Sigmoid, SoftmaxOfChosen };
    int experts = 0;
    int used = 0;
    Gate gate = Gate::Softmax;
    const float* selection_bias = nullptr;  // [experts] or null: added for choosing, not for weighing
    int groups = 1;                         // experts come in `groups` equal groups, of which the best `groups_used` are searched
    int groups_used = 1;                    // (a group's score: the sum of its two best)
    bool normalise = false;                 // weights of the chosen sum to one
    float scale = 1.0F;                     // multiplies the weights at the end
};
// Ties go to the lower expert index; ids come best first.

struct AttendArgs {
    Mat q;       // [tokens, heads * k_width], already rotated
    MatOut out;  // [tokens, heads * v_width]
    int heads = 0;
    const kv::GroupView* group = nullptr;
    int plane = 0;
    int k_row = 0;  // index into group->rows
    int v_row = 1;
    float scale = 1.0F;            // on scores, before soft_cap
    float soft_cap = 0.0F;         // 0: none
    const float* sinks = nullptr;  // [heads] or null: logits that join the softmax with no value
    RopeSpec rope;                 // for runs with a turn: the query is turned back by it; dims 0: the model has no rope
    RopePairing pairing = RopePairing::Halves;
    std::byte* scratch = nullptr;  // attend_scratch_bytes, 64-byte aligned
    size_t scratch_bytes = 0;
};
// Head h reads KV head h / (heads / kv_heads). A query that sees nothing gives zeros.

}  // namespace cellar::ops
