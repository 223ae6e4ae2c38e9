#pragma once
// A step as data: which kernels run, on which values, in which order. A graph is built once for a shape (how many tokens go
// in, how many rows of logits come out) and walked any number of times; token ids, positions, cells, runs and windows are
// inputs of the walk, so the same graph serves every step of its shape.
//
// Thread rule: immutable once built.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kv/spec.h"
#include "ops/ops.h"

namespace cellar::graph {

struct Shape {
    int32_t tokens = 1;   // rows that go in
    int32_t outputs = 1;  // rows of logits that come out, at most `tokens`
    friend bool operator==(const Shape&, const Shape&) = default;
};

using Ref = int32_t;  // index into Graph::values
constexpr Ref kNone = -1;

// What a value holds. Floats are [rows, cols]; Prepared are rows of activations in the form that weights want.
enum class Kind : uint8_t { Floats, Ints, Prepared };

struct Value {
    std::string name;
    Kind kind = Kind::Floats;
    int64_t rows = 0;
    int64_t cols = 0;
    size_t bytes = 0;      // 0 for a slice
    Ref slice_of = kNone;  // columns [first_col, first_col + cols) of another value
    int64_t first_col = 0;
    int32_t born = -1;  // node that first writes it
    int32_t dies = -1;  // last node that reads it; bytes may be used again afterwards
    size_t offset = 0;  // in the workspace
};

enum class Op : uint8_t {
    Embed,
    RopeTable,
    RmsNorm,
    LayerNorm,
    HeadNorm,
    Prepare,
    MatMul,
    Rope,
    StoreRows,
    Attend,
    Add,
    Scale,
    ScaleRows,
    Activate,
    ActivateMul,
    SoftCap,
    GatherOutputs,
    Route,
    GroupByExpert,
    ExpertMatMul,
    CombineExperts,
};
std::string_view name(Op op);

// Raises scores with the position: factor(pos) = 1 + scale * log(1 + floor((pos + offset) / floor)).
struct Temperature {
    float scale = 0.0F;
    float floor = 1.0F;
    float offset = 0.0F;
};

struct Node {
    Op op{};
    int32_t layer = -1;  // -1: outside the layers
    std::string label;   // "blk.3.attn_q"
    std::array<Ref, 3> in{kNone, kNone, kNone};
    std::array<Ref, 2> out{kNone, kNone};
    // What each kind uses is said in builder.h at the function that makes the node.
    ops::WeightMatrix weight;
    ops::WeightMatrix gate;  // MatMul, ExpertMatMul: no data where there is none
    int64_t experts = 0;     // ExpertMatMul: weight and gate hold this many matrices, one behind the other
    const float* vector = nullptr;
    const float* bias = nullptr;
    const float* gate_bias = nullptr;
    float factor = 0.0F;
    float cap = 0.0F;
    bool rms = true;
    bool vector_per_head = false;
    bool by_slot = false;  // ExpertMatMul: the input has a row for each (token, choice), not for each token
    int32_t heads = 0;
    int32_t width = 0;
    int32_t v_width = 0;
    int32_t row = 0;  // StoreRows: index of the cell's row
    int32_t rope = -1;
    ops::RopePairing pairing = ops::RopePairing::Neighbours;
    ops::Activation activation = ops::Activation::Silu;
    ops::ActivationForm form = ops::ActivationForm::F32;
    kv::LayerPlace place;
    ops::RouteSpec route;
    Temperature temperature;
};

// Neighbouring nodes that are carried out as one. Every value that one of them touches is there all the while.
struct Stage {
    enum class Kind : uint8_t {
        Node,      // one node by itself
        Rows,      // each node works on rows one by one, so a few rows go through all of them while they are in the nearest cache
        Products,  // matrix products that do not need each other: worked through without a pause in between
    };
    Kind kind = Kind::Node;
    int32_t first = 0;  // nodes [first, last)
    int32_t last = 0;
};

struct Graph {
    Shape shape;
    std::vector<Value> values;
    std::vector<Node> nodes;
    std::vector<Stage> stages;  // all nodes, in order
    std::vector<ops::RopeSpec> ropes;
    Ref logits = kNone;          // [outputs, vocabulary]; kNone when shape.outputs is 0
    size_t workspace_bytes = 0;  // all values, at their offsets

    [[nodiscard]] std::string text() const;      // one line for each node: what, from, to, bytes
    [[nodiscard]] std::string graphviz() const;  // the same as a drawing
};

// Puts the nodes into stages.
void plan_stages(Graph& graph);
// Gives every value an offset so that values that live in the same stage do not overlap; sets workspace_bytes. Requires: stages.
void plan_workspace(Graph& graph);

}  // namespace cellar::graph
