#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/thread_team.h"
#include "graph/builder.h"
#include "graph/walk.h"
#include "ops/activation_form.h"

namespace cellar::graph {
namespace {

std::vector<float> random_floats(size_t n, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> out(n);
    for (float& x : out) x = normal(random);
    return out;
}

// A layer without a cache: everything that works on rows, and products of one input.
struct Layer {
    static constexpr int kWidth = 96;
    static constexpr int kHeads = 3;
    static constexpr int kHidden = 160;
    static constexpr int kVocabulary = 50;

    Linear matrix(int rows, int cols) {
        weights.push_back(random_floats(static_cast<size_t>(rows * cols), static_cast<uint32_t>(weights.size())));
        return {{DType::F32, rows, cols, reinterpret_cast<const std::byte*>(weights.back().data())}, nullptr};
    }

    Graph build(int32_t tokens, const ops::Ops& ops = ops::cpu()) {
        weights.clear();
        Builder b({tokens, tokens}, ops, {{32, frequencies.data(), 1.0}});
        const Linear table = matrix(kVocabulary, kWidth);
        Ref x = b.embed(table.w);
        for (int layer = 0; layer < 2; ++layer) {
            b.enter_layer(layer);
            const Linear q = matrix(kWidth, kWidth);
            const Linear k = matrix(kWidth, kWidth);
            const Linear v = matrix(kWidth, kWidth);
            const Ref normed = b.norm(x, norm, "norm");
            b.prepare_for(normed, {&q, &k, &v});
            Ref a = b.linear(normed, q, "q");
            Ref c = b.linear(normed, k, "k");
            const Ref d = b.linear(normed, v, "v");
            a = b.head_norm(a, kHeads, kWidth / kHeads, norm, false, "q_norm");
            c = b.head_norm(c, kHeads, kWidth / kHeads, norm, true, "k_norm");
            b.rope(a, kHeads, kWidth / kHeads, 0, ops::RopePairing::Halves, "rope_q");
            b.rope(c, kHeads, kWidth / kHeads, 0, ops::RopePairing::Neighbours, "rope_k");
            Ref mixed = b.add(b.add(a, c, "add_k"), b.scale(d, 0.5F, "scale"), "add_v");
            mixed = b.scale_rows(mixed, {0.1F, 4.0F, 1.0F}, "temperature");
            x = b.add(x, b.soft_cap(mixed, 3.0F, "cap"), "residual");
            const Ref again = b.norm(x, {norm.weight, norm.weight, 1e-5F, false}, "ffn_norm");
            const Ref hidden = b.gated_linear(again, matrix(kHidden, kWidth), matrix(kHidden, kWidth), ops::Activation::Silu, "gate_up");
            x = b.add(x, b.linear(hidden, matrix(kWidth, kHidden), "down"), "ffn_residual");
        }
        b.enter_layer(-1);
        return b.finish(b.linear(x, table, "output"));
    }

    std::vector<float> walk(const Graph& graph, const ops::Ops& ops, int threads, bool check_finite = false) {
        const auto tokens = static_cast<size_t>(graph.shape.tokens);
        std::vector<int32_t> ids(tokens);
        std::vector<int32_t> positions(tokens);
        for (size_t i = 0; i < tokens; ++i) ids[i] = static_cast<int32_t>(i * 7 % kVocabulary);
        for (size_t i = 0; i < tokens; ++i) positions[i] = static_cast<int32_t>(i) + 3;
        kv::View view;
        view.tokens = graph.shape.tokens;
        view.pos = positions;
        view.rotary = positions;
        // Values start as NaN, so that what is read before it was written shows.
        std::vector<float> memory(graph.workspace_bytes / sizeof(float) + 16);
        std::memset(memory.data(), 0xFF, memory.size() * sizeof(float));
        auto* values = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
        const Workspace workspace{values, nullptr, 0};
        ThreadTeam team(threads);
        EXPECT_EQ(graph::walk(graph, ops, {ids.data(), nullptr, &view}, workspace, team, check_finite), nullptr);
        const ops::Mat out = logits(graph, workspace);
        return {out.data, out.data + out.rows * out.cols};
    }

