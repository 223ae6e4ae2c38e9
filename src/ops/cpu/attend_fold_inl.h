// The products of attention on one tile, per target: rows are query heads, columns are positions or elements of values.
#if defined(CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_
#undef CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_
#else
#define CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "ops/cpu/attend_operand_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {

// Up to so many rows a tile is widened on the way: that costs less than a copy of it as floats.
constexpr int kFewRows = 8;
// Of more, so many share the loads of a tile: enough to be bound by arithmetic, few enough to leave their accumulators in registers.
constexpr int kMostRows = kLanes == 16 ? 8 : 6;
// Vectors of columns that M rows take at a time, as far as the registers reach.
template <int M>
constexpr int kColumnVectors = M <= kMostRows ? 2 : 1;

enum class Start { Zero, Given, Scaled };

// c[m, :] = start + sum over k in [first, last) of a[m, k] * tile[k, :], k ascending.
struct Product {
    const float* a;
    int first;
    int last;
    Start start;
    const float* factors;  // [rows]: what c is scaled by before it is added to
    float* c;
    int c_stride;
};

// Where sums start from: memory in any case, so that nothing but addresses depends on how they start and all sums stay in registers.
alignas(64) inline constexpr float kZeros[4 * 16] = {};
inline constexpr float kOnes[8] = {1, 1, 1, 1, 1, 1, 1, 1};
static_assert(kFewRows <= 8 && kMostRows <= kFewRows);

// For M rows and C vectors of columns; a, factors and c are those of the part. (Values, not a copy of the product: a copy waits for the
// stores that made it.) Returns the tile, which knows how far it has fetched ahead.
template <int M, int C, int kStride, class Tile>
Tile multiply(const float* HWY_RESTRICT a, int first, int last, Start start, const float* factors, float* c, int c_stride, Tile tile) {
    const DF d;
    const float* from = start == Start::Zero ? kZeros : c;
    const int from_stride = start == Start::Zero ? 0 : c_stride;
    const float* by = start == Start::Scaled ? factors : kOnes;
    VF sum[M][C];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
        const VF factor = hn::Set(d, by[m]);
#pragma GCC unroll 4
        for (int j = 0; j < C; ++j) sum[m][j] = hn::Mul(hn::Load(d, from + m * from_stride + j * kLanes), factor);
    }
    const auto step = [&](int k) HWY_ATTR {
        VF right[C];
#pragma GCC unroll 4
        for (int j = 0; j < C; ++j) right[j] = tile(k, j);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) {
            const VF left = hn::Set(d, a[m * kStride + k]);
#pragma GCC unroll 4
            for (int j = 0; j < C; ++j) sum[m][j] = hn::MulAdd(left, right[j], sum[m][j]);
        }
    };
    int k = first;
    for (; k + 2 <= last; k += 2) {
        tile.template fetch_next<2 * C>();
        step(k);
        step(k + 1);
    }
    if (k < last) {
        tile.template fetch_next<C>();
        step(k);
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
        for (int j = 0; j < C; ++j) hn::Store(sum[m][j], d, c + m * c_stride + j * kLanes);
    }
    return tile;
}

template <class Run, int... kCounts>
HWY_INLINE void with_count(int count, const Run& run, std::integer_sequence<int, kCounts...> /*counts*/) {
    (void)((count == kCounts + 1 ? (run(std::integral_constant<int, kCounts + 1>()), true) : false) || ...);
}

// Calls run(first, M) with blocks of rows of nearly one size that cover [0, rows), M as a constant in [1, kFewRows].
template <class Run>
HWY_INLINE void for_row_blocks(int rows, const Run& run) {
    if (rows <= kFewRows) {
        const auto all = [&](auto m) HWY_ATTR { run(0, m); };
        return with_count(rows, all, std::make_integer_sequence<int, kFewRows>());
    }
    const int blocks = (rows + kMostRows - 1) / kMostRows;
    for (int i = 0; i < blocks; ++i) {
        const int first = rows * i / blocks;
        const auto part = [&](auto m) HWY_ATTR { run(first, m); };
        with_count(rows * (i + 1) / blocks - first, part, std::make_integer_sequence<int, kMostRows>());
    }
}

// Calls run(first, last) for the stretches of positions that are seen. Chains of additions pass over the others: they may hold anything.
template <class Run>
HWY_INLINE void for_stretches(uint32_t seen, const Run& run) {
    for (uint64_t left = seen; left != 0;) {
        const int first = std::countr_zero(left);
        const int last = first + std::countr_one(left >> first);
        run(first, last);
        left &= ~uint64_t{0} << last;
    }
}

