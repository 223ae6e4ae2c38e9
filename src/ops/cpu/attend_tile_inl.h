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

// One pointer for each position of a tile, and those of the tile to come, which is fetched on the way.
struct Rows {
    const std::byte* at[kTile];
    const std::byte* const* next;
};

HWY_INLINE void fetch(const std::byte* at) {
    __builtin_prefetch(at, 0, 1);
}

// Rows mostly lie one behind another: of packed ones, which are no whole lines long, the last line often is the next one's first.
HWY_INLINE int fetched_bytes(size_t row_bytes) {
    return std::max(1, (static_cast<int>(row_bytes) + 32) / 64) * 64;
}

#if HWY_TARGET != HWY_SCALAR

using D16 = hn::Repartition<uint16_t, DF>;
using D32 = hn::Repartition<uint32_t, DF>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
constexpr int kParts = kLanes / 4;  // of 16 bytes in a vector

// Part j comes from row first + j * step.
HWY_INLINE hn::Vec<hn::Repartition<uint8_t, DF>> load_parts(const Rows& rows, int first, int step, ptrdiff_t at) {
    const hn::Repartition<uint8_t, DF> d8;
    const auto part = [&](int j) HWY_ATTR { return reinterpret_cast<const uint8_t*>(rows.at[first + j * step] + at); };
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

// Asks for a share of the lines of the tile to come, step by step: [at, at + bytes) of each row. In the order of addresses, because then
// the machine's own prefetching joins in; a core alone cannot have enough lines under way.
HWY_INLINE void fetch_share(const Rows& rows, ptrdiff_t at, int bytes, int step, int steps) {
    for (int row = kTile * step / steps; row < kTile * (step + 1) / steps; ++row) {
        for (int i = 0; i < bytes; i += 64) fetch(rows.next[row] + at + i);
    }
}

// halves[d, position] for d in [0, n); n is a multiple of 8.
inline void turn_halves(const Rows& rows, ptrdiff_t at, int n, uint16_t* halves) {
    const D16 d16;
    for (int d = 0; d < n; d += 8) {
        for (int first = 0; first < kTile; first += 2 * kLanes) {
            V16 v[8];
            for (int r = 0; r < 8; ++r) v[r] = hn::BitCast(d16, load_parts(rows, first + r, 8, at + 2 * d));
            turn16(v);
            for (int i = 0; i < 8; ++i) hn::Store(v[i], d16, halves + (d + i) * kTile + first);
        }
    }
}

template <kv::RowFormat format>
void widen_halves(const Rows& rows, ptrdiff_t at, const uint16_t* halves, int n, float* keys) {
    const hn::Half<D16> half;
    for (int d = 0; d < n; ++d) {
        fetch_share(rows, at, 2 * n, d, n);
        for (int i = d * kTile; i < (d + 1) * kTile; i += kLanes) hn::Store(widen_half<format>(hn::Load(half, halves + i)), DF(), keys + i);
    }
}

// keys[d, position] for d in [0, n) of rows of floats; n is a multiple of 4.
inline void turn_floats(const Rows& rows, ptrdiff_t at, int n, float* keys) {
    for (int d = 0; d < n; d += 4) {
        fetch_share(rows, at, 4 * n, d / 4, n / 4);
        for (int first = 0; first < kTile; first += kLanes) {
            V32 v[4];
            for (int r = 0; r < 4; ++r) v[r] = hn::BitCast(D32(), load_parts(rows, first + r, 4, at + 4 * d));
            turn32(v);
            for (int i = 0; i < 4; ++i) hn::Store(hn::BitCast(DF(), v[i]), DF(), keys + (d + i) * kTile + first);
        }
    }
}

template <kv::RowFormat format>
HWY_INLINE VF load_half(const std::byte* at) {
    return widen_half<format>(hn::LoadU(hn::Half<D16>(), reinterpret_cast<const uint16_t*>(at)));
}

HWY_INLINE VF load_bytes(const std::byte* at) {
    const hn::Rebind<int8_t, DF> d8;
    const hn::Rebind<int32_t, DF> d32;
    return hn::ConvertTo(DF(), hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const int8_t*>(at))));
}

