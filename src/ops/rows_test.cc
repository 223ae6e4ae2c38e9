#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "base/thread_team.h"
#include "ops/cpu/each_target.h"
#include "ops/ops.h"

namespace cellar::ops {
namespace {

constexpr Activation kActivations[] = {Activation::Silu,        Activation::Gelu,    Activation::GeluErf, Activation::Relu,
                                       Activation::ReluSquared, Activation::Sigmoid, Activation::Tanh};

// A matrix with a wider stride than columns; what lies between the rows must stay as it is.
class Matrix {
  public:
    Matrix(int64_t rows, int64_t cols) : rows_(rows), cols_(cols), data_(static_cast<size_t>(rows * (cols + 3)), 77.0F) {}
    Matrix(int64_t rows, int64_t cols, uint32_t seed, float spread = 1.0F) : Matrix(rows, cols) {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal(0.1F, spread);
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < cols; ++c) out().row(r)[c] = normal(random);
        }
    }
    [[nodiscard]] MatOut out() { return {data_.data(), rows_, cols_, cols_ + 3}; }
    [[nodiscard]] Mat in() { return out(); }
    [[nodiscard]] bool margins_kept() const {
        for (int64_t r = 0; r < rows_; ++r) {
            for (int64_t c = cols_; c < cols_ + 3; ++c) {
                if (data_[static_cast<size_t>(r * (cols_ + 3) + c)] != 77.0F) return false;
            }
        }
        return true;
    }
    friend bool same_bits(const Matrix& a, const Matrix& b) { return std::memcmp(a.data_.data(), b.data_.data(), a.data_.size() * 4) == 0; }

  private:
    int64_t rows_;
    int64_t cols_;
    std::vector<float> data_;
};

void expect_near(Matrix& got, Matrix& wanted, double relative, double absolute, const std::string& what) {
    ASSERT_TRUE(got.margins_kept()) << what;
    for (int64_t r = 0; r < got.in().rows; ++r) {
        for (int64_t c = 0; c < got.in().cols; ++c) {
            const double w = wanted.in().row(r)[c];
            ASSERT_NEAR(got.in().row(r)[c], w, absolute + relative * std::fabs(w)) << what << " row " << r << " column " << c;
        }
    }
}

const std::vector<int64_t>& widths() {
    static const std::vector<int64_t> kWidths = [] {
        std::vector<int64_t> all;
        for (int64_t n = 1; n <= 70; ++n) all.push_back(n);
        for (const int64_t n : {96, 127, 513, 896, 4095, 4097, 8200}) all.push_back(n);
        return all;
    }();
    return kWidths;
}

// Runs kernel(ops, y, team) for each target and compares it with the reference; more threads must give the same bits.
template <class Kernel>
void check(int64_t rows, int64_t cols, double relative, double absolute, const std::string& what, Kernel&& kernel) {
    ThreadTeam one(1);
    static ThreadTeam three(3);
    Matrix wanted(rows, cols);
    kernel(reference(), wanted.out(), one);
    for_each_target([&](std::string_view target) {
        const std::string where = fmt::format("{} {} {}x{}", target, what, rows, cols);
        Matrix got(rows, cols);
        kernel(cpu(), got.out(), one);
        expect_near(got, wanted, relative, absolute, where);
        Matrix again(rows, cols);
        kernel(cpu(), again.out(), three);
        EXPECT_TRUE(same_bits(got, again)) << where;
    });
}

TEST(Rows, NormsAgreeWithTheReference) {
    for (const int64_t n : widths()) {
        const int64_t rows = n > 800 ? 5 : 2;
        Matrix x(rows, n, 1, 3.0F);
        Matrix w(1, n, 2);
        Matrix b(1, n, 3);
        const float* weight = n % 3 == 0 ? nullptr : w.in().data;
        const float* bias = n % 2 == 0 ? nullptr : b.in().data;
        check(rows, n, 2e-6, 1e-6, "rms_norm", [&](const Ops& ops, MatOut y, ThreadTeam& team) { ops.rms_norm(x.in(), weight, 1e-5F, y, team); });
        check(rows, n, 1e-5, 1e-5, "layer_norm",
              [&](const Ops& ops, MatOut y, ThreadTeam& team) { ops.layer_norm(x.in(), weight, bias, 1e-5F, y, team); });
    }
}

