// Matrix products of both tables: against each other, for every format, CPU target and shape, and bit for bit where that is promised.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/thread_team.h"
#include "ops/activation_form.h"
#include "ops/cpu/matmul.h"
#include "ops/matmul_test_support.h"
#include "ops/ops.h"
#include "ops/reference_matmul.h"
#include "tensor/row_codec.h"

namespace cellar::ops {
namespace {

class MatmulOf : public testing::TestWithParam<DType> {};

TEST_P(MatmulOf, agrees_with_double) {
    ThreadTeam team(2);
    uint32_t seed = 1;
#ifdef CELLAR_REDUCED_TESTS
    const std::vector<std::pair<int64_t, int64_t>> shapes{{1, 1}, {37, 17}};
#else
    const std::vector<std::pair<int64_t, int64_t>> shapes{{1, 1}, {3, 5}, {16, 2}, {37, 17}, {64, 8}, {70, 33}, {129, 67}};
#endif
    for (const int64_t cols : widths(GetParam())) {
        for (const auto& [rows, count] : shapes) {
            const Product p(GetParam(), rows, cols, count, seed += 10);
            std::vector<float> expected;
            std::vector<float> actual;
            MatmulArgs slow = p.args(expected, count);
            slow.bias = p.bias.data();
            reference_impl::matmul(slow, team);
            for_each_target([&](std::string_view target) {
                SCOPED_TRACE(target);
                MatmulArgs fast = p.args(actual, count);
                fast.bias = p.bias.data();
                cpu_impl::matmul(fast, team);
                EXPECT_LT(error_ratio(actual, expected), 1e-11) << cols << " columns, " << rows << " rows, " << count << " tokens";
            });
        }
    }
}

TEST_P(MatmulOf, does_not_depend_on_company_threads_or_places) {
    ThreadTeam one(1);
    ThreadTeam two(2);
    const int64_t cols = widths(GetParam()).back();
    const int64_t rows = 83;
    const int64_t tokens = 103;
    const Product p(GetParam(), rows, cols, tokens, 99);
    std::mt19937 random(5);
    for_each_target([&](std::string_view target) {
        SCOPED_TRACE(target);
        std::vector<float> alone;
        std::vector<float> y;
        MatmulArgs a = p.args(alone, tokens);
        for (int32_t i = 0; i < tokens; ++i) {
            a.count = 1;
            a.x_rows = &i;
            a.y_rows = &i;
            cpu_impl::matmul(a, one);
        }
        for (const int64_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 70, 103}) {
            cpu_impl::matmul(p.args(y, count), count % 2 != 0 ? one : two);
            ASSERT_TRUE(same_bits(y.data(), alone.data(), count * rows)) << count;
        }
        std::vector<int32_t> from(static_cast<size_t>(tokens));
        std::vector<int32_t> to(static_cast<size_t>(tokens));
        std::iota(to.begin(), to.end(), 0);
        std::shuffle(to.begin(), to.end(), random);
        for (int32_t& i : from) i = static_cast<int32_t>(random() % static_cast<uint32_t>(tokens));
        MatmulArgs shuffled = p.args(y, tokens);
        shuffled.x_rows = from.data();
        shuffled.y_rows = to.data();
        cpu_impl::matmul(shuffled, two);
        for (size_t i = 0; i < from.size(); ++i) ASSERT_TRUE(same_bits(y.data() + to[i] * rows, alone.data() + from[i] * rows, rows)) << i;
        // A part of the rows alone gives the same as all of them.
        for (const int64_t first : {0, 1, 17, 82}) {
            MatmulArgs part = p.args(y, 3);
            part.w.rows = rows - first;
            part.w.data += static_cast<size_t>(first) * row_bytes(p.type, cols);
            part.y.cols = part.w.rows;
            cpu_impl::matmul(part, two);
            for (int64_t i = 0; i < 3; ++i) ASSERT_TRUE(same_bits(part.y.row(i), alone.data() + i * rows + first, rows - first)) << first;
        }
    });
}

// Several products as one, gates among them, in both layouts: what each gives by itself.
TEST_P(MatmulOf, products_worked_through_as_one_are_those_of_each_alone) {
    ThreadTeam one(1);
    ThreadTeam two(2);
    const int64_t cols = widths(GetParam()).back();
    constexpr int64_t kTokens = 103;
    std::vector<Product> parts;
    for (int i = 0; i < 20; ++i) parts.emplace_back(GetParam(), i % 3 == 0 ? 150 : 17 + i, cols, kTokens, static_cast<uint32_t>(50 + i));
    std::vector<int32_t> from(kTokens);
    std::vector<int32_t> to(kTokens);
    std::iota(to.begin(), to.end(), 0);
    std::reverse(to.begin(), to.end());
    for (int32_t i = 0; i < kTokens; ++i) from[static_cast<size_t>(i)] = (i * 7 + 3) % static_cast<int32_t>(kTokens);
    for_each_target([&](std::string_view target) {
        SCOPED_TRACE(target);
        for (const bool packed : {false, true}) {
            std::vector<PackedWeights> weights;
            for (const Product& p : parts) weights.emplace_back(p.matrix(), packed);
            for (const int64_t count : {1, 2, 71}) {
                std::vector<std::vector<float>> expected(parts.size());
                std::vector<std::vector<float>> actual(parts.size());
                std::vector<MatmulArgs> joined;
                for (size_t i = 0; i < parts.size(); ++i) {
                    const auto args_of = [&](std::vector<float>& y, size_t w) {
                        MatmulArgs a = parts[i].args(y, count);
                        y.assign(static_cast<size_t>(kTokens * parts[i].rows), -7.0F);
                        a.y = {y.data(), kTokens, parts[i].rows, parts[i].rows};
                        a.w = weights[w].matrix;
                        if (i % 2 == 0) a.bias = parts[w].bias.data();
                        if (i % 5 == 0) a.x_rows = from.data();
                        if (i % 5 == 0) a.y_rows = to.data();
                        return a;
                    };
                    // A gate is the matrix of another part of as many rows.
                    const size_t gate = i >= 3 && i % 3 == 0 ? i - 3 : i;
                    const MatmulArgs alone = args_of(expected[i], i);
                    cpu_impl::matmul(alone, one);
                    MatmulArgs a = args_of(actual[i], i);
                    if (gate != i) {
                        a.activation = i % 2 == 0 ? Activation::Silu : Activation::Gelu;
                        a.gate = weights[gate].matrix;
                        if (i % 2 == 0) a.gate_bias = parts[gate].bias.data();
                        std::vector<float> gates;
                        cpu_impl::matmul(args_of(gates, gate), one);
                        for (int64_t t = 0; t < count; ++t) {
                            const int64_t row = a.y_rows != nullptr ? to[static_cast<size_t>(t)] : t;
                            const MatOut up{expected[i].data() + row * a.w.rows, 1, a.w.rows, a.w.rows};
                            cpu().activate_mul(a.activation, {gates.data() + row * a.w.rows, 1, a.w.rows, a.w.rows}, up, up, one);
                        }
                    }
                    joined.push_back(a);
                }
                cpu_impl::matmul(joined, two);
                for (size_t i = 0; i < parts.size(); ++i) {
                    ASSERT_TRUE(same_bits(actual[i].data(), expected[i].data(), kTokens * parts[i].rows))
                        << i << (packed ? " packed " : " ") << count;
                }
            }
        }
    });
}

TEST_P(MatmulOf, gates_are_near_the_reference) {
    ThreadTeam team(2);
    const Product p(GetParam(), 83, widths(GetParam()).back(), 5, 31);
    const Product gate(GetParam(), 83, widths(GetParam()).back(), 5, 47);
    for_each_target([&](std::string_view target) {
        SCOPED_TRACE(target);
        std::vector<float> expected;
        std::vector<float> actual;
        const auto with_gate = [&](std::vector<float>& y) {
            MatmulArgs a = p.args(y, 5);
            a.bias = p.bias.data();
            a.gate = gate.matrix();
            a.gate_bias = gate.bias.data();
            a.activation = Activation::Gelu;
            return a;
        };
        reference_impl::matmul(with_gate(expected), team);
        cpu_impl::matmul(with_gate(actual), team);
        EXPECT_LE(error_ratio(actual, expected), 1e-9);
    });
}

TEST_P(MatmulOf, writes_nothing_but_its_rows) {
    ThreadTeam team(1);
    const int64_t cols = widths(GetParam()).front();
    const Product p(GetParam(), 5, cols, 3, 7);
    for_each_target([&](std::string_view target) {
        SCOPED_TRACE(target);
        std::vector<float> ignored;
        std::vector<float> y(3 * 9, 42.0F);
        MatmulArgs a = p.args(ignored, 3);
        a.y = {y.data(), 3, 5, 9};
        const int32_t only = 1;
        a.count = 1;
        a.y_rows = &only;
        cpu_impl::matmul(a, team);
        for (size_t i = 0; i < y.size(); ++i) {
            if (i < 9 || i >= 14) {
                EXPECT_EQ(y[i], 42.0F) << i;
            }
        }
    });
}

// Extreme bytes are what files from elsewhere may hold: every quant and scale byte at its limits.
TEST_P(MatmulOf, takes_extreme_quants) {
    if (info(GetParam()).block == 1) GTEST_SKIP() << "plain floats have no quants";
    ThreadTeam team(1);
    Product p(GetParam(), 18, 512, 5, 3);
    std::mt19937 random(11);
    std::vector<float> decoded(512);
    const size_t bytes = row_bytes(p.type, p.cols);
    for (int64_t r = 0; r < p.rows; ++r) {
        std::byte* row = p.weights.data() + 1 + static_cast<size_t>(r) * bytes;
        do {
            for (size_t i = 0; i < bytes; ++i) row[i] = static_cast<std::byte>(r == 0 ? 0x80 : r == 1 ? 0x7F : r == 2 ? 0 : random());
            // Scales must be numbers for a comparison to make sense.
            if (r < 3) encode_row(p.type, normal_values(512, 4).data(), 512, row);
            if (r == 0 && p.type == DType::Q8_0) std::fill_n(row + 2, 32, static_cast<std::byte>(0x80));
            decode_row(p.type, row, p.cols, decoded.data());
        } while (!std::all_of(decoded.begin(), decoded.end(), [](float v) { return std::fabs(v) < 1e20F; }));
    }
    std::vector<float> expected;
    std::vector<float> actual;
    reference_impl::matmul(p.args(expected, 5), team);
    for_each_target([&](std::string_view target) {
        SCOPED_TRACE(target);
        cpu_impl::matmul(p.args(actual, 5), team);
        for (int64_t r = 0; r < p.rows; ++r) {
            std::vector<float> a;
            std::vector<float> b;
            for (int64_t i = 0; i < 5; ++i) {
                a.push_back(actual[static_cast<size_t>(i * p.rows + r)]);
                b.push_back(expected[static_cast<size_t>(i * p.rows + r)]);
            }
            EXPECT_LT(error_ratio(a, b), 1e-9) << r;
        }
    });
}

INSTANTIATE_TEST_SUITE_P(formats, MatmulOf, testing::ValuesIn([] {
                             std::vector<DType> types;
                             for (const DTypeInfo& t : all_dtypes()) types.push_back(t.type);
                             return types;
                         }()),
                         [](const auto& tested) { return std::string(name(tested.param)); });

TEST(Activations, both_tables_prepare_the_same_bytes) {
    ThreadTeam team(2);
    const int64_t cols = 768;
    std::vector<float> x = normal_values(9 * cols, 1);
    for (size_t i = 0; i < 256; ++i) x[i] = 0;          // a block of zeros
    for (size_t i = 256; i < 512; ++i) x[i] *= 1e-37F;  // too small to scale
    x[768 + 40] = std::numeric_limits<float>::infinity();
    x[1536 + 300] = std::numeric_limits<float>::quiet_NaN();
    for (size_t i = 2304; i < 2560; ++i) x[i] = static_cast<float>(static_cast<int>(i % 5) - 2) * 63.5F;  // halves, which round to even
    for (size_t i = 3072; i < 3328; ++i) x[i] *= 1e37F;
    const Mat m{x.data(), 9, cols, cols};
    for (const ActivationForm form : {ActivationForm::F32, ActivationForm::BF16, ActivationForm::Q8, ActivationForm::Q8_256}) {
        const size_t bytes = reference_impl::activation_row_bytes(form, cols);
        ASSERT_EQ(bytes, cpu_impl::activation_row_bytes(form, cols));
        std::vector<std::byte> slow(9 * bytes);
        reference_impl::prepare_activations(form, m, slow.data(), team);
        for_each_target([&](std::string_view target) {
            SCOPED_TRACE(target);
            std::vector<std::byte> fast(9 * bytes, std::byte{1});
            cpu_impl::prepare_activations(form, m, fast.data(), team);
            EXPECT_EQ(std::memcmp(fast.data(), slow.data(), slow.size()), 0) << static_cast<int>(form);
        });
    }
}

TEST(Activations, decode_to_what_they_stand_for) {
    const std::vector<float> x = normal_values(512, 3);
    for (const ActivationForm form : {ActivationForm::F32, ActivationForm::BF16, ActivationForm::Q8, ActivationForm::Q8_256}) {
        std::vector<std::byte> row(form_row_bytes(form, 512));
        std::vector<float> y(512);
        encode_activations(form, x.data(), 512, row.data());
        decode_activations(form, row.data(), 512, y.data());
        // Half a step of 1/127 of the largest value of a block, which is below 4.5.
        const float bound = form == ActivationForm::F32 ? 0.0F : form == ActivationForm::BF16 ? 0.01F : 0.018F;
        for (size_t i = 0; i < 512; ++i) ASSERT_NEAR(y[i], x[i], bound) << i;
    }
}

TEST(Activations, that_are_not_finite_make_results_that_are_not) {
    ThreadTeam team(1);
    for (const DType type : {DType::Q8_0, DType::Q4_K, DType::Q6_K, DType::Q4_1, DType::F32, DType::F16, DType::BF16}) {
        for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            Product p(type, 20, 512, 2, 8);
            p.x[300] = bad;
            const ActivationForm form = activation_form(type);
            encode_activations(form, p.x.data(), 512, p.prepared.data());
            for_each_target([&](std::string_view target) {
                SCOPED_TRACE(target);
                std::vector<float> y;
                cpu_impl::matmul(p.args(y, 2), team);
                for (size_t r = 0; r < 20; ++r) {
                    EXPECT_FALSE(std::isfinite(y[r]));
                    EXPECT_TRUE(std::isfinite(y[20 + r]));
                }
            });
        }
    }
}

