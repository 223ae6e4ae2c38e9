#include "model/parts.h"

#include <gtest/gtest.h>

#include <vector>

#include "graph/walk_case.h"

namespace cellar::model {
namespace {

using graph::Graph;

constexpr int64_t kVocabulary = 40;
constexpr int64_t kWidth = 256;

struct Case {
    DType gate;
    DType up;
    bool one_product;  // both read activations of one form
};

constexpr Case kCases[] = {
    {DType::Q8_0, DType::Q8_0, true},  {DType::Q4_0, DType::Q8_0, true}, {DType::F16, DType::F32, true},   {DType::Q4_K, DType::Q6_K, true},
    {DType::Q8_0, DType::Q4_K, false}, {DType::F32, DType::Q8_0, false}, {DType::BF16, DType::F32, false}, {DType::Q6_K, DType::BF16, false},
};

// Nodes that weigh what they multiply with a gate.
int gated_products(const Graph& graph) {
    int count = 0;
    for (const graph::Node& node : graph.nodes) count += node.gate.data != nullptr ? 1 : 0;
    return count;
}

// Logits of x + part(x), where build(builder, x) writes the part.
template <class Build>
Graph network(const ops::WeightMatrix& table, int32_t tokens, Build&& build) {
    Builder b({tokens, tokens}, ops::cpu(), {});
    const Ref x = b.embed(table);
    b.enter_layer(0);
    const Ref out = b.add(x, build(b, x), "add");
    b.enter_layer(-1);
    return b.finish(b.linear(out, {table, nullptr}, "output"));
}

void expect_same(const Case& c, const Graph& part, const Graph& apart) {
    EXPECT_EQ(gated_products(part), c.one_product ? 1 : 0);
    EXPECT_EQ(gated_products(apart), 0);
    EXPECT_TRUE(graph::same_bits(graph::expect_stages_change_nothing(part, kVocabulary), graph::expect_stages_change_nothing(apart, kVocabulary)));
}

TEST(FeedForwardPart, JoinsAGateOnlyWithWhatReadsTheSameAndGivesTheSameBits) {
    for (const Case& c : kCases) {
        for (const int32_t tokens : {1, 5, 40}) {
            SCOPED_TRACE(testing::Message() << name(c.gate) << " and " << name(c.up) << ", " << tokens << " tokens");
            graph::Weights weights;
            const ops::WeightMatrix table = weights.matrix(DType::F32, kVocabulary, kWidth);
            FeedForward part;
            part.gate = {weights.matrix(c.gate, kWidth, kWidth), weights.vector(kWidth)};
            part.up = {weights.matrix(c.up, kWidth, kWidth), weights.vector(kWidth)};
            part.down = {weights.matrix(c.up, kWidth, kWidth), nullptr};
            part.activation = ops::Activation::Gelu;
            expect_same(c, network(table, tokens, [&](Builder& b, Ref x) { return build_feed_forward(b, part, x); }),
                        network(table, tokens, [&](Builder& b, Ref x) {
                            const Ref gate = b.linear(x, part.gate, "gate");
                            return b.linear(b.activate_mul(gate, b.linear(x, part.up, "up"), part.activation, "act"), part.down, "down");
                        }));
        }
    }
}

// A gate of another shape cannot be joined whatever it reads.
TEST(FeedForwardPart, KnowsShapes) {
    graph::Weights weights;
    const ops::WeightMatrix w = weights.matrix(DType::Q8_0, 64, 96);
    EXPECT_TRUE(ops::can_gate(w, w));
    EXPECT_FALSE(ops::can_gate(weights.matrix(DType::Q8_0, 65, 96), w));
    EXPECT_FALSE(ops::can_gate(weights.matrix(DType::Q8_0, 64, 128), w));
    // With exact activations BF16 reads what F32 reads.
    ops::WeightMatrix half = weights.matrix(DType::BF16, 64, 96);
    const ops::WeightMatrix whole = weights.matrix(DType::F32, 64, 96);
    EXPECT_FALSE(ops::can_gate(half, whole));
    half.exact = true;
    EXPECT_TRUE(ops::can_gate(half, whole));
}

TEST(ExpertsPart, JoinsAGateOnlyWithWhatReadsTheSameAndGivesTheSameBits) {
    constexpr int kExperts = 20;
    for (const Case& c : kCases) {
        SCOPED_TRACE(testing::Message() << name(c.gate) << " and " << name(c.up));
        graph::Weights weights;
        const ops::WeightMatrix table = weights.matrix(DType::F32, kVocabulary, kWidth);
        Experts part;
        part.router = {weights.matrix(DType::F32, kExperts, kWidth), nullptr};
        part.gate = weights.experts(c.gate, kWidth, kWidth, kExperts);
        part.up = weights.experts(c.up, kWidth, kWidth, kExperts);
        part.down = weights.experts(c.up, kWidth, kWidth, kExperts);
        part.route.experts = kExperts;
        part.route.used = 3;
        for (const int32_t tokens : {1, 30}) {
            SCOPED_TRACE(tokens);
            expect_same(c, network(table, tokens, [&](Builder& b, Ref x) { return build_experts(b, part, x); }),
                        network(table, tokens, [&](Builder& b, Ref x) {
                            const auto [ids, shares] = b.route(b.linear(x, part.router, "router"), part.route);
                            const Ref groups = b.group_by_expert(ids, kExperts);
                            const int64_t slots = int64_t{tokens} * part.route.used;
                            const Ref gate = b.expert_linear(x, groups, part.gate, slots, false, "gate");
                            const Ref up = b.expert_linear(x, groups, part.up, slots, false, "up");
                            const Ref hidden = b.activate_mul(gate, up, part.activation, "act");
                            return b.combine_experts(b.expert_linear(hidden, groups, part.down, slots, true, "down"), shares, part.route.used);
                        }));
        }
    }
}

}  // namespace
}  // namespace cellar::model