TEST(Rows, ElementwiseAgreesWithTheReferenceAndWorksInPlace) {
    for (const int64_t n : widths()) {
        const int64_t rows = n > 800 ? 5 : 3;
        Matrix a(rows, n, 4);
        Matrix b(rows, n, 5);
        check(rows, n, 0, 0, "add", [&](const Ops& ops, MatOut y, ThreadTeam& team) { ops.add(a.in(), b.in(), y, team); });
        check(rows, n, 0, 0, "scale", [&](const Ops& ops, MatOut y, ThreadTeam& team) { ops.scale(a.in(), 0.3F, y, team); });
        check(rows, n, 5e-7, 0, "soft_cap", [&](const Ops& ops, MatOut y, ThreadTeam& team) { ops.soft_cap(a.in(), 2.0F, y, team); });
        ThreadTeam team(1);
        Matrix sum(rows, n);
        cpu().add(a.in(), b.in(), sum.out(), team);
        Matrix in_place = a;
        cpu().add(in_place.in(), b.in(), in_place.out(), team);
        EXPECT_TRUE(same_bits(sum, in_place)) << n;
    }
}

TEST(Rows, ActivationsAreAccurateEverywhere) {
    // Everything from where the functions vanish to where they are the identity.
    std::vector<float> points;
    for (float x = -13.0F; x <= 13.0F; x += 0.0037F) points.push_back(x);
    for (float x = 1e-30F; x < 1.0F; x *= 1.7F) {
        points.push_back(x);
        points.push_back(-x);
    }
    for (const float x : {0.0F, -0.0F, 20.0F, -20.0F, 87.0F, -80.0F, 88.5F, 1e4F, 3e8F}) points.push_back(x);
    const auto n = static_cast<int64_t>(points.size());
    const Mat x{points.data(), 1, n, n};
    for (const Activation kind : kActivations) {
        // The exponent of the tanh form is rounded where it is large.
        check(1, n, kind == Activation::Gelu ? 8e-6 : 4e-6, 1e-20, fmt::format("activation {}", static_cast<int>(kind)),
              [&](const Ops& ops, MatOut y, ThreadTeam& team) { ops.activate(kind, x, y, team); });
    }
}

TEST(Rows, ActivationsAgreeAtEveryWidthAndKeepNan) {
    for (const int64_t n : widths()) {
        Matrix a(2, n, 6, 4.0F);
        Matrix b(2, n, 7);
        for (const Activation kind : kActivations) {
            check(2, n, 2.5e-6, 1e-12, "activate_mul",
                  [&](const Ops& ops, MatOut y, ThreadTeam& team) { ops.activate_mul(kind, a.in(), b.in(), y, team); });
        }
    }
    ThreadTeam team(1);
    for_each_target([&](std::string_view target) {
        for (const Activation kind : kActivations) {
            std::vector<float> x(37, std::nanf(""));
            cpu().activate(kind, {x.data(), 1, 37, 37}, {x.data(), 1, 37, 37}, team);
            for (const float y : x) EXPECT_TRUE(std::isnan(y)) << target << " " << static_cast<int>(kind);
        }
        std::vector<float> x(5, std::nanf(""));
        cpu().soft_cap({x.data(), 1, 5, 5}, 30.0F, {x.data(), 1, 5, 5}, team);
        for (const float y : x) EXPECT_TRUE(std::isnan(y)) << target;
    });
}

