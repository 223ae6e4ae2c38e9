#include "ops/cpu/packed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/thread_team.h"
#include "ops/cpu/matmul.h"
#include "ops/matmul_test_support.h"
#include "ops/reference_matmul.h"

namespace cellar::ops {
namespace {

struct Free {
    void operator()(std::byte* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<std::byte, Free>;

// Exactly as large as promised, so that tools see who writes or reads behind it.
Buffer pack(const WeightMatrix& w, ThreadTeam& team, const std::vector<int64_t>& cuts = {}) {
    const size_t bytes = cpu_impl::packed_bytes(w.type, w.rows, w.cols);
    EXPECT_EQ(bytes % 64, 0U);
    Buffer packed(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
    std::memset(packed.get(), 0xFF, bytes);
    int64_t first = 0;
    for (const int64_t cut : cuts) {
        cpu_impl::pack_rows(w, first, cut, packed.get(), team);
        first = cut;
    }
    cpu_impl::pack_rows(w, first, w.rows, packed.get(), team);
    return packed;
}

class PackedOf : public testing::TestWithParam<DType> {};

class PackedQuantizedOf : public testing::TestWithParam<DType> {};

TEST_P(PackedQuantizedOf, products_have_the_bits_of_the_file_layout) {
    ThreadTeam team(2);
    for (const int64_t cols : widths(GetParam())) {
        for (const int64_t rows : {1, 16, 83, 130}) {
            const Product p(GetParam(), rows, cols, 33, static_cast<uint32_t>(rows));
            for_each_target([&](std::string_view target) {
                SCOPED_TRACE(target);
                std::vector<float> expected;
                std::vector<float> actual;
                MatmulArgs plain = p.args(expected, 33);
                plain.bias = p.bias.data();
                cpu_impl::matmul(plain, team);
                const Buffer packed = pack(plain.w, team);
                for (const int64_t count : {1, 5, 33}) {
                    MatmulArgs args = p.args(actual, count);
                    args.bias = p.bias.data();
                    args.w.data = packed.get();
                    cpu_impl::packed_matmul(args, team);
                    EXPECT_TRUE(same_bits(actual.data(), expected.data(), count * rows)) << rows << " rows, " << cols << " columns, " << count;
                }
            });
        }
    }
}

// Products of plain weights, which are no copy of those in file layout.
class PackedPlainOf : public testing::TestWithParam<std::tuple<DType, bool>> {
  protected:
    [[nodiscard]] static Product product(int64_t rows, int64_t cols, int64_t tokens, uint32_t seed) {
        return {std::get<0>(GetParam()), rows, cols, tokens, seed, std::get<1>(GetParam())};
    }
};

TEST_P(PackedPlainOf, agrees_with_double) {
    ThreadTeam team(2);
    uint32_t seed = 1;
    for (const int64_t cols : widths(DType::F32)) {
        for (const auto& [rows, count] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {16, 2}, {37, 17}, {64, 8}, {83, 13}, {130, 101}}) {
            const Product p = product(rows, cols, count, seed += 10);
            std::vector<float> expected;
            std::vector<float> actual;
            MatmulArgs slow = p.args(expected, count);
            slow.bias = p.bias.data();
            reference_impl::matmul(slow, team);
            for_each_target([&](std::string_view target) {
                SCOPED_TRACE(target);
                const Buffer packed = pack(slow.w, team);
                MatmulArgs fast = p.args(actual, count);
                fast.bias = p.bias.data();
                fast.w.data = packed.get();
                cpu_impl::packed_matmul(fast, team);
                EXPECT_LT(error_ratio(actual, expected), 1e-11) << cols << " columns, " << rows << " rows, " << count << " tokens";
            });
        }
    }
}

TEST_P(PackedPlainOf, does_not_depend_on_company_threads_or_places) {
    ThreadTeam one(1);
    ThreadTeam two(2);
    const int64_t tokens = 103;
    for (const int64_t rows : {83, 150}) {
        const Product p = product(rows, widths(DType::F32).back(), tokens, 99);
        for_each_target([&](std::string_view target) {
            SCOPED_TRACE(target);
            std::vector<float> alone;
            std::vector<float> y;
            MatmulArgs a = p.args(alone, tokens);
            const Buffer packed = pack(a.w, two);
            a.w.data = packed.get();
            for (int32_t i = 0; i < tokens; ++i) {
                a.count = 1;
                a.x_rows = &i;
                a.y_rows = &i;
                cpu_impl::packed_matmul(a, one);
            }
            for (const int64_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 96, 97, 103}) {
                MatmulArgs many = p.args(y, count);
                many.w.data = packed.get();
                cpu_impl::packed_matmul(many, count % 2 != 0 ? one : two);
                ASSERT_TRUE(same_bits(y.data(), alone.data(), count * rows)) << count;
            }
            std::vector<int32_t> from(static_cast<size_t>(tokens));
            std::vector<int32_t> to(static_cast<size_t>(tokens));
            std::iota(to.begin(), to.end(), 0);
            std::mt19937 random(5);
            std::shuffle(to.begin(), to.end(), random);
            for (int32_t& i : from) i = static_cast<int32_t>(random() % static_cast<uint32_t>(tokens));
            MatmulArgs shuffled = p.args(y, tokens);
            shuffled.w.data = packed.get();
            shuffled.x_rows = from.data();
            shuffled.y_rows = to.data();
            cpu_impl::packed_matmul(shuffled, two);
            for (size_t i = 0; i < from.size(); ++i) ASSERT_TRUE(same_bits(y.data() + to[i] * rows, alone.data() + from[i] * rows, rows)) << i;
        });
    }
}

INSTANTIATE_TEST_SUITE_P(formats, PackedPlainOf,
                         testing::Values(std::tuple(DType::F32, false), std::tuple(DType::F16, false), std::tuple(DType::BF16, false),
                                         std::tuple(DType::BF16, true)),
                         [](const auto& tested) {
                             return std::string(name(std::get<0>(tested.param))) + (std::get<1>(tested.param) ? "_exact" : "");
                         });

TEST_P(PackedOf, rows_come_back_whole) {
    ThreadTeam team(2);
    const int64_t cols = widths(GetParam()).back();
    const Product p(GetParam(), 101, cols, 1, 4);
    std::vector<int32_t> ids(101);
    std::iota(ids.begin(), ids.end(), 0);
    std::reverse(ids.begin(), ids.end());
    for_each_target([&](std::string_view target) {
        SCOPED_TRACE(target);
        std::vector<float> ignored;
        WeightMatrix w = p.args(ignored, 1).w;
        std::vector<float> expected(static_cast<size_t>(101 * cols));
        std::vector<float> actual(expected.size());
        cpu_impl::embed(w, ids.data(), 101, {expected.data(), 101, cols, cols}, team);
        const Buffer packed = pack(w, team);
        w.data = packed.get();
        cpu_impl::packed_embed(w, ids.data(), 101, {actual.data(), 101, cols, cols}, team);
        EXPECT_TRUE(same_bits(actual.data(), expected.data(), 101 * cols));
    });
}

TEST_P(PackedOf, piece_by_piece_is_the_same_as_at_once) {
    ThreadTeam one(1);
    ThreadTeam two(2);
    const Product p(GetParam(), 211, widths(GetParam()).back(), 1, 9);
    for_each_target([&](std::string_view target) {
        SCOPED_TRACE(target);
        std::vector<float> ignored;
        const WeightMatrix w = p.args(ignored, 1).w;
        const Buffer whole = pack(w, one);
        const Buffer pieces = pack(w, two, {64, 192});
        EXPECT_EQ(std::memcmp(whole.get(), pieces.get(), cpu_impl::packed_bytes(w.type, w.rows, w.cols)), 0);
    });
}

TEST(Packed, is_about_as_large_as_the_file) {
    for (const DTypeInfo& t : all_dtypes()) {
        const auto file = static_cast<double>(row_bytes(t.type, 4096) * 1024);
        EXPECT_LE(static_cast<double>(cpu_impl::packed_bytes(t.type, 1024, 4096)), 1.02 * file) << t.name;
    }
}

std::vector<DType> types(bool plain) {
    std::vector<DType> out;
    for (const DTypeInfo& t : all_dtypes()) {
        if (t.block > 1 || plain) out.push_back(t.type);
    }
    return out;
}

std::string type_name(const testing::TestParamInfo<DType>& tested) {
    return std::string(name(tested.param));
}

INSTANTIATE_TEST_SUITE_P(formats, PackedOf, testing::ValuesIn(types(true)), type_name);
INSTANTIATE_TEST_SUITE_P(formats, PackedQuantizedOf, testing::ValuesIn(types(false)), type_name);

}  // namespace
}  // namespace cellar::ops
