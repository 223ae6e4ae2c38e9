// Where the blocks of kLanes rows are read from, column by column: rows in file layout, or packed rows.
// Included once for each target, after highway.h and target_inl.h.
#if defined(CELLAR_OPS_CPU_SOURCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_SOURCE_INL_H_
#undef CELLAR_OPS_CPU_SOURCE_INL_H_
#else
#define CELLAR_OPS_CPU_SOURCE_INL_H_
#endif

#include "ops/cpu/packed_layout.h"
#include "ops/cpu/panel_inl.h"
#include "tensor/block_layout.h"
#include "tensor/row_codec.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

// The low or the high 16 bits of each lane, which are an f16.
HWY_INLINE VF low_half(VU column) {
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
    return VF{_mm512_cvtph_ps(_mm512_cvtepi32_epi16(column.raw))};
#elif HWY_TARGET == HWY_AVX2
    const __m256i low = _mm256_and_si256(column.raw, _mm256_set1_epi32(0xFFFF));
    const __m256i packed = _mm256_packus_epi32(low, low);
    return VF{_mm256_cvtph_ps(_mm_unpacklo_epi64(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1)))};
#else
    HWY_ALIGN uint32_t lanes[kLanes];
    HWY_ALIGN float halves[kLanes];
    hn::Store(column, DU(), lanes);
    for (int lane = 0; lane < kLanes; ++lane) halves[lane] = f16_to_f32(static_cast<uint16_t>(lanes[lane]));
    return hn::Load(DF(), halves);
#endif
}
HWY_INLINE VF high_half(VU column) {
    return low_half(hn::ShiftRight<16>(column));
}

// Rows in file layout, `stride` bytes apart.
struct Rows {
    static constexpr bool kFetches = false;
    const uint8_t* first;
    int64_t stride;
};