#endif

// Where element i of a row lies. Packed: its byte.
HWY_INLINE ptrdiff_t element_at(kv::RowFormat format, int i) {
    if (format == kv::RowFormat::Q8_0) return i / kPackedBlock * kPackedBlockBytes + 2 + i % kPackedBlock;
    return static_cast<ptrdiff_t>(i) * (format == kv::RowFormat::F32 ? 4 : 2);
}

// keys[d, position] one by one, for elements [first, first + n).
inline void turn_slowly(kv::RowFormat format, const Rows& rows, int first, int n, float* keys) {
    float row[kChunk];
    for (int i = 0; i < kTile; ++i) {
        decode_head_row(format, rows.at[i] + element_at(format, first), n, row);
        for (int d = 0; d < n; ++d) keys[d * kTile + i] = row[d];
    }
}

// The scales of one block of each position, which lie at `at` in its row. Their vector is put together in registers: one that was written
// element by element could not be read soon.
HWY_INLINE void load_scales(const Rows& rows, ptrdiff_t at, float* scales /* [kTile] */) {
#if HWY_TARGET == HWY_SCALAR
    for (int i = 0; i < kTile; ++i) {
        uint16_t half = 0;
        std::memcpy(&half, rows.at[i] + at, sizeof half);
        scales[i] = f16_to_f32(half);
    }
#else
    const hn::Repartition<int64_t, DF> d64;
    const hn::Rebind<uint16_t, decltype(d64)> d16;
    static_assert(sizeof(void*) == sizeof(int64_t) && kPackedBlockBytes >= 8);
    const auto* base = reinterpret_cast<const int64_t*>(rows.at[0] + at);
    const auto origin = hn::Set(d64, reinterpret_cast<intptr_t>(rows.at[0]));
    const auto halves = [&](int i) HWY_ATTR {
        const auto offsets = hn::Sub(hn::LoadU(d64, reinterpret_cast<const int64_t*>(rows.at + i)), origin);
        return hn::TruncateTo(d16, hn::BitCast(hn::RebindToUnsigned<decltype(d64)>(), hn::GatherOffset(d64, base, offsets)));
    };
    for (int i = 0; i < kTile; i += kLanes) {
        const hn::Rebind<uint16_t, DF> whole;
        hn::Store(widen_half<kv::RowFormat::F16>(hn::Combine(whole, halves(i + kLanes / 2), halves(i))), DF(), scales + i);
    }
#endif
}

// The first n values of a V row, and zeros up to `padded`. Packed rows give their bytes' values, without the scales.
inline void widen_row(kv::RowFormat format, const std::byte* row, int n, int padded, float* out) {
    int done = 0;
#if HWY_TARGET != HWY_SCALAR
    const auto widen = [&](auto load) HWY_ATTR {
        for (; done + kLanes <= n; done += kLanes) hn::Store(load(row + element_at(format, done)), DF(), out + done);
    };
    switch (format) {
        case kv::RowFormat::F32:
            break;
        case kv::RowFormat::F16:
            widen([](const std::byte* at) HWY_ATTR { return load_half<kv::RowFormat::F16>(at); });
            break;
        case kv::RowFormat::BF16:
            widen([](const std::byte* at) HWY_ATTR { return load_half<kv::RowFormat::BF16>(at); });
            break;
        case kv::RowFormat::Q8_0:
            widen([](const std::byte* at) HWY_ATTR { return load_bytes(at); });
            break;
    }
#endif
    if (format == kv::RowFormat::Q8_0) {
        for (; done < n; ++done) out[done] = static_cast<float>(static_cast<int8_t>(row[element_at(format, done)]));
    } else if (done < n) {
        decode_head_row(format, row + element_at(format, done), n - done, out + done);
    }
    std::fill(out + n, out + padded, 0.0F);
}

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
