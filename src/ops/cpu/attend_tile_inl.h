// Tiles of the cache as floats, per target: keys turned so that lanes are positions, values as they lie.
#if defined(CELLAR_OPS_CPU_ATTEND_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_ATTEND_TILE_INL_H_
#undef CELLAR_OPS_CPU_ATTEND_TILE_INL_H_
#else
#define CELLAR_OPS_CPU_ATTEND_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "ops/cpu/attend_plan.h"
#include "ops/row_store.h"
#include "tensor/row_codec.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using namespace cellar::ops::cpu_impl;

using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));

// One pointer for each position of a tile.
using Rows = const std::byte* [kTile];

#if HWY_TARGET != HWY_SCALAR

using D16 = hn::Repartition<uint16_t, DF>;
using D32 = hn::Repartition<uint32_t, DF>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
constexpr int kParts = kLanes / 4;  // of 16 bytes in a vector

// Part j comes from row first + j * step.
HWY_INLINE hn::Vec<hn::Repartition<uint8_t, DF>> load_parts(const Rows& rows, int first, int step, ptrdiff_t at) {
    const hn::Repartition<uint8_t, DF> d8;
    const auto part = [&](int j) HWY_ATTR { return reinterpret_cast<const uint8_t*>(rows[first + j * step] + at); };
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
    const auto load = [&](int j) HWY_ATTR { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(part(j))); };
    __m512i v = _mm512_castsi128_si512(load(0));
    v = _mm512_inserti32x4(v, load(1), 1);
    v = _mm512_inserti32x4(v, load(2), 2);
    return hn::Vec<decltype(d8)>{_mm512_inserti32x4(v, load(3), 3)};
#elif HWY_TARGET == HWY_AVX2
    const hn::Half<decltype(d8)> half;
    return hn::Combine(d8, hn::LoadU(half, part(1)), hn::LoadU(half, part(0)));
#else
    return hn::LoadU(d8, part(0));
#endif
}

// Turns an 8 x 8 matrix of 16-bit elements in each part. A round deals both halves out alternately; three rounds swap rows and columns.
HWY_INLINE void turn16(V16 (&v)[8]) {
    const D16 d;
    for (int round = 0; round < 3; ++round) {
        V16 w[8];
        for (int i = 0; i < 4; ++i) {
            w[2 * i] = hn::InterleaveLower(d, v[i], v[i + 4]);
            w[2 * i + 1] = hn::InterleaveUpper(d, v[i], v[i + 4]);
        }
        for (int i = 0; i < 8; ++i) v[i] = w[i];
    }
}

// Turns a 4 x 4 matrix of 32-bit elements in each part.
HWY_INLINE void turn32(V32 (&v)[4]) {
    const D32 d;
    for (int round = 0; round < 2; ++round) {
        V32 w[4];
        for (int i = 0; i < 2; ++i) {
            w[2 * i] = hn::InterleaveLower(d, v[i], v[i + 2]);
            w[2 * i + 1] = hn::InterleaveUpper(d, v[i], v[i + 2]);
        }
        for (int i = 0; i < 4; ++i) v[i] = w[i];
    }
}

template <kv::RowFormat format>
HWY_INLINE VF widen_half(hn::Vec<hn::Half<D16>> bits) {
    if constexpr (format == kv::RowFormat::F16) {
        return hn::PromoteTo(DF(), hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), bits));
    } else {
        return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(D32(), bits)));
    }
}

// keys[d, position] for d in [0, n) of rows of halves; n is a multiple of 8.
template <kv::RowFormat format>
void turn_halves(const Rows& rows, ptrdiff_t at, int n, float* keys) {
    const DF df;
    const hn::Half<D16> half;
    for (int d = 0; d < n; d += 8) {
        for (int first = 0; first < kTile; first += 2 * kLanes) {
            V16 v[8];
            for (int r = 0; r < 8; ++r) v[r] = hn::BitCast(D16(), load_parts(rows, first + r, 8, at + 2 * d));
            turn16(v);
            for (int i = 0; i < 8; ++i) {
                float* out = keys + (d + i) * kTile + first;
                hn::Store(widen_half<format>(hn::LowerHalf(half, v[i])), df, out);
                hn::Store(widen_half<format>(hn::UpperHalf(half, v[i])), df, out + kLanes);
            }
        }
    }
}

// keys[d, position] for d in [0, n) of rows of floats; n is a multiple of 4.
inline void turn_floats(const Rows& rows, ptrdiff_t at, int n, float* keys) {
    for (int d = 0; d < n; d += 4) {
        for (int first = 0; first < kTile; first += kLanes) {
            V32 v[4];
            for (int r = 0; r < 4; ++r) v[r] = hn::BitCast(D32(), load_parts(rows, first + r, 4, at + 4 * d));
            turn32(v);
            for (int i = 0; i < 4; ++i) hn::Store(hn::BitCast(DF(), v[i]), DF(), keys + (d + i) * kTile + first);
        }
    }
}

// units[u, position]: four neighbouring bytes of a block as one 32-bit lane, with `flip` in each byte.
inline void turn_block(const Rows& rows, ptrdiff_t at, uint32_t flip, uint32_t* units /* [8, kTile] */) {
    for (int u = 0; u < 8; u += 4) {
        for (int first = 0; first < kTile; first += kLanes) {
            V32 v[4];
            for (int r = 0; r < 4; ++r) v[r] = hn::BitCast(D32(), load_parts(rows, first + r, 4, at + 2 + 4 * u));
            turn32(v);
            for (int i = 0; i < 4; ++i) hn::Store(hn::Xor(v[i], hn::Set(D32(), flip)), D32(), units + (u + i) * kTile + first);
        }
    }
}

