#pragma once
// A panel: a piece of `lanes` weight rows, 256 columns wide, rewritten so that each lane of a vector is a row.
//
// Every weight is scale * (q - offset) + minimum, with one scale (and minimum) for each row and each sub-block of 16 or 32 columns.
// The quants of four neighbouring columns of a row lie together: q[column / 4][row][column % 4]; where they are words of 16 bits, two vectors
// hold them, columns 0 and 2 of the four and columns 1 and 3.
// `offset` is the same for a whole format; it is taken off by starting each sum at -offset * (sum of the activations).
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace cellar::ops::cpu_impl {

inline constexpr int kChunk = 256;       // columns of a panel
inline constexpr int kGroupRows = 64;    // rows that a piece of work takes: several panels
inline constexpr int kGroupTokens = 64;  // rows of activations that it takes

struct PanelFormat {
    int sub = 32;          // columns that share a scale
    bool per_256 = false;  // activations have one scale for each 256, not for each 32
    bool minimum = false;
    bool wide = false;    // quants use all 8 bits with a sign
    int offset = 0;       // of the quants in a panel; of wide ones, where the machine wants them unsigned
    int block_bytes = 0;  // in the file: of 256 columns with per_256, else of 32
    int most = 255;       // the largest quant in a panel, where they are not wide
};

constexpr PanelFormat panel_format(DType type) {
    switch (type) {
        case DType::Q4_0:
            return {32, false, false, false, 8, 18, 15};
        case DType::Q4_1:
            return {32, false, true, false, 0, 20, 15};
        case DType::Q5_0:
            return {32, false, false, false, 16, 22, 31};
        case DType::Q5_1:
            return {32, false, true, false, 0, 24, 31};
        case DType::Q8_0:
            return {32, false, false, true, 128, 34};
        case DType::IQ4_NL:
            return {32, false, false, true, 128, 18};
        case DType::MXFP4:
            return {32, false, false, false, 12, 17, 24};
        case DType::Q2_K:
            return {16, true, true, false, 0, 84, 3};
        case DType::Q3_K:
            return {16, true, false, false, 4, 110, 7};
        case DType::Q4_K:
            return {32, true, true, false, 0, 144, 15};
        case DType::Q5_K:
            return {32, true, true, false, 0, 176, 31};
        case DType::Q6_K:
            return {16, true, false, false, 32, 210, 63};
        case DType::IQ4_XS:
            return {32, true, false, true, 128, 136};
        default:
            return {};
    }
}

// How many products of two pairs 16 bits hold the sum of: activations are at most 127.
constexpr int pair_sums(const PanelFormat& format) {
    return format.wide ? 1 : 32767 / (2 * 127 * format.most);
}

}  // namespace cellar::ops::cpu_impl