TEST(Rows, RopeAgreesWithTheReference) {
    for (const RopePairing pairing : {RopePairing::Halves, RopePairing::Neighbours}) {
        for (int dims = 2; dims <= 128; dims += dims < 40 ? 2 : 22) {
            const int width = dims + (dims % 3) * 4;
            std::vector<double> frequency;
            for (int i = 0; i < dims / 2; ++i) frequency.push_back(std::pow(1e4, -2.0 * i / dims));
            const RopeSpec rope{dims, frequency.data(), 1.1};
            const std::vector<int32_t> pos{0, 5, 131071};
            std::vector<float> table(static_cast<size_t>(3 * dims));
            std::vector<float> slow(table);
            cpu().rope_table(rope, pos.data(), 3, table.data());
            reference().rope_table(rope, pos.data(), 3, slow.data());
            EXPECT_EQ(table, slow);
            EXPECT_FLOAT_EQ(table[0], 1.1F);
            Matrix x(3, 4L * width, 8);
            check(3, 4L * width, 1e-6, 5e-7, fmt::format("rope {}", dims), [&](const Ops& ops, MatOut y, ThreadTeam& team) {
                for (int64_t r = 0; r < 3; ++r) std::copy_n(x.in().row(r), 4L * width, y.row(r));
                ops.rope(y, 4, width, dims, pairing, table.data(), team);
            });
        }
    }
}

TEST(Rows, GathersAndCombines) {
    for (const int64_t n : widths()) {
        Matrix x(12, n, 9);
        const std::vector<int32_t> rows{11, 0, 3, 3, 7};
        check(5, n, 0, 0, "gather_rows", [&](const Ops& ops, MatOut y, ThreadTeam& team) { ops.gather_rows(x.in(), rows.data(), 5, y, team); });
        Matrix weights(1, 12, 10);
        check(4, n, 1e-6, 1e-6, "combine_experts",
              [&](const Ops& ops, MatOut y, ThreadTeam& team) { ops.combine_experts(x.in(), weights.in().data, 3, y, team); });
    }
}

// The choice by sorting everything.
struct Routed {
    std::vector<int32_t> ids;
    std::vector<double> weights;
};

Routed route_by_sorting(const RouteSpec& spec, const float* logits) {
    std::vector<double> scores;
    double sum = 0.0;
    for (int e = 0; e < spec.experts; ++e) sum += std::exp(static_cast<double>(logits[e]));
    for (int e = 0; e < spec.experts; ++e) {
        const double x = logits[e];
        scores.push_back(spec.gate == RouteSpec::Gate::Softmax   ? std::exp(x) / sum
                         : spec.gate == RouteSpec::Gate::Sigmoid ? 1 / (1 + std::exp(-x))
                                                                 : x);
    }
    const auto choice = [&](int e) { return scores[static_cast<size_t>(e)] + (spec.selection_bias == nullptr ? 0.0 : spec.selection_bias[e]); };
    const int size = spec.experts / spec.groups;
    std::vector<std::pair<double, int>> groups;
    for (int g = 0; g < spec.groups; ++g) {
        std::vector<double> members;
        for (int e = g * size; e < (g + 1) * size; ++e) members.push_back(-choice(e));
        std::sort(members.begin(), members.end());
        groups.emplace_back(members[0] + (size > 1 ? members[1] : 0.0), g);
    }
    std::sort(groups.begin(), groups.end());
    std::vector<std::pair<double, int>> order;
    for (int i = 0; i < spec.groups_used; ++i) {
        for (int e = groups[static_cast<size_t>(i)].second * size; e < (groups[static_cast<size_t>(i)].second + 1) * size; ++e) {
            order.emplace_back(-choice(e), e);
        }
    }
    std::sort(order.begin(), order.end());
    Routed out;
    double chosen = 0.0;
    for (int j = 0; j < spec.used; ++j) {
        const int e = order[static_cast<size_t>(j)].second;
        out.ids.push_back(e);
        const double s = scores[static_cast<size_t>(e)];
        out.weights.push_back(spec.gate == RouteSpec::Gate::SoftmaxOfChosen ? std::exp(s) : s);
        chosen += out.weights.back();
    }
    for (double& w : out.weights) {
        if (spec.normalise || spec.gate == RouteSpec::Gate::SoftmaxOfChosen) w /= chosen;
        w *= spec.scale;
    }
    return out;
}

