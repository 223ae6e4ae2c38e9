// The products of attention on one tile, per target: rows are query heads, columns are positions or elements of values.
#if defined(CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_
#undef CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_
#else
#define CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <utility>

#include "ops/cpu/attend_operand_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {

// Rows that share the loads of a tile: enough to be bound by arithmetic, few enough to leave their accumulators in registers.
constexpr int kMostRows = kLanes == 16 ? 8 : 6;
// Up to so many rows a tile is widened on the way, twice if need be: that costs less than a copy of it as floats.
constexpr int kFewRows = 8;

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
static_assert(kMostRows <= 8);

// For M rows and C vectors of columns; a, factors and c are those of the part. (Values, not a copy of the product: a copy waits for the
// stores that made it.)
template <int M, int C, int kStride, class Tile>
void multiply(const float* HWY_RESTRICT a, int first, int last, Start start, const float* factors, float* c, int c_stride, Tile tile) {
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
}

template <class Run, int... kCounts>
HWY_INLINE void with_count(int count, const Run& run, std::integer_sequence<int, kCounts...> /*counts*/) {
    (void)((count == kCounts + 1 ? (run(std::integral_constant<int, kCounts + 1>()), true) : false) || ...);
}

// Calls run(first, M) with blocks of rows of nearly one size that cover [0, rows), M as a constant in [1, kMostRows].
template <class Run>
HWY_INLINE void for_row_blocks(int rows, const Run& run) {
    const int blocks = (rows + kMostRows - 1) / kMostRows;
    for (int i = 0; i < blocks; ++i) {
        const int first = rows * i / blocks;
        const auto part = [&](auto m) HWY_ATTR { run(first, m); };
        with_count(rows * (i + 1) / blocks - first, part, std::make_integer_sequence<int, kMostRows>());
    }
}

// The product for any number of rows and columns. Columns are a multiple of the lanes, and all of a tile where they are positions.
template <int kStride, class Tile>
void multiply_all(int rows, int columns, const Product& x, const Tile& tile) {
    for_row_blocks(rows, [&](int row, auto m) HWY_ATTR {
        constexpr int kRows = decltype(m)::value;
        const float* a = x.a + row * kStride;
        const float* factors = x.factors + row;
        float* c = x.c + row * x.c_stride;
        int column = 0;
        if constexpr (kLanes == 16 && kRows <= 4 && kStride == kTile) {
            // Few rows have few chains of additions, which would wait for each other.
            for (; column + 4 * kLanes <= columns; column += 4 * kLanes) {
                multiply<kRows, 4, kStride>(a, x.first, x.last, x.start, factors, c + column, x.c_stride, tile.from(column));
            }
        }
        for (; column + 2 * kLanes <= columns; column += 2 * kLanes) {
            multiply<kRows, 2, kStride>(a, x.first, x.last, x.start, factors, c + column, x.c_stride, tile.from(column));
        }
        if constexpr (kStride == kTile) {
            if (column < columns) multiply<kRows, 1, kStride>(a, x.first, x.last, x.start, factors, c + column, x.c_stride, tile.from(column));
        }
    });
}

// One block of 32 packed elements: scores[m, :] += (query . keys as integers) * key scale * query scale.
struct PackedProduct {
    const float* query;         // [rows, kChunk]: int8 values as floats
    const int8_t* query_bytes;  // [rows, kChunk]
    const float* query_scales;  // [rows]
    const int32_t* starts;      // [rows]
    const float* keys;          // [32, kTile] as floats, or units [8, kTile] of bytes + 128
    const float* key_scales;    // [kTile]
    float* scores;              // [rows, kTile]
    bool first;                 // scores begin with this block
};

#if HWY_TARGET == HWY_AVX3_DL

// Products of the bytes of M rows with C vectors of positions, as integers.
template <int M, int C>
HWY_INLINE void multiply_bytes(const PackedProduct& x, int column, VF (&sum)[M][C]) {
    __m512i whole[M][C];
    for (int m = 0; m < M; ++m) {
        for (int j = 0; j < C; ++j) whole[m][j] = _mm512_set1_epi32(x.starts[m]);
    }
    for (int u = 0; u < 8; ++u) {
        __m512i right[C];
        for (int j = 0; j < C; ++j) right[j] = _mm512_load_si512(x.keys + u * kTile + column + j * kLanes);
        for (int m = 0; m < M; ++m) {
            int32_t four = 0;
            std::memcpy(&four, x.query_bytes + m * kChunk + 4 * u, sizeof four);
            for (int j = 0; j < C; ++j) whole[m][j] = _mm512_dpbusd_epi32(whole[m][j], right[j], _mm512_set1_epi32(four));
        }
    }
    for (int m = 0; m < M; ++m) {
        for (int j = 0; j < C; ++j) sum[m][j] = VF{_mm512_cvtepi32_ps(whole[m][j])};
    }
}

#else

// Sums of 32 products of bytes are exact in a float, so this is the same as with integers.
template <int M, int C>
HWY_INLINE void multiply_bytes(const PackedProduct& x, int column, VF (&sum)[M][C]) {
    const DF d;
    for (int m = 0; m < M; ++m) {
        for (int j = 0; j < C; ++j) sum[m][j] = hn::Zero(d);
    }
    for (int k = 0; k < kPackedBlock; ++k) {
        VF right[C];
        for (int j = 0; j < C; ++j) right[j] = hn::Load(d, x.keys + k * kTile + column + j * kLanes);
        for (int m = 0; m < M; ++m) {
            for (int j = 0; j < C; ++j) sum[m][j] = hn::MulAdd(hn::Set(d, x.query[m * kChunk + k]), right[j], sum[m][j]);
        }
    }
}

#endif

template <int M>
void multiply_packed(const PackedProduct& x) {
    constexpr int C = 2;
    const DF d;
    for (int column = 0; column < kTile; column += C * kLanes) {
        VF sum[M][C];
        multiply_bytes<M, C>(x, column, sum);
        for (int j = 0; j < C; ++j) {
            const VF scale = hn::Load(d, x.key_scales + column + j * kLanes);
            for (int m = 0; m < M; ++m) {
                float* out = x.scores + m * kTile + column + j * kLanes;
                const VF before = hn::Load(d, x.first ? kZeros : out);
                hn::Store(hn::MulAdd(hn::Mul(sum[m][j], scale), hn::Set(d, x.query_scales[m]), before), d, out);
            }
        }
    }
}

inline void multiply_packed_all(int rows, const PackedProduct& x) {
    for_row_blocks(rows, [&](int first, auto m) HWY_ATTR {
        if (first == 0) return multiply_packed<decltype(m)::value>(x);
        PackedProduct part = x;
        part.query += first * kChunk;
        part.query_bytes += first * kChunk;
        part.query_scales += first;
        part.starts += first;
        part.scores += first * kTile;
        multiply_packed<decltype(m)::value>(part);
    });
}

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