// The bytes of the units as floats: keys[4 u + b, position].
inline void widen_units(const uint32_t* units, float* keys /* [32, kTile] */) {
    const hn::RebindToSigned<D32> di;
    for (int u = 0; u < 8; ++u) {
        for (int first = 0; first < kTile; first += kLanes) {
            const auto v = hn::BitCast(di, hn::Load(D32(), units + u * kTile + first));
            float* out = keys + 4 * u * kTile + first;
            hn::Store(hn::ConvertTo(DF(), hn::ShiftRight<24>(hn::ShiftLeft<24>(v))), DF(), out);
            hn::Store(hn::ConvertTo(DF(), hn::ShiftRight<24>(hn::ShiftLeft<16>(v))), DF(), out + kTile);
            hn::Store(hn::ConvertTo(DF(), hn::ShiftRight<24>(hn::ShiftLeft<8>(v))), DF(), out + 2 * kTile);
            hn::Store(hn::ConvertTo(DF(), hn::ShiftRight<24>(v)), DF(), out + 3 * kTile);
        }
    }
}

// A packed row's values as floats, whole vectors only; returns how many.
inline int widen_packed(const std::byte* row, int n, float* out) {
    int i = 0;
    const hn::Rebind<int8_t, DF> d8;
    const hn::Rebind<int32_t, DF> d32;
    for (; i + kLanes <= n; i += kLanes) {
        const std::byte* block = row + i / kPackedBlock * kPackedBlockBytes;
        uint16_t half = 0;
        std::memcpy(&half, block, sizeof half);
        const auto bytes = hn::LoadU(d8, reinterpret_cast<const int8_t*>(block + 2 + i % kPackedBlock));
        hn::Store(hn::Mul(hn::ConvertTo(DF(), hn::PromoteTo(d32, bytes)), hn::Set(DF(), f16_to_f32(half))), DF(), out + i);
    }
    return i;
}

#endif

// keys[d, position] one by one, for d in [0, n).
inline void turn_slowly(kv::RowFormat format, const Rows& rows, ptrdiff_t at, int n, float* keys) {
    float row[kChunk];
    for (int i = 0; i < kTile; ++i) {
        decode_head_row(format, rows[i] + at, n, row);
        for (int d = 0; d < n; ++d) keys[d * kTile + i] = row[d];
    }
}

// Elements [first, first + n) of the K rows of a tile, n <= kChunk: keys[d, position].
inline void turn_keys(kv::RowFormat format, const Rows& rows, int first, int n, float* keys) {
    const ptrdiff_t size = format == kv::RowFormat::F32 ? 4 : 2;
    int done = 0;
#if HWY_TARGET != HWY_SCALAR
    switch (format) {
        case kv::RowFormat::F32:
            done = n / 4 * 4;
            turn_floats(rows, first * size, done, keys);
            break;
        case kv::RowFormat::F16:
            done = n / 8 * 8;
            turn_halves<kv::RowFormat::F16>(rows, first * size, done, keys);
            break;
        case kv::RowFormat::BF16:
            done = n / 8 * 8;
            turn_halves<kv::RowFormat::BF16>(rows, first * size, done, keys);
            break;
        case kv::RowFormat::Q8_0:
            break;
    }
#endif
    if (done < n) turn_slowly(format, rows, (first + done) * size, n - done, keys + done * kTile);
}

// The scales of one block of each position.
inline void gather_scales(const Rows& rows, ptrdiff_t at, float* scales /* [kTile] */) {
    HWY_ALIGN uint16_t half[kTile];
    for (int i = 0; i < kTile; ++i) std::memcpy(&half[i], rows[i] + at, sizeof half[i]);
#if HWY_TARGET != HWY_SCALAR
    const hn::Half<D16> d16;
    for (int i = 0; i < kTile; i += kLanes) hn::Store(widen_half<kv::RowFormat::F16>(hn::Load(d16, half + i)), DF(), scales + i);
#else
    for (int i = 0; i < kTile; ++i) scales[i] = f16_to_f32(half[i]);
#endif
}

// The first n values of a V row, and zeros up to `padded`.
inline void widen_row(kv::RowFormat format, const std::byte* row, int n, int padded, float* out) {
    int done = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::Half<D16> d16;
    const auto* halves = reinterpret_cast<const uint16_t*>(row);
    switch (format) {
        case kv::RowFormat::F32:
            break;
        case kv::RowFormat::F16:
            for (; done + kLanes <= n; done += kLanes) {
                hn::Store(widen_half<kv::RowFormat::F16>(hn::LoadU(d16, halves + done)), DF(), out + done);
            }
            break;
        case kv::RowFormat::BF16:
            for (; done + kLanes <= n; done += kLanes) {
                hn::Store(widen_half<kv::RowFormat::BF16>(hn::LoadU(d16, halves + done)), DF(), out + done);
            }
            break;
        case kv::RowFormat::Q8_0:
            done = widen_packed(row, n, out);
            break;
    }
#endif
    if (done < n) {
        if (format == kv::RowFormat::Q8_0) {
            HWY_ALIGN float tail[kPackedBlock];
            for (; done < n; done = (done / kPackedBlock + 1) * kPackedBlock) {
                const int in_block = done % kPackedBlock;
                const int count = std::min(kPackedBlock - in_block, n - done);
                decode_head_row(format, row + done / kPackedBlock * kPackedBlockBytes, in_block + count, tail);
                std::copy_n(tail + in_block, count, out + done);
            }
        } else {
            decode_head_row(format, row + static_cast<ptrdiff_t>(done) * (format == kv::RowFormat::F32 ? 4 : 2), n - done, out + done);
        }
    }
    std::fill(out + n, out + padded, 0.0F);
}

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
