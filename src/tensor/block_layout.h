#pragma once
// Where the parts of a block lie, and the small tables of the formats. Shared by the codecs and the kernels.
//
// Elements of 32-value blocks with nibbles: byte j holds element j in its low and element j + 16 in its high half.
//   Q4_0    f16 d | 16 nibbles                                  d * (q - 8)
//   Q4_1    f16 d | f16 m | 16 nibbles                          d * q + m
//   Q5_0    f16 d | u32 fifth bits | 16 nibbles                 d * (q - 16)
//   Q5_1    f16 d | f16 m | u32 fifth bits | 16 nibbles         d * q + m
//   Q8_0    f16 d | 32 i8                                       d * q
//   IQ4_NL  f16 d | 16 nibbles                                  d * table[q]
//   MXFP4   u8 e | 16 nibbles                                   2^(e - 128) * table[q]
// Blocks of 256 values; a scale s covers 16 or 32 values:
//   Q2_K    16 (4 bit s, 4 bit m) | 64 of 2 bits | f16 d | f16 dm       d * s * q - dm * m
//   Q3_K    32 third bits | 64 of 2 bits | 12 scales | f16 d            d * (s - 32) * (q - 4)
//   Q4_K    f16 d | f16 dm | 12 scales | 128 nibbles                    d * s * q - dm * m
//   Q5_K    f16 d | f16 dm | 12 scales | 32 fifth bits | 128 nibbles    d * s * q - dm * m
//   Q6_K    128 low nibbles | 64 of high 2 bits | 16 i8 s | f16 d       d * s * (q - 32)
//   IQ4_XS  f16 d | u16 high bits of s | 4 low nibbles of s | 128 nibbles     d * (s - 32) * table[q]
#include <cstdint>
#include <cstring>

namespace cellar::block {

inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Twice the values of the four-bit float format.
inline constexpr int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline uint16_t load16(const uint8_t* p) {
    uint16_t v;
    std::memcpy(&v, p, 2);
    return v;
}
inline uint32_t load32(const uint8_t* p) {
    uint32_t v;
    std::memcpy(&v, p, 4);
    return v;
}

// The eight 6-bit scales and minima of Q4_K and Q5_K in their 12 bytes.
inline void unpack_scales_mins(const uint8_t* packed /* [12] */, uint8_t* scales /* [8] */, uint8_t* mins /* [8] */) {
    for (int i = 0; i < 4; ++i) {
        scales[i] = packed[i] & 63;
        mins[i] = packed[4 + i] & 63;
        scales[4 + i] = static_cast<uint8_t>((packed[8 + i] & 15) | (packed[i] >> 6 << 4));
        mins[4 + i] = static_cast<uint8_t>((packed[8 + i] >> 4) | (packed[4 + i] >> 6 << 4));
    }
}

// The sixteen 6-bit scales of Q3_K in their 12 bytes, 32 taken off.
inline void unpack_q3_scales(const uint8_t* packed /* [12] */, int8_t* scales /* [16] */) {
    for (int i = 0; i < 16; ++i) {
        const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
        const int high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        scales[i] = static_cast<int8_t>((low | high << 4) - 32);
    }
}

// The eight 6-bit scales of IQ4_XS, 32 taken off. `packed` is the block from its third byte on.
inline void unpack_iq4_scales(const uint8_t* packed /* [6] */, int8_t* scales /* [8] */) {
    const uint16_t high = load16(packed);
    for (int i = 0; i < 8; ++i) {
        const int low = packed[2 + i / 2] >> (i % 2 * 4) & 15;
        scales[i] = static_cast<int8_t>((low | (high >> (2 * i) & 3) << 4) - 32);
    }
}

}  // namespace cellar::block
