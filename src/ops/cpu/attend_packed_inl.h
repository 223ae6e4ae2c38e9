// Scores of packed keys, per target: products of bytes, summed up exactly as integers.
#if defined(CELLAR_OPS_CPU_ATTEND_PACKED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_ATTEND_PACKED_INL_H_
#undef CELLAR_OPS_CPU_ATTEND_PACKED_INL_H_
#else
#define CELLAR_OPS_CPU_ATTEND_PACKED_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <limits>

#include "ops/cpu/attend_fold_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {

// What a query's int8 values are kept as. Targets without products of bytes take pairs of 16 bits: of four neighbours the first and the
// third, then the second and the fourth, as they come out of a 32-bit lane.
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_SCALAR
using Quant = int8_t;
#else
using Quant = int16_t;
#endif

struct QueryBlock {
    float scale;    // NaN where an element is not finite
    int32_t start;  // -128 times the sum of the values
};

HWY_INLINE void store_quants(hn::Vec<hn::RebindToSigned<DF>> values, Quant* quants) {
    const hn::Rebind<Quant, DF> narrow;
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_SCALAR
    hn::StoreU(hn::DemoteTo(narrow, values), narrow, quants);
#else
    HWY_ALIGN Quant in_order[kLanes];
    hn::Store(hn::DemoteTo(narrow, values), narrow, in_order);
    for (int i = 0; i < kLanes; i += 4) {
        quants[i] = in_order[i];
        quants[i + 1] = in_order[i + 2];
        quants[i + 2] = in_order[i + 1];
        quants[i + 3] = in_order[i + 3];
    }
#endif
}

// int8 values of 32 elements.
inline QueryBlock quantise_query(const float* x, Quant* quants) {
    const DF d;
    const hn::RebindToSigned<DF> di;
    const auto magnitude = hn::Set(di, 0x7FFFFFFF);
    auto most_bits = hn::Zero(di);
    for (int i = 0; i < kPackedBlock; i += kLanes) most_bits = hn::Max(most_bits, hn::And(hn::BitCast(di, hn::Load(d, x + i)), magnitude));
    const float most = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, most_bits)));
    const bool finite = most <= std::numeric_limits<float>::max();
    const bool usable = finite && most >= std::numeric_limits<float>::min() * 128;
    const VF inverse = hn::Set(d, usable ? 127.0F / most : 0.0F);
    auto sum = hn::Zero(di);
    for (int i = 0; i < kPackedBlock; i += kLanes) {
        const auto values = hn::ConvertTo(di, usable ? hn::Round(hn::Mul(hn::Load(d, x + i), inverse)) : hn::Zero(d));
        sum = hn::Add(sum, values);
        store_quants(values, quants + i);
    }
    return {finite ? (usable ? most / 127.0F : 0.0F) : std::numeric_limits<float>::quiet_NaN(), -128 * hn::GetLane(hn::SumOfLanes(di, sum))};
}

// One block of 32 packed elements: scores[m, :] += (query . keys as integers) * key scale * query scale.
struct PackedProduct {
    const Rows& keys;
    ptrdiff_t at;               // of the block in each row
    const Quant* query;         // [rows, kChunk]
    const float* query_scales;  // [rows]
    const int32_t* starts;      // [rows]
    uint32_t* space;            // [16, kTile]
    float* scores;              // [rows, kTile]
    bool first;                 // scores begin with this block
};

#if HWY_TARGET == HWY_SCALAR

inline void multiply_packed(int rows, const PackedProduct& x) {
    for (int i = 0; i < kTile; ++i) {
        const std::byte* block = x.keys.at[i] + x.at;
        uint16_t half = 0;
        std::memcpy(&half, block, sizeof half);
        const float scale = f16_to_f32(half);
        for (int m = 0; m < rows; ++m) {
            int32_t sum = 0;
            for (int k = 0; k < kPackedBlock; ++k) sum += static_cast<int8_t>(block[2 + k]) * x.query[m * kChunk + k];
            float& out = x.scores[m * kTile + i];
            out = hn::GetLane(
                hn::MulAdd(hn::Set(DF(), static_cast<float>(sum) * scale), hn::Set(DF(), x.query_scales[m]), hn::Set(DF(), x.first ? 0.0F : out)));
        }
    }
}

#else

// Calls put(u, first, v) with four neighbouring bytes of the block as one 32-bit lane: unit u of positions from `first` on. The line that
// every second block starts in is fetched of the tile to come: two blocks are little more than a line.
template <class Put>
HWY_INLINE void turn_block(const Rows& rows, ptrdiff_t at, const Put& put) {
    const bool fetches = at / kPackedBlockBytes % 2 == 0;
#pragma GCC unroll 2
    for (int u = 0; u < 8; u += 4) {
#pragma GCC unroll 8
        for (int first = 0; first < kTile; first += kLanes) {
            if (fetches) fetch_share(rows, at, 64, (u * kTile / 4 + first) / kLanes, 2 * kTile / kLanes);
            V32 v[4];
#pragma GCC unroll 4
            for (int r = 0; r < 4; ++r) v[r] = hn::BitCast(D32(), load_parts(rows, first + r, 4, at + 2 + 4 * u));
            turn32(v);
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) put(u + i, first, v[i]);
        }
    }
}