TEST(Rows, RoutesAsSortingWould) {
    std::mt19937 random(12);
    ThreadTeam team(3);
    for (int round = 0; round < 400; ++round) {
        RouteSpec spec;
        spec.groups = 1 << random() % 4;
        spec.experts = spec.groups * static_cast<int>(1 + random() % 16);
        spec.groups_used = 1 + static_cast<int>(random() % static_cast<uint32_t>(spec.groups));
        spec.used = 1 + static_cast<int>(random() % static_cast<uint32_t>(spec.experts / spec.groups * spec.groups_used));
        spec.gate = static_cast<RouteSpec::Gate>(random() % 3);
        spec.normalise = random() % 2 == 0;
        spec.scale = 1.5F;
        std::vector<float> bias;
        for (int e = 0; e < spec.experts; ++e) bias.push_back(static_cast<float>(random() % 5) * 0.25F);
        if (random() % 2 == 0) spec.selection_bias = bias.data();
        // Few distinct values, so that there are ties.
        const int64_t rows = round % 50 == 0 ? 300 : 2;
        std::vector<float> logits;
        for (int64_t i = 0; i < rows * spec.experts; ++i) logits.push_back(static_cast<float>(random() % 7) - 3.0F);
        std::vector<int32_t> ids(static_cast<size_t>(rows * spec.used));
        std::vector<float> weights(ids.size());
        cpu().route(spec, {logits.data(), rows, spec.experts, spec.experts}, ids.data(), weights.data(), team);
        for (int64_t r = 0; r < rows; ++r) {
            const Routed wanted = route_by_sorting(spec, logits.data() + r * spec.experts);
            for (int j = 0; j < spec.used; ++j) {
                ASSERT_EQ(ids[static_cast<size_t>(r * spec.used + j)], wanted.ids[static_cast<size_t>(j)]) << round;
                ASSERT_NEAR(weights[static_cast<size_t>(r * spec.used + j)], wanted.weights[static_cast<size_t>(j)], 1e-6) << round;
            }
        }
    }
}

TEST(Rows, RoutesLogitsThatAreNotFiniteToDistinctExperts) {
    ThreadTeam team(1);
    for (const auto gate : {RouteSpec::Gate::Softmax, RouteSpec::Gate::Sigmoid, RouteSpec::Gate::SoftmaxOfChosen}) {
        RouteSpec spec;
        spec.experts = 8;
        spec.used = 5;
        spec.gate = gate;
        spec.normalise = true;
        spec.groups = 4;
        spec.groups_used = 3;
        const float inf = std::numeric_limits<float>::infinity();
        const std::array<float, 8> logits{std::nanf(""), inf, 1.0F, -inf, std::nanf(""), inf, 0.0F, -inf};
        std::array<int32_t, 5> ids{};
        std::array<float, 5> weights{};
        cpu().route(spec, {logits.data(), 1, 8, 8}, ids.data(), weights.data(), team);
        std::array<bool, 8> taken{};
        for (const int32_t id : ids) {
            ASSERT_TRUE(id >= 0 && id < 8);
            EXPECT_FALSE(taken[static_cast<size_t>(id)]);
            taken[static_cast<size_t>(id)] = true;
        }
    }
}

TEST(Target, AllThatThereAreAreNamed) {
    std::string names;
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) names += std::string(names.empty() ? "" : ", ") + hwy::TargetName(target);
    EXPECT_EQ(cpu_targets(), names);
    EXPECT_TRUE((names + ",").starts_with(std::string(cpu_target()) + ",")) << "the best comes first";
}

// A limit holds for the rest of a process, so each is set in one of its own.
TEST(TargetDeathTest, LimitsHoldForTheKernels) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        const std::string name = hwy::TargetName(target);
        const auto limited = [&] {
            const std::string before(cpu_target());
            if (limit_cpu_target("AVX99") || cpu_target() != before) return 1;
            if (!limit_cpu_target(name)) return 2;
            for (int i = 0; i < 3; ++i) {
                if (cpu_target() != name) return 3;
                if (limit_cpu_target("")) return 4;
                if (!(cpu_targets() + ",").starts_with(name + ",")) return 5;
            }
            return 0;
        };
        EXPECT_EXIT(std::exit(limited()), testing::ExitedWithCode(0), "") << name;
    }
}

}  // namespace
}  // namespace cellar::ops