    std::vector<std::vector<float>> weights;
    std::vector<float> norm_weights = random_floats(kWidth, 77);
    NormWeights norm{norm_weights.data(), nullptr, 1e-5F, true};
    std::vector<double> frequencies = [] {
        std::vector<double> out(16);
        for (size_t i = 0; i < out.size(); ++i) out[i] = 1.0 / static_cast<double>(1 + i * i);
        return out;
    }();
};

std::vector<std::string> labels(const Graph& graph, const Stage& stage) {
    std::vector<std::string> out;
    for (int32_t i = stage.first; i < stage.last; ++i) out.push_back(graph.nodes[static_cast<size_t>(i)].label);
    return out;
}

TEST(Stages, JoinProductsOfOneInputAndWhatWorksOnRows) {
    Layer layer;
    const Graph graph = layer.build(5);
    std::vector<std::vector<std::string>> products;
    std::vector<std::vector<std::string>> rows;
    for (const Stage& stage : graph.stages) {
        if (stage.kind == Stage::Kind::Products) products.push_back(labels(graph, stage));
        if (stage.kind == Stage::Kind::Rows) rows.push_back(labels(graph, stage));
    }
    ASSERT_GE(products.size(), 4U);
    EXPECT_EQ(products[0], (std::vector<std::string>{"blk.0.q", "blk.0.k", "blk.0.v"}));
    EXPECT_EQ(products[1], std::vector<std::string>{"blk.0.gate_up"});
    EXPECT_EQ(products[2], std::vector<std::string>{"blk.0.down"});
    // The norm goes with the preparation of what the products read.
    EXPECT_NE(std::find(rows.begin(), rows.end(), (std::vector<std::string>{"blk.0.ffn_residual", "blk.1.norm", "blk.1.prepare"})), rows.end());
    int32_t next = 0;
    for (const Stage& stage : graph.stages) {
        EXPECT_EQ(stage.first, next);
        EXPECT_LT(stage.first, stage.last);
        next = stage.last;
    }
    EXPECT_EQ(next, static_cast<int32_t>(graph.nodes.size()));
}

// While a stage runs, any of its values may be written or read at any time.
TEST(Stages, KeepAllValuesOfAStageApart) {
    Layer layer;
    for (const int32_t tokens : {1, 5, 300}) {
        const Graph graph = layer.build(tokens);
        const auto root = [&](Ref ref) {
            while (graph.values[static_cast<size_t>(ref)].slice_of != kNone) ref = graph.values[static_cast<size_t>(ref)].slice_of;
            return ref;
        };
        for (const Stage& stage : graph.stages) {
            std::vector<Ref> used;
            for (int32_t i = stage.first; i < stage.last; ++i) {
                const Node& node = graph.nodes[static_cast<size_t>(i)];
                for (const Ref ref : node.in)
                    if (ref != kNone) used.push_back(root(ref));
                for (const Ref ref : node.out)
                    if (ref != kNone) used.push_back(root(ref));
            }
            std::sort(used.begin(), used.end());
            used.erase(std::unique(used.begin(), used.end()), used.end());
            for (const Ref a : used) {
                for (const Ref b : used) {
                    const Value& left = graph.values[static_cast<size_t>(a)];
                    const Value& right = graph.values[static_cast<size_t>(b)];
                    if (a == b) continue;
                    EXPECT_TRUE(left.offset + left.bytes <= right.offset || right.offset + right.bytes <= left.offset) << a << " and " << b;
                }
            }
        }
    }
}

TEST(Stages, GiveTheSameBitsForAnyTeamAndAnyCompany) {
    Layer layer;
    const std::vector<float> all = layer.walk(layer.build(300), ops::cpu(), 1);
    EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](float x) { return std::isfinite(x); }));
    EXPECT_EQ(layer.walk(layer.build(300), ops::cpu(), 2), all);
    EXPECT_EQ(layer.walk(layer.build(300), ops::cpu(), 3, true), all);
    for (const int32_t tokens : {1, 2, 9, 64}) {
        const std::vector<float> some = layer.walk(layer.build(tokens), ops::cpu(), 2);
        EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << tokens;
    }
}

TEST(Stages, AreNearTheReference) {
    Layer layer;
    const std::vector<float> fast = layer.walk(layer.build(40), ops::cpu(), 2);
    const std::vector<float> slow = layer.walk(layer.build(40, ops::reference()), ops::reference(), 1);
    ASSERT_EQ(fast.size(), slow.size());
    for (size_t i = 0; i < fast.size(); ++i) ASSERT_NEAR(fast[i], slow[i], 2e-3F + 2e-4F * std::abs(slow[i])) << i;
}

}  // namespace
}  // namespace cellar::graph