// Adds products to scores: those of one row with some positions, from `column` on.
HWY_INLINE void add_scores(const PackedProduct& x, int m, int column, VF product, VF scale) {
    const DF d;
    float* out = x.scores + m * kTile + column;
    const VF before = hn::Load(d, x.first ? kZeros : out);
    hn::Store(hn::MulAdd(hn::Mul(product, scale), hn::Set(d, x.query_scales[m]), before), d, out);
}

#endif

#if HWY_TARGET == HWY_AVX3_DL

// All of a tile's block stays in registers, and rows pass by. The instruction takes one side without sign: keys with 128 added.
inline void multiply_packed(int rows, const PackedProduct& x) {
    constexpr int C = kTile / kLanes;
    __m512i units[C][8];
    const __m512i flip = _mm512_set1_epi8(-128);
    turn_block(x.keys, x.at, [&](int u, int first, V32 v) HWY_ATTR { units[first / kLanes][u] = _mm512_xor_si512(v.raw, flip); });
    HWY_ALIGN float scales[kTile];
    load_scales(x.keys, x.at, scales);
    for (int m = 0; m < rows; ++m) {
        // Two chains of additions for each vector: one would be waited for.
        __m512i sum[C][2];
#pragma GCC unroll 2
        for (int j = 0; j < C; ++j) {
            sum[j][0] = _mm512_set1_epi32(x.starts[m]);
            sum[j][1] = _mm512_setzero_si512();
        }
#pragma GCC unroll 8
        for (int u = 0; u < 8; ++u) {
            int32_t four = 0;
            std::memcpy(&four, x.query + m * kChunk + 4 * u, sizeof four);
            const __m512i left = _mm512_set1_epi32(four);
#pragma GCC unroll 2
            for (int j = 0; j < C; ++j) sum[j][u / 4] = _mm512_dpbusd_epi32(sum[j][u / 4], units[j][u], left);
        }
#pragma GCC unroll 2
        for (int j = 0; j < C; ++j) {
            const VF product{_mm512_cvtepi32_ps(_mm512_add_epi32(sum[j][0], sum[j][1]))};
            add_scores(x, m, j * kLanes, product, hn::Load(DF(), scales + j * kLanes));
        }
    }
}

#elif HWY_TARGET != HWY_SCALAR

// sum + the products of both 16-bit halves of each lane.
using VI = hn::Vec<hn::RebindToSigned<DF>>;
HWY_INLINE VI add_pairs(VI sum, VI a, VI b) {
#if HWY_TARGET == HWY_AVX3
    return VI{_mm512_add_epi32(sum.raw, _mm512_madd_epi16(a.raw, b.raw))};
#elif HWY_TARGET == HWY_AVX2
    return VI{_mm256_add_epi32(sum.raw, _mm256_madd_epi16(a.raw, b.raw))};
#else
    const auto low = [](VI v) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
    return hn::Add(sum, hn::Add(hn::Mul(low(a), low(b)), hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b))));
#endif
}

// For M rows and some vectors of positions.
template <int M>
HWY_INLINE void multiply_pairs(const PackedProduct& x, int row, int column, const float* scales) {
    const hn::RebindToSigned<DF> di;
    constexpr int C = kColumnVectors<M>;
    VI sum[M][C];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
        for (int j = 0; j < C; ++j) sum[m][j] = hn::Zero(di);
    }
    const Quant* query = x.query + row * kChunk;
    for (int p = 0; p < kPackedBlock / 2; ++p) {
        VI right[C];
#pragma GCC unroll 2
        for (int j = 0; j < C; ++j) right[j] = hn::BitCast(di, hn::Load(D32(), x.space + p * kTile + column + j * kLanes));
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) {
            int32_t pair = 0;
            std::memcpy(&pair, query + m * kChunk + 2 * p, sizeof pair);
            const VI left = hn::Set(di, pair);
#pragma GCC unroll 2
            for (int j = 0; j < C; ++j) sum[m][j] = add_pairs(sum[m][j], right[j], left);
        }
    }
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) {
        const VF scale = hn::Load(DF(), scales + column + j * kLanes);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) add_scores(x, row + m, column + j * kLanes, hn::ConvertTo(DF(), sum[m][j]), scale);
    }
}

inline void multiply_packed(int rows, const PackedProduct& x) {
    const hn::Repartition<int16_t, DF> d16;
    turn_block(x.keys, x.at, [&](int u, int first, V32 v) HWY_ATTR {
        const auto four = hn::BitCast(d16, v);
        hn::Store(hn::BitCast(D32(), hn::ShiftRight<8>(hn::ShiftLeft<8>(four))), D32(), x.space + 2 * u * kTile + first);
        hn::Store(hn::BitCast(D32(), hn::ShiftRight<8>(four)), D32(), x.space + (2 * u + 1) * kTile + first);
    });
    HWY_ALIGN float scales[kTile];
    load_scales(x.keys, x.at, scales);
    for_row_blocks(rows, [&](int row, auto m) HWY_ATTR {
        constexpr int M = decltype(m)::value;
        for (int column = 0; column < kTile; column += kColumnVectors<M> * kLanes) multiply_pairs<M>(x, row, column, scales);
    });
}

#endif

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
