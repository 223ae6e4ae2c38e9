#pragma once
// What the tests of walks share: weights, and a walk with all it needs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "base/thread_team.h"
#include "graph/builder.h"
#include "graph/walk.h"
#include "tensor/normal_values_test.h"
#include "tensor/row_codec.h"

namespace cellar::graph {

// Weights of a test's network; they live as long as this.
class Weights {
  public:
    ops::WeightMatrix matrix(DType type, int64_t rows, int64_t cols, bool pack = false) { return experts(type, rows, cols, 1, pack).w; }

    // Of `count` experts, one behind the other.
    ExpertLinear experts(DType type, int64_t rows, int64_t cols, int64_t count, bool pack = false) {
        const std::vector<float> values = normal_values(static_cast<size_t>(count * rows * cols), ++seed_);
        const size_t bytes = row_bytes(type, cols);
        std::vector<std::byte>& stored = bytes_.emplace_back(static_cast<size_t>(count * rows) * bytes);
        for (int64_t r = 0; r < count * rows; ++r) encode_row(type, values.data() + r * cols, cols, stored.data() + static_cast<size_t>(r) * bytes);
        const ops::WeightMatrix w{type, rows, cols, stored.data()};
        return {pack ? packed(w, count) : w, count};
    }

    const float* vector(int64_t n) {
        const std::vector<float> values = normal_values(static_cast<size_t>(n), ++seed_);
        std::vector<std::byte>& stored = bytes_.emplace_back(values.size() * sizeof(float));
        std::memcpy(stored.data(), values.data(), stored.size());
        return reinterpret_cast<const float*>(stored.data());
    }

  private:
    ops::WeightMatrix packed(ops::WeightMatrix w, int64_t count) {
        const size_t bytes = ops::cpu().packed_bytes(w.type, w.rows, w.cols);
        EXPECT_GT(bytes, 0U);
        std::vector<std::byte>& memory = bytes_.emplace_back(bytes * static_cast<size_t>(count) + 64);
        auto* first = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
        ThreadTeam team(1);
        for (int64_t e = 0; e < count; ++e) {
            ops::WeightMatrix one = w;
            one.data += static_cast<size_t>(e * w.rows) * row_bytes(w.type, w.cols);
            ops::cpu().pack_rows(one, 0, w.rows, first + static_cast<size_t>(e) * bytes, team);
        }
        w.data = first;
        w.packed = true;
        return w;
    }

    std::deque<std::vector<std::byte>> bytes_;
    uint32_t seed_ = 0;
};

// The same graph with a stage for each node: no node is in another one's company.
inline Graph node_by_node(Graph graph) {
    std::vector<Stage> stages;
    for (const Stage& stage : graph.stages) {
        for (int32_t i = stage.first; i < stage.last; ++i) stages.push_back({stage.kind, i, i + 1});
    }
    graph.stages = std::move(stages);
    plan_workspace(graph);
    return graph;
}

// Token i of a walk below. The rotary position of row i is i + 3.
inline int32_t token_id(size_t i, int64_t vocabulary) {
    return static_cast<int32_t>(i * 7 % static_cast<size_t>(vocabulary));
}

// Walks and returns the logits. Values start as NaN, so that what is read before it was written shows.
inline std::vector<float> walk_alone(const Graph& graph, const ops::Ops& ops, int64_t vocabulary, int threads,
                                     std::span<const kv::GroupView> groups = {}, bool check_finite = false) {
    const auto tokens = static_cast<size_t>(graph.shape.tokens);
    std::vector<int32_t> ids(tokens);
    std::vector<int32_t> positions(tokens);
    for (size_t i = 0; i < tokens; ++i) ids[i] = token_id(i, vocabulary);
    for (size_t i = 0; i < tokens; ++i) positions[i] = static_cast<int32_t>(i) + 3;
    kv::View view;
    view.tokens = graph.shape.tokens;
    view.pos = positions;
    view.rotary = positions;
    view.groups = groups;
    std::vector<float> memory(graph.workspace_bytes / sizeof(float) + 16);
    std::memset(memory.data(), 0xFF, memory.size() * sizeof(float));
    auto* values = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
    const Workspace workspace{values, nullptr, 0};
    ThreadTeam team(threads);
    EXPECT_EQ(walk(graph, ops, {ids.data(), nullptr, &view}, workspace, team, check_finite), nullptr);
    const ops::Mat out = logits(graph, workspace);
    return {out.data, out.data + out.rows * out.cols};
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Walks node by node on one thread, and expects the same bits of stages on one, two and three threads. Returns them.
inline std::vector<float> expect_stages_change_nothing(const Graph& graph, int64_t vocabulary) {
    std::vector<float> plain = walk_alone(node_by_node(graph), ops::cpu(), vocabulary, 1);
    EXPECT_TRUE(std::all_of(plain.begin(), plain.end(), [](float x) { return std::isfinite(x); }));
    for (const int threads : {1, 2, 3}) {
        EXPECT_TRUE(same_bits(walk_alone(graph, ops::cpu(), vocabulary, threads), plain)) << threads << " threads";
    }
    return plain;
}

}  // namespace cellar::graph