// Some of them have nothing to do.
TEST(Matmul, takes_more_products_than_it_works_through_as_one) {
    ThreadTeam team(2);
    const Product plain(DType::F32, 70, 64, 3, 61);
    const Product quantized(DType::Q8_0, 70, 64, 3, 67);
    for (const size_t products : {kJoinedProducts, kJoinedProducts + 1, 2 * kJoinedProducts + 7}) {
        std::vector<std::vector<float>> results(products);
        std::vector<MatmulArgs> joined;
        const auto args = [&](size_t i, std::vector<float>& y) {
            MatmulArgs a = (i % 3 == 0 ? plain : quantized).args(y, 3);
            a.count = i % 10 == 9 ? 0 : 1 + static_cast<int64_t>(i % 3);
            return a;
        };
        for (size_t i = 0; i < products; ++i) joined.push_back(args(i, results[i]));
        cpu_impl::matmul(joined, team);
        for (size_t i = 0; i < products; ++i) {
            std::vector<float> alone;
            cpu_impl::matmul(args(i, alone), team);
            ASSERT_TRUE(same_bits(results[i].data(), alone.data(), 3 * 70)) << i << " of " << products;
        }
    }
}

TEST(Matmul, exact_activations_meet_bf16_weights_unrounded) {
    ThreadTeam team(2);
    for (const int64_t cols : widths(DType::BF16)) {
        const Product p(DType::BF16, 37, cols, 17, 5, true);
        std::vector<float> expected;
        std::vector<float> actual;
        reference_impl::matmul(p.args(expected, 17), team);
        for_each_target([&](std::string_view target) {
            SCOPED_TRACE(target);
            cpu_impl::matmul(p.args(actual, 17), team);
            EXPECT_LT(error_ratio(actual, expected), 1e-11) << cols;
        });
    }
}

TEST(Embed, gives_the_rows_asked_for) {
    ThreadTeam team(2);
    for (const DTypeInfo& t : all_dtypes()) {
        const int64_t cols = 512;
        const Product p(t.type, 40, cols, 1, 77);
        const std::vector<int32_t> ids{39, 0, 7, 7, 21};
        std::vector<float> slow(5 * cols);
        std::vector<float> fast(5 * cols);
        std::vector<float> row(cols);
        const WeightMatrix w{t.type, 40, cols, p.weights.data() + 1};
        reference_impl::embed(w, ids.data(), 5, {slow.data(), 5, cols, cols}, team);
        cpu_impl::embed(w, ids.data(), 5, {fast.data(), 5, cols, cols}, team);
        for (size_t i = 0; i < 5; ++i) {
            decode_row(t.type, w.data + static_cast<size_t>(ids[i]) * row_bytes(t.type, cols), cols, row.data());
            EXPECT_TRUE(same_bits(slow.data() + i * cols, row.data(), cols)) << t.name;
            EXPECT_TRUE(same_bits(fast.data() + i * cols, row.data(), cols)) << t.name;
        }
    }
}

}  // namespace
}  // namespace cellar::ops
