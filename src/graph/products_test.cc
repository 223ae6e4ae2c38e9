// Products that are worked through as one: of experts, of slices, of more than fit into one list, with gates of other types.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/walk_case.h"

namespace cellar::graph {
namespace {

constexpr int64_t kVocabulary = 311;  // enough for each token of a test to be another one

// --- mixtures of experts

struct Types {
    DType gate;
    DType up;
    DType down;
    bool pack = false;
};

std::string named(const Types& t) {
    return std::string(name(t.gate)) + ", " + std::string(name(t.up)) + ", " + std::string(name(t.down)) + (t.pack ? ", packed" : "");
}

class Mixture {
  public:
    Mixture(const Types& types, int experts, int used) {
        const bool wide = std::max({info(types.gate).block, info(types.up).block, info(types.down).block}) == 256;
        const int64_t width = wide ? 256 : 64;
        const int64_t hidden = wide ? 256 : 96;
        table_ = weights_.matrix(DType::F32, kVocabulary, width);
        router_ = weights_.matrix(DType::F32, experts, width);
        gate_ = weights_.experts(types.gate, hidden, width, experts, types.pack);
        up_ = weights_.experts(types.up, hidden, width, experts, types.pack);
        down_ = weights_.experts(types.down, width, hidden, experts, types.pack);
        // Everybody wants the first expert, nobody one of the last, and the others less and less.
        for (int e = 0; e < experts; ++e) bias_.push_back(-static_cast<float>(e) / static_cast<float>(experts));
        bias_.front() = 100.0F;
        std::fill(bias_.end() - experts / 4, bias_.end(), -100.0F);
        route_.experts = experts;
        route_.used = used;
        route_.selection_bias = bias_.data();
        route_.normalise = true;
    }

    [[nodiscard]] bool gated() const { return ops::can_gate(gate_.w, up_.w); }

    [[nodiscard]] Graph build(int32_t tokens, bool gated) const {
        Builder b({tokens, tokens}, ops::cpu(), {});
        const Ref x = b.embed(table_);
        b.enter_layer(0);
        const auto [ids, shares] = b.route(b.linear(x, {router_, nullptr}, "router"), route_);
        const Ref groups = b.group_by_expert(ids, route_.experts);
        const int64_t slots = int64_t{tokens} * route_.used;
        Ref hidden = kNone;
        if (gated) {
            hidden = b.gated_expert_linear(x, groups, gate_, up_, slots, ops::Activation::Silu, "gate_up");
        } else {
            const Ref gate = b.expert_linear(x, groups, gate_, slots, false, "gate");
            hidden = b.activate_mul(gate, b.expert_linear(x, groups, up_, slots, false, "up"), ops::Activation::Silu, "act");
        }
        const Ref each = b.expert_linear(hidden, groups, down_, slots, true, "down");
        const Ref out = b.add(x, b.combine_experts(each, shares, route_.used), "add");
        b.enter_layer(-1);
        return b.finish(b.linear(out, {table_, nullptr}, "output"));
    }

    // The same logits, each choice of each token by itself and without a graph. Adds to `chosen` how often each expert was.
    std::vector<float> one_by_one(int32_t tokens, std::vector<int>& chosen) {
        std::vector<float> out;
        chosen.assign(bias_.size(), 0);
        for (int32_t t = 0; t < tokens; ++t) {
            const std::vector<float> row = one_token(token_id(static_cast<size_t>(t), kVocabulary), chosen);
            out.insert(out.end(), row.begin(), row.end());
        }
        return out;
    }

  private:
    std::vector<float> one_token(int32_t id, std::vector<int>& chosen) {
        const int64_t width = table_.cols;
        std::vector<float> x(static_cast<size_t>(width));
        cpu_.embed(table_, &id, 1, out(x), team_);
        std::vector<float> scores = product(router_, x);
        std::vector<int32_t> ids(static_cast<size_t>(route_.used));
        std::vector<float> shares(ids.size());
        cpu_.route(route_, in(scores), ids.data(), shares.data(), team_);
        std::vector<float> each;
        for (const int32_t e : ids) {
            ++chosen[static_cast<size_t>(e)];
            std::vector<float> gate = product(of(gate_.w, e), x);
            std::vector<float> up = product(of(up_.w, e), x);
            cpu_.activate_mul(ops::Activation::Silu, in(gate), in(up), out(up), team_);
            const std::vector<float> down = product(of(down_.w, e), up);
            each.insert(each.end(), down.begin(), down.end());
        }
        std::vector<float> mixed(x.size());
        cpu_.combine_experts({each.data(), route_.used, width, width}, shares.data(), route_.used, out(mixed), team_);
        cpu_.add(in(x), in(mixed), out(x), team_);
        return product(table_, x);
    }