// Four columns: out[j] holds bytes [offset + 4 j, offset + 4 j + 4) of each row.
HWY_INLINE void load_columns(const Rows& rows, int64_t offset, VU* out /* [4] */) {
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
    const int64_t s4 = rows.stride * 4;
    const int64_t s12 = rows.stride * 12;
    __m512i v[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
        // Row r of each four in its own quarter: the quarters come by masked broadcasts from memory, which cost no shuffle.
        const uint8_t* p = rows.first + r * rows.stride + offset;
        v[r] = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
        v[r] = _mm512_mask_broadcast_i32x4(v[r], 0x00F0, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + s4)));
        v[r] = _mm512_mask_broadcast_i32x4(v[r], 0x0F00, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 2 * s4)));
        v[r] = _mm512_mask_broadcast_i32x4(v[r], 0xF000, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + s12)));
    }
    const __m512i low01 = _mm512_unpacklo_epi32(v[0], v[1]);
    const __m512i high01 = _mm512_unpackhi_epi32(v[0], v[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(v[2], v[3]);
    const __m512i high23 = _mm512_unpackhi_epi32(v[2], v[3]);
    out[0] = VU{_mm512_unpacklo_epi64(low01, low23)};
    out[1] = VU{_mm512_unpackhi_epi64(low01, low23)};
    out[2] = VU{_mm512_unpacklo_epi64(high01, high23)};
    out[3] = VU{_mm512_unpackhi_epi64(high01, high23)};
#elif HWY_TARGET == HWY_AVX2
    const int64_t s4 = rows.stride * 4;
    __m256i v[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
        const uint8_t* p = rows.first + r * rows.stride + offset;
        v[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
                                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + s4)), 1);
    }
    const __m256i low01 = _mm256_unpacklo_epi32(v[0], v[1]);
    const __m256i high01 = _mm256_unpackhi_epi32(v[0], v[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(v[2], v[3]);
    const __m256i high23 = _mm256_unpackhi_epi32(v[2], v[3]);
    out[0] = VU{_mm256_unpacklo_epi64(low01, low23)};
    out[1] = VU{_mm256_unpackhi_epi64(low01, low23)};
    out[2] = VU{_mm256_unpacklo_epi64(high01, high23)};
    out[3] = VU{_mm256_unpackhi_epi64(high01, high23)};
#else
    for (int j = 0; j < 4; ++j) {
        HWY_ALIGN uint32_t column[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) column[lane] = block::load32(rows.first + lane * rows.stride + offset + j * 4);
        out[j] = hn::Load(DU(), column);
    }
#endif
}

// One column.
HWY_INLINE VU load_column(const Rows& rows, int64_t offset) {
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
    const __m512i index =
        _mm512_mullo_epi32(_mm512_set1_epi32(static_cast<int>(rows.stride)), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    return VU{_mm512_i32gather_epi32(index, rows.first + offset, 1)};
#else
    HWY_ALIGN uint32_t column[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) column[lane] = block::load32(rows.first + lane * rows.stride + offset);
    return hn::Load(DU(), column);
#endif
}

HWY_INLINE VF load_half(const Rows& rows, int64_t offset) {
    // A block has two more bytes before or behind.
    return offset == 0 ? low_half(load_column(rows, 0)) : high_half(load_column(rows, offset - 2));
}
HWY_INLINE VU load_byte(const Rows& rows, int64_t offset) {
    return hn::And(load_column(rows, offset), hn::Set(DU(), 255U));
}

// Block i of the same rows.
template <DType type>
HWY_INLINE Rows block_of(const Rows& rows, int i) {
    return {rows.first + i * panel_format(type).block_bytes, rows.stride};
}

// Bytes between what is read and what is fetched: enough to hide the way to memory, few enough to stay in the second cache.
constexpr int kFetchAhead = 4096;

// Rows as pack_rows leaves them: a chunk's columns, and what is left over of each block.
template <DType type>
struct Packed {
    static constexpr bool kFetches = true;
    static constexpr PackedLayout layout = packed_layout(type);
    const uint8_t* columns;  // [blocks][layout.columns][kLanes] of four bytes
    const uint8_t* rest;     // [blocks][kLanes] of layout.rest bytes
};

template <DType type>
HWY_INLINE Packed<type> block_of(const Packed<type>& packed, int i) {
    return {packed.columns + i * packed.layout.columns * kLanes * 4, packed.rest + i * packed.layout.rest * kLanes};
}

// What is read some blocks later. Behind the last group that is memory of somebody else, which may be asked for without harm.
template <DType type>
HWY_INLINE const uint8_t* ahead_of(const Packed<type>& packed) {
    return packed.columns + kFetchAhead;
}
HWY_INLINE const uint8_t* ahead_of(const Rows& /*rows*/) {
    return nullptr;
}

template <DType type>
HWY_INLINE void fetch_ahead(const Packed<type>& packed, int block) {
    constexpr int bytes = panel_format(type).block_bytes * kLanes;
    for (int at = 0; at < bytes; at += 64) __builtin_prefetch(ahead_of(packed) + block * bytes + at, 0, 2);
}
HWY_INLINE void fetch_ahead(const Rows& /*rows*/, int /*block*/) {}

template <DType type>
HWY_INLINE VU load_column(const Packed<type>& packed, int64_t offset) {
    const int64_t column = (offset - packed.layout.first_column) / 4;
    return hn::Load(DU(), reinterpret_cast<const uint32_t*>(packed.columns + column * kLanes * 4));
}

template <DType type>
HWY_INLINE void load_columns(const Packed<type>& packed, int64_t offset, VU* out /* [4] */) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) out[j] = load_column(packed, offset + j * 4);
}

template <DType type>
HWY_INLINE VF load_half(const Packed<type>& packed, int64_t /* the only one left over */) {
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3
    return VF{_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed.rest)))};
#elif HWY_TARGET == HWY_AVX2
    return VF{_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed.rest)))};
#else
    HWY_ALIGN float halves[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) halves[lane] = f16_to_f32(block::load16(packed.rest + lane * 2));
    return hn::Load(DF(), halves);
#endif
}

template <DType type>
HWY_INLINE VU load_byte(const Packed<type>& packed, int64_t /* the only one left over */) {
    HWY_ALIGN uint32_t wide[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) wide[lane] = packed.rest[lane];
    return hn::Load(DU(), wide);
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
