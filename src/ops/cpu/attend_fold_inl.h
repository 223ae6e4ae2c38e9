// The arithmetic of attention on one tile, per target: scores, weights, sums. Rows are query heads, tiles are floats.
#if defined(CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_
#undef CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_
#else
#define CELLAR_OPS_CPU_ATTEND_FOLD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/cpu/attend_tile_inl.h"
#include "ops/cpu/math_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {

// Rows that share the loads of a tile: as many as leave their accumulators in registers.
constexpr int kMostRows = kLanes == 16 ? 12 : 6;

enum class Start { Zero, Given, Scaled };

// c[m, :] = start + sum over k in [first, last) of a[m, k] * b[k, :], k ascending, on the columns of b's tile.
struct Product {
    const float* a;
    const float* b;
    int b_stride;
    int first;
    int last;
    Start start;
    const float* factors;  // [rows]: what c is scaled by before it is added to
    float* c;
    int c_stride;
};

template <int M, int C, int kStride>
void multiply(const Product& x) {
    const DF d;
    VF sum[M][C];
    for (int m = 0; m < M; ++m) {
        for (int j = 0; j < C; ++j) sum[m][j] = x.start == Start::Zero ? hn::Zero(d) : hn::Load(d, x.c + m * x.c_stride + j * kLanes);
    }
    if (x.start == Start::Scaled) {
        for (int m = 0; m < M; ++m) {
            for (int j = 0; j < C; ++j) sum[m][j] = hn::Mul(sum[m][j], hn::Set(d, x.factors[m]));
        }
    }
    const float* HWY_RESTRICT a = x.a + x.first;
    const float* HWY_RESTRICT b = x.b + x.first * x.b_stride;
    for (int k = x.first; k < x.last; ++k, ++a, b += x.b_stride) {
        VF right[C];
        for (int j = 0; j < C; ++j) right[j] = hn::Load(d, b + j * kLanes);
        for (int m = 0; m < M; ++m) {
            const VF left = hn::Set(d, a[m * kStride]);
            for (int j = 0; j < C; ++j) sum[m][j] = hn::MulAdd(left, right[j], sum[m][j]);
        }
    }
    for (int m = 0; m < M; ++m) {
        for (int j = 0; j < C; ++j) hn::Store(sum[m][j], d, x.c + m * x.c_stride + j * kLanes);
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

// The product for any number of rows and columns; columns is a multiple of the lanes.
template <int kStride>
void multiply_all(int rows, int columns, const Product& x) {
    for_row_blocks(rows, [&](int first, auto m) HWY_ATTR {
        constexpr int kRows = decltype(m)::value;
        Product part = x;
        part.a += first * kStride;
        part.c += first * x.c_stride;
        part.factors += first;
        int column = 0;
        for (; column + 2 * kLanes <= columns; column += 2 * kLanes) {
            multiply<kRows, 2, kStride>(part);
            part.b += 2 * kLanes;
            part.c += 2 * kLanes;
        }
        if (column < columns) multiply<kRows, 1, kStride>(part);
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
};

template <int M>
void multiply_packed(const PackedProduct& x) {
    constexpr int C = kLanes == 1 ? 1 : 2;
    const DF d;
    for (int column = 0; column < kTile; column += C * kLanes) {
        VF sum[M][C];
#if HWY_TARGET == HWY_AVX3_DL
        const hn::RebindToSigned<DF> di;
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
            for (int j = 0; j < C; ++j) sum[m][j] = hn::ConvertTo(d, hn::Vec<decltype(di)>{whole[m][j]});
        }
#else
        // Sums of 32 products of bytes are exact in a float, so this is the same as with integers.
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
#endif
        for (int j = 0; j < C; ++j) {
            const VF scale = hn::Load(d, x.key_scales + column + j * kLanes);
            for (int m = 0; m < M; ++m) {
                float* out = x.scores + m * kTile + column + j * kLanes;
                hn::Store(hn::MulAdd(hn::Mul(sum[m][j], scale), hn::Set(d, x.query_scales[m]), hn::Load(d, out)), d, out);
            }
        }
    }
}

inline void multiply_packed_all(int rows, const PackedProduct& x) {
    for_row_blocks(rows, [&](int first, auto m) HWY_ATTR {
        PackedProduct part = x;
        part.query += first * kChunk;
        part.query_bytes += first * kChunk;
        part.query_scales += first;
        part.starts += first;
        part.scores += first * kTile;
        multiply_packed<decltype(m)::value>(part);
    });
}

HWY_INLINE float shrink(float log2) {
    const hn::CappedTag<float, 1> one;
    return hn::GetLane(exp2_of_negative(one, hn::Set(one, log2)));
}

// Turns the scores of one row on a tile into weights relative to the largest score so far, and counts them. `hidden` is null, or minus
// infinity where the row does not see a position, else 0. Hidden positions get the weight zero. At least one position is seen.
HWY_INLINE void weigh_row(float* scores /* [kTile] */, const float* hidden, float soft_cap, float& most, float& sum, float& correction) {
    const DF d;
    constexpr int kVectors = kTile / kLanes;
    const VF none = hn::Set(d, -std::numeric_limits<float>::infinity());
    VF top = none;
    for (int i = 0; i < kVectors; ++i) {
        VF v = hn::Load(d, scores + i * kLanes);
        if (soft_cap != 0.0F) v = hn::Mul(soft_capped(d, v, hn::Set(d, soft_cap)), hn::Set(d, kLog2e));
        if (hidden != nullptr) v = hn::IfThenElse(hn::Lt(hn::Load(d, hidden + i * kLanes), hn::Zero(d)), none, v);
        hn::Store(v, d, scores + i * kLanes);
        top = hn::Max(top, v);
    }
    const float new_most = std::max(most, hn::GetLane(hn::MaxOfLanes(d, top)));
    VF weights = hn::Zero(d);
    for (int i = 0; i < kVectors; ++i) {
        const VF weight = exp2_of_negative(d, hn::Sub(hn::Load(d, scores + i * kLanes), hn::Set(d, new_most)));
        hn::Store(weight, d, scores + i * kLanes);
        weights = hn::Add(weights, weight);
    }
    correction = shrink(most - new_most);
    sum = sum * correction + hn::GetLane(hn::SumOfLanes(d, weights));
    most = new_most;
}

// What a query head has seen of two stretches of positions, the earlier one first. A stretch without visible positions leaves all as it is.
HWY_INLINE void merge_row(float* out, float& most, float& sum, const float* later, float later_most, float later_sum, int width) {
    const DF d;
    const auto empty = [](float m, float s) { return m == -std::numeric_limits<float>::infinity() && s == 0.0F; };
    if (empty(later_most, later_sum)) return;
    if (empty(most, sum)) {
        std::copy_n(later, width, out);
        most = later_most;
        sum = later_sum;
        return;
    }
    const float new_most = std::max(most, later_most);
    const float keep = shrink(most - new_most);
    const float join = shrink(later_most - new_most);
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) {
        const VF add = hn::Mul(hn::LoadU(d, later + i), hn::Set(d, join));
        hn::StoreU(hn::MulAdd(hn::LoadU(d, out + i), hn::Set(d, keep), add), d, out + i);
    }
    for (; i < width; ++i) out[i] = out[i] * keep + later[i] * join;
    sum = sum * keep + later_sum * join;
    most = new_most;
}

// The result: out / (sum + what the sink weighs); zeros where nothing was seen. `sink` in units of log2, or null.
HWY_INLINE void finish_row(float* out, float most, float sum, const float* sink, int width) {
    if (most == -std::numeric_limits<float>::infinity() && sum == 0.0F) {
        std::fill_n(out, width, 0.0F);
        return;
    }
    float keep = 1.0F;
    if (sink != nullptr) {
        const float new_most = std::max(most, *sink);
        keep = shrink(most - new_most);
        sum = sum * keep + shrink(*sink - new_most);
    }
    const DF d;
    const float share = keep / sum;
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, out + i), hn::Set(d, share)), d, out + i);
    for (; i < width; ++i) out[i] *= share;
}

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