    std::vector<float> product(const ops::WeightMatrix& w, const std::vector<float>& x) {
        std::vector<std::byte> prepared(cpu_.activation_row_bytes(w.form(), w.cols));
        cpu_.prepare_activations(w.form(), in(x), prepared.data(), team_);
        std::vector<float> y(static_cast<size_t>(w.rows));
        ops::MatmulArgs args;
        args.w = w;
        args.x = prepared.data();
        args.count = 1;
        args.y = out(y);
        cpu_.matmul({&args, 1}, team_);
        return y;
    }

    // Expert e of a matrix for each.
    [[nodiscard]] ops::WeightMatrix of(ops::WeightMatrix w, int32_t e) const {
        w.data +=
            static_cast<size_t>(e) * (w.packed ? cpu_.packed_bytes(w.type, w.rows, w.cols) : row_bytes(w.type, w.cols) * static_cast<size_t>(w.rows));
        return w;
    }
    static ops::Mat in(const std::vector<float>& row) {
        const auto n = static_cast<int64_t>(row.size());
        return {row.data(), 1, n, n};
    }
    static ops::MatOut out(std::vector<float>& row) {
        const auto n = static_cast<int64_t>(row.size());
        return {row.data(), 1, n, n};
    }

    const ops::Ops& cpu_ = ops::cpu();
    ThreadTeam team_{1};
    Weights weights_;
    ops::WeightMatrix table_, router_;
    ExpertLinear gate_, up_, down_;
    std::vector<float> bias_;
    ops::RouteSpec route_;
};

void expect_experts_one_by_one(const Types& types, int experts, int used, std::initializer_list<int32_t> tokens) {
    SCOPED_TRACE(named(types));
    Mixture mixture(types, experts, used);
    for (const int32_t n : tokens) {
        SCOPED_TRACE(n);
        std::vector<int> chosen;
        const std::vector<float> expected = mixture.one_by_one(n, chosen);
        if (n > experts) {
            EXPECT_EQ(chosen.front(), n);
            EXPECT_GT(std::count(chosen.begin(), chosen.end(), 0), 0);
            EXPECT_GT(std::count(chosen.begin(), chosen.end(), 1), 0);
        }
        if (mixture.gated()) {
            EXPECT_TRUE(same_bits(expect_stages_change_nothing(mixture.build(n, true), kVocabulary), expected)) << "gated";
        }
        EXPECT_TRUE(same_bits(expect_stages_change_nothing(mixture.build(n, false), kVocabulary), expected)) << "gate and up apart";
    }
}

TEST(ProductsOfExperts, GiveWhatEachGivesByItself) {
    for (const DType type : {DType::F32, DType::BF16, DType::Q8_0, DType::Q4_K}) {
        for (const bool pack : {false, true}) expect_experts_one_by_one({type, type, type, pack}, 20, 2, {1, 2, 21, 70});
    }
}

TEST(ProductsOfExperts, TakeGatesOfOtherTypes) {
    // Of one form of activations: they are one product.
    EXPECT_TRUE(Mixture({DType::Q4_0, DType::Q8_0, DType::Q8_0}, 4, 1).gated());
    EXPECT_TRUE(Mixture({DType::F16, DType::F32, DType::F32}, 4, 1).gated());
    EXPECT_TRUE(Mixture({DType::Q6_K, DType::Q4_K, DType::Q4_K}, 4, 1).gated());
    // Of two forms: they are not.
    EXPECT_FALSE(Mixture({DType::Q8_0, DType::F32, DType::F32}, 4, 1).gated());
    EXPECT_FALSE(Mixture({DType::Q8_0, DType::Q4_K, DType::Q4_K}, 4, 1).gated());
    EXPECT_FALSE(Mixture({DType::F32, DType::BF16, DType::BF16}, 4, 1).gated());
    for (const bool pack : {false, true}) {
        expect_experts_one_by_one({DType::Q4_0, DType::Q8_0, DType::Q4_0, pack}, 20, 2, {1, 21});
        expect_experts_one_by_one({DType::F16, DType::F32, DType::BF16, pack}, 20, 2, {1, 21});
        expect_experts_one_by_one({DType::Q8_0, DType::F32, DType::Q8_0, pack}, 20, 2, {1, 21});
    }
}

// More products than one list of them holds.
TEST(ProductsOfExperts, CanBeHundreds) {
    expect_experts_one_by_one({DType::F32, DType::F32, DType::F32}, 300, 6, {1, 301});
}

// --- products of one input

int64_t largest_products_stage(const Graph& graph) {
    int64_t most = 0;
    for (const Stage& stage : graph.stages) {
        if (stage.kind == Stage::Kind::Products) most = std::max<int64_t>(most, stage.last - stage.first);
    }
    return most;
}

TEST(ProductsOfOneInput, MayBeAnyNumber) {
    constexpr int64_t kWidth = 64;
    for (const int products : {1, 2, 16, 17, 33, 300}) {
        for (const int32_t tokens : {1, 5}) {
            SCOPED_TRACE(testing::Message() << products << " products, " << tokens << " tokens");
            Weights weights;
            Builder b({tokens, tokens}, ops::cpu(), {});
            const Linear table{weights.matrix(DType::F32, kVocabulary, kWidth), nullptr};
            const Ref x = b.embed(table.w);
            std::vector<Linear> linears;
            for (int i = 0; i < products; ++i) {
                const DType type = i % 3 == 0 ? DType::F32 : i % 3 == 1 ? DType::Q8_0 : DType::BF16;
                linears.push_back({weights.matrix(type, kWidth, kWidth), i % 2 == 0 ? weights.vector(kWidth) : nullptr});
                b.prepare_for(x, {&linears.back()});
            }
            std::vector<Ref> results;
            for (const Linear& linear : linears) results.push_back(b.linear(x, linear, "product"));
            Ref sum = x;
            for (const Ref result : results) sum = b.add(sum, result, "add");
            const Graph graph = b.finish(b.linear(sum, table, "output"));
            EXPECT_EQ(largest_products_stage(graph), products);
            expect_stages_change_nothing(graph, kVocabulary);
        }
    }
}

// A matrix as a whole, and as three slices of its rows.
TEST(ProductsOfOneInput, MayBeSlicesOfOneMatrix) {
    constexpr int64_t kWidth = 256;
    constexpr int64_t kRows[] = {96, 33, 7};
    for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q5_K}) {
        for (const int32_t tokens : {1, 3, 40}) {
            SCOPED_TRACE(testing::Message() << name(type) << ", " << tokens << " tokens");
            Weights weights;
            const ops::WeightMatrix table = weights.matrix(DType::F32, kVocabulary, kWidth);
            const ops::WeightMatrix whole = weights.matrix(type, kRows[0] + kRows[1] + kRows[2], kWidth);
            const float* bias = weights.vector(whole.rows);
            const Linear outputs[] = {{weights.matrix(DType::F32, kWidth, kRows[0]), nullptr},
                                      {weights.matrix(DType::F32, kWidth, kRows[1]), nullptr},
                                      {weights.matrix(DType::F32, kWidth, kRows[2]), nullptr}};
            const auto build = [&](bool sliced) {
                Builder b({tokens, tokens}, ops::cpu(), {});
                const Ref x = b.embed(table);
                const Ref all = sliced ? kNone : b.linear(x, {whole, bias}, "whole");
                std::vector<Ref> parts;
                for (int64_t i = 0, row = 0; i < 3; row += kRows[i++]) {
                    ops::WeightMatrix slice = whole;
                    slice.rows = kRows[i];
                    slice.data += row_bytes(type, kWidth) * static_cast<size_t>(row);
                    parts.push_back(sliced ? b.linear(x, {slice, bias + row}, "slice") : b.slice(all, row, kRows[i]));
                }
                Ref sum = x;
                for (size_t i = 0; i < 3; ++i) sum = b.add(sum, b.linear(parts[i], outputs[i], "back"), "add");
                return b.finish(b.linear(sum, {table, nullptr}, "output"));
            };
            const Graph slices = build(true);
            EXPECT_EQ(largest_products_stage(slices), 3);
            EXPECT_TRUE(same_bits(expect_stages_change_nothing(slices, kVocabulary), expect_stages_change_nothing(build(false), kVocabulary)));
        }
    }
}

}  // namespace
}  // namespace cellar::graph
