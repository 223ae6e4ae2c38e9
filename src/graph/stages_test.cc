#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/walk_case.h"

namespace cellar::graph {
namespace {

// A layer without a cache: everything that works on rows, and products of one input.
struct Layer {
    static constexpr int kWidth = 96;
    static constexpr int kHeads = 3;
    static constexpr int kHidden = 160;
    static constexpr int kVocabulary = 50;

    Linear matrix(int rows, int cols) {
        weights.push_back(normal_values(static_cast<size_t>(rows) * static_cast<size_t>(cols), static_cast<uint32_t>(weights.size())));
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

    static std::vector<float> walk(const Graph& graph, const ops::Ops& ops, int threads, bool check_finite = false) {
        return walk_alone(graph, ops, kVocabulary, threads, {}, check_finite);
    }

    std::vector<std::vector<float>> weights;
    std::vector<float> norm_weights = normal_values(kWidth, 77);
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

// K and V as windows on one product, turned and kept in two formats.
class Kept {
  public:
    static constexpr int kWidth = 96;
    static constexpr int kHeads = 3;
    static constexpr int kVocabulary = 50;

    explicit Kept(int32_t tokens) : tokens_(tokens) {
        for (size_t i = 0; i < frequencies_.size(); ++i) frequencies_[i] = 1.0 / static_cast<double>(1 + i);
        const Linear table{weights_.matrix(DType::F32, kVocabulary, kWidth), nullptr};
        const NormWeights norm{weights_.vector(kWidth), nullptr, 1e-5F, true};
        Builder b({tokens, tokens}, ops::cpu(), {{kWidth / kHeads, frequencies_.data(), 1.0}});
        const Ref x = b.embed(table.w);
        b.enter_layer(0);
        const Ref all = b.linear(b.norm(x, norm, "norm"), {weights_.matrix(DType::Q8_0, 3L * kWidth, kWidth), weights_.vector(3L * kWidth)}, "qkv");
        const Ref q = b.head_norm(b.slice(all, 0, kWidth), kHeads, kWidth / kHeads, norm, false, "q_norm");
        const Ref k = b.slice(all, kWidth, kWidth);
        const Ref v = b.head_norm(b.slice(all, 2L * kWidth, kWidth), kHeads, kWidth / kHeads, norm, true, "v_norm");
        b.rope(q, kHeads, kWidth / kHeads, 0, ops::RopePairing::Halves, "rope_q");
        b.rope(k, kHeads, kWidth / kHeads, 0, ops::RopePairing::Neighbours, "rope_k");
        b.store(k, {0, 0}, 0, "store_k");
        b.store(v, {0, 0}, 1, "store_v");
        const Ref mixed = b.activate_mul(q, b.activate(v, ops::Activation::Tanh, "act"), ops::Activation::GeluErf, "mix");
        const Ref out = b.add(x, b.scale_rows(mixed, {0.1F, 4.0F, 1.0F}, "temperature"), "add");
        b.enter_layer(-1);
        graph_ = b.finish(b.linear(out, table, "output"));
    }

    [[nodiscard]] const Graph& graph() const { return graph_; }

    // The logits, and behind them the bytes of the cells.
    [[nodiscard]] std::pair<std::vector<float>, std::vector<std::byte>> walk(const Graph& graph, int threads) const {
        const int cells = tokens_ + 5;
        std::vector<int32_t> to(static_cast<size_t>(tokens_));
        for (size_t i = 0; i < to.size(); ++i) to[i] = cells - 1 - static_cast<int32_t>(i);
        std::vector<kv::RowTable> rows;
        size_t bytes = 0;
        for (const kv::RowFormat format : {kv::RowFormat::Q8_0, kv::RowFormat::F16}) {
            const size_t each = kv::head_row_bytes(format, kWidth / kHeads);
            const size_t head = each * static_cast<size_t>(cells);
            rows.push_back({nullptr, head * kHeads, head, each, format, kHeads, kWidth / kHeads});
            bytes += head * kHeads;
        }
        std::vector<std::byte> memory(bytes, std::byte{0xAB});
        rows[0].base = memory.data();
        rows[1].base = memory.data() + rows[0].plane_stride;
        kv::GroupView group;
        group.rows = rows;
        group.write_cells = to;
        std::vector<float> logits = walk_alone(graph, ops::cpu(), kVocabulary, threads, {&group, 1});
        return {std::move(logits), std::move(memory)};
    }

  private:
    int32_t tokens_;
    Weights weights_;
    std::vector<double> frequencies_ = std::vector<double>(16);
    Graph graph_;
};

TEST(Stages, OfRowsGiveTheSameBitsAsNodeByNode) {
    for (const int32_t tokens : {1, 2, 3, 7, 16, 33, 100, 171, 300}) {
        const Kept kept(tokens);
        const auto plain = kept.walk(node_by_node(kept.graph()), 1);
        EXPECT_TRUE(std::all_of(plain.first.begin(), plain.first.end(), [](float x) { return std::isfinite(x); })) << tokens;
        Layer layer;
        const Graph other = layer.build(tokens);
        const std::vector<float> other_plain = Layer::walk(node_by_node(other), ops::cpu(), 1);
        for (const int threads : {1, 2, 3}) {
            const auto staged = kept.walk(kept.graph(), threads);
            EXPECT_TRUE(same_bits(staged.first, plain.first)) << tokens << " tokens, " << threads << " threads";
            EXPECT_EQ(staged.second, plain.second) << tokens << " tokens, " << threads << " threads";
            EXPECT_TRUE(same_bits(Layer::walk(other, ops::cpu(), threads), other_plain)) << tokens << " tokens, " << threads << " threads";
        }
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