// Few rows have few chains of additions, which would wait for each other: they take more columns at a time.
template <int M>
constexpr bool kWide = kLanes == 16 && M <= 4;

// The product for any number of rows and columns. Columns are a multiple of the lanes, and all of a tile where they are positions.
template <int kStride, class Tile>
void multiply_all(int rows, int columns, const Product& x, const Tile& tile) {
    for_row_blocks(rows, [&](int row, auto m) HWY_ATTR {
        constexpr int kRows = decltype(m)::value;
        const float* a = x.a + row * kStride;
        const float* factors = x.factors + row;
        float* c = x.c + row * x.c_stride;
        int column = 0;
        if constexpr (kWide<kRows> && kStride == kTile) {
            for (; column + 4 * kLanes <= columns; column += 4 * kLanes) {
                multiply<kRows, 4, kStride>(a, x.first, x.last, x.start, factors, c + column, x.c_stride, tile.from(column));
            }
        }
        constexpr int C = kColumnVectors<kRows>;
        for (; column + C * kLanes <= columns; column += C * kLanes) {
            multiply<kRows, C, kStride>(a, x.first, x.last, x.start, factors, c + column, x.c_stride, tile.from(column));
        }
        if constexpr (kStride == kTile && C > 1) {
            if (column < columns) multiply<kRows, 1, kStride>(a, x.first, x.last, x.start, factors, c + column, x.c_stride, tile.from(column));
        }
    });
}

#if HWY_TARGET != HWY_SCALAR

// c[m, :] = factors[m] * c[m, :] + the sum over positions in `seen` of their weights times their values, which lie in the cells.
struct CellProduct {
    const Rows& rows;
    uint32_t seen;
    const float* weights;       // [rows, kTile]
    const float* value_scales;  // [blocks, kTile]: of packed values
    float* scaled;              // [rows, kTile]: space for weights times scales
    const float* factors;       // [rows], or null: ones
    float* c;
    int c_stride;
    int columns;  // a multiple of 16
};

template <int M, int C, kv::RowFormat format>
HWY_INLINE void add_seen(const CellProduct& x, const float* weights, const float* factors, float* c, CellTile<format>& tile) {
    Start start = factors == nullptr ? Start::Given : Start::Scaled;
    for_stretches(x.seen, [&](int first, int last) HWY_ATTR {
        tile = multiply<M, C, kTile>(weights, first, last, start, factors, c, x.c_stride, tile);
        start = Start::Given;
    });
}

template <int M, kv::RowFormat format>
HWY_INLINE void add_columns(const CellProduct& x, int row, const float* weights, int from, int to, CellTile<format>& tile) {
    const float* factors = x.factors == nullptr ? nullptr : x.factors + row;
    float* c = x.c + row * x.c_stride;
    int column = from;
    const auto step = [&]<int C>(std::integral_constant<int, C>) HWY_ATTR {
        for (; column + C * kLanes <= to; column += C * kLanes) {
            tile.at = element_at(format, column);
            add_seen<M, C>(x, weights, factors, c + column, tile);
        }
    };
    if constexpr (kWide<M> && format != kv::RowFormat::Q8_0) step(std::integral_constant<int, 4>());
    if constexpr (kColumnVectors<M> == 2) step(std::integral_constant<int, 2>());
    step(std::integral_constant<int, 1>());
}

// The scale of a packed block goes into the weights: one product for a position in place of one for each of its values.
template <int M>
HWY_INLINE void scale_weights(const float* weights, const float* scales, float* scaled) {
    const DF d;
    for (int i = 0; i < kTile; i += kLanes) {
        const VF scale = hn::Load(d, scales + i);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) hn::Store(hn::Mul(hn::Load(d, weights + m * kTile + i), scale), d, scaled + m * kTile + i);
    }
}

template <kv::RowFormat format>
void add_cells(int rows, int row_bytes, const CellProduct& x) {
    for_row_blocks(rows, [&](int row, auto m) HWY_ATTR {
        constexpr int M = decltype(m)::value;
        const float* weights = x.weights + row * kTile;
        // Every pass over rows fetches all that is to come: what has been fetched costs little.
        CellTile<format> tile{&x.rows, 0, {&x.rows, 0, row_bytes}};
        if constexpr (format != kv::RowFormat::Q8_0) {
            add_columns<M>(x, row, weights, 0, x.columns, tile);
        } else {
            for (int column = 0; column < x.columns; column += kPackedBlock) {
                scale_weights<M>(weights, x.value_scales + column, x.scaled);
                add_columns<M>(x, row, x.scaled, column, std::min(column + kPackedBlock, x.columns), tile);
            }
        }
    });
}

#endif

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
