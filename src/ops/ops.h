#pragma once
// The table of kernels and their contracts. There are two tables: `reference()` is slow and obvious and sums in double,
// `cpu()` is vectorised with run-time dispatch. Kernels own no memory and keep no state.
//
// Determinism: a result depends on the operands of its own row only: not on how many rows there are, where they lie,
// how many threads work, or in which cells the cache holds its rows. Every output element of a matrix product is one chain of
// additions over k in one order. Attention folds tiles of 32 positions, cut from position 0, left to right within segments
// of 1,024 positions, cut from position 0, and merges segments left to right.
//
// All matrices of activations are f32, rows of `stride` floats. Unless said otherwise input and output may be the same
// buffer only where they are exactly equal (in place).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/thread_team.h"
#include "kv/view.h"
#include "ops/bake.h"
#include "ops/types.h"

namespace cellar::ops {

struct Ops {
    std::string_view name;

    // --- matrix products
    // Bytes of one row of n activations in a form.
    size_t (*activation_row_bytes)(ActivationForm form, int64_t n);
    // Rewrites x [rows, n] into `out`, rows of activation_row_bytes. F32 copies.
    void (*prepare_activations)(ActivationForm form, Mat x, std::byte* out, ThreadTeam& team);
    // Bytes of a matrix packed for this machine; 0 where the table has no packed form of the type.
    size_t (*packed_bytes)(DType type, int64_t rows, int64_t cols);
    // Rows that are packed together: pack_rows starts at multiples of it. 0 where nothing is packed.
    int64_t (*packed_lanes)();
    // Packs rows [first, last) of w, which is in file layout, into the packed matrix that starts at `packed`. Nothing outside these
    // rows is read. Products have the same bits as in file layout. Requires: last is a multiple of packed_lanes, or w.rows.
    void (*pack_rows)(const WeightMatrix& w, int64_t first, int64_t last, std::byte* packed, ThreadTeam& team);
    // For each product y[y_row(i)] = w * x[x_row(i)] (+ bias), for i in [0, count); through a gate where there is one. They are worked
    // through as one, kJoinedProducts at a time: no member waits between two of them. Requires: none reads or writes what another one writes.
    void (*matmul)(std::span<const MatmulArgs> products, ThreadTeam& team);

    // --- normalisation, each row of `width` on its own; y may be x
    void (*rms_norm)(Mat x, const float* weight /* [cols] or null */, float eps, MatOut y, ThreadTeam& team);
    void (*layer_norm)(Mat x, const float* weight /* or null */, const float* bias /* or null */, float eps, MatOut y, ThreadTeam& team);

    // --- rotary positions
    // table [rows, dims]: cos at 2i, sin at 2i + 1 of pair i, both times rope.magnitude, at rotary position pos[row].
    void (*rope_table)(const RopeSpec& rope, const int32_t* pos, int64_t rows, float* table);
    // Turns the first `dims` elements of each head of x [rows, heads * width] in place by its row of the table.
    void (*rope)(MatOut x, int heads, int width, int dims, RopePairing pairing, const float* table, ThreadTeam& team);

    // --- element-wise, on [rows, cols]
    void (*add)(Mat a, Mat b, MatOut y, ThreadTeam& team);
    void (*scale)(Mat a, float factor, MatOut y, ThreadTeam& team);
    void (*activate)(Activation kind, Mat a, MatOut y, ThreadTeam& team);
    void (*activate_mul)(Activation kind, Mat gate, Mat up, MatOut y, ThreadTeam& team);  // y = f(gate) * up
    void (*soft_cap)(Mat a, float cap, MatOut y, ThreadTeam& team);                       // cap * tanh(a / cap)

    // --- rows of tables
    // y[i] = decoded row ids[i] of table. Requires: 0 <= ids[i] < table.rows.
    void (*embed)(const WeightMatrix& table, const int32_t* ids, int64_t count, MatOut y, ThreadTeam& team);
    // y[i] = x[rows[i]]
    void (*gather_rows)(Mat x, const int32_t* rows, int64_t count, MatOut y, ThreadTeam& team);

    // --- experts
    // Chooses spec.used experts for each row of router logits [rows, experts]; writes ids and weights, [rows, used].
    void (*route)(const RouteSpec& spec, Mat logits, int32_t* ids, float* weights, ThreadTeam& team);
    // y[t] = sum over j of weights[t, j] * x[t * used + j], j ascending. x [rows * used, cols]
    void (*combine_experts)(Mat x, const float* weights, int used, MatOut y, ThreadTeam& team);

    // --- the cache
    // Encodes row i of x [n, heads * width] into cells[i] of a plane of the table.
    void (*store_rows)(Mat x, const kv::RowTable& table, int plane, const int32_t* cells, ThreadTeam& team);
    // Turned rows into other cells (bake.h). Not part of a step: may allocate.
    void (*bake_rows)(const BakeArgs& args, ThreadTeam& team);
    // Bytes that attend needs as scratch for up to `tokens` queries that see up to `context` positions; `width` is the wider of a K and
    // a V head.
    size_t (*attend_scratch_bytes)(int tokens, int heads, int width, int64_t context, int threads);
    void (*attend)(const AttendArgs& args, ThreadTeam& team);
};

const Ops& reference();
const Ops& cpu();

// Which instruction set cpu() runs on: "AVX3_DL", "AVX2", "SCALAR"... For --version and benchmarks.
std::string_view cpu_target();
// What else the numbers of cpu() depend on: "bf16 products" where BF16 weights meet the CPU's own products of bf16; mostly nothing.
std::string_view cpu_variant();
// Lowers it for tests and for --cpu-target: only targets at or below `name` are used from now on. Call before the first kernel.
// False if this machine or this build does not have it.
bool limit_cpu_target(std::string_view name);
// The names that it takes, best first: "AVX3_DL, AVX3, AVX2". Call before the first kernel.
std::string cpu_targets();

}  // namespace cellar::ops
