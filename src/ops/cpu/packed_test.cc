#include "ops/cpu/packed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "ops/cpu/matmul.h"
#include "ops/matmul_test_support.h"

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

TEST_P(PackedOf, products_have_the_bits_of_the_file_layout) {
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
                    args.w.packed = true;
                    cpu_impl::matmul(args, team);
                    EXPECT_TRUE(same_bits(actual.data(), expected.data(), count * rows)) << rows << " rows, " << cols << " columns, " << count;
                }
            });
        }
    }
}

TEST(Packed, exact_activations_give_the_bits_of_the_file_layout) {
    ThreadTeam team(2);
    for (const int64_t cols : widths(DType::BF16)) {
        const Product p(DType::BF16, 83, cols, 33, 3, true);
        for_each_target([&](std::string_view target) {
            SCOPED_TRACE(target);
            std::vector<float> expected;
            std::vector<float> actual;
            const MatmulArgs plain = p.args(expected, 33);
            cpu_impl::matmul(plain, team);
            const Buffer packed = pack(plain.w, team);
            MatmulArgs args = p.args(actual, 33);
            args.w.data = packed.get();
            args.w.packed = true;
            cpu_impl::matmul(args, team);
            EXPECT_TRUE(same_bits(actual.data(), expected.data(), 33 * 83)) << cols;
        });
    }
}

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

INSTANTIATE_TEST_SUITE_P(formats, PackedOf, testing::ValuesIn([] {
                             std::vector<DType> types;
                             for (const DTypeInfo& t : all_dtypes()) types.push_back(t.type);
                             return types;
                         }()),
                         [](const auto& tested) { return std::string(name(tested.param)); });

}  // namespace
}  // namespace cellar::ops
