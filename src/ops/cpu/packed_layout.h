#pragma once
// How packed weights lie in memory: `lanes` neighbouring rows together, so that one vector load gives the same four bytes of each.
//
//   matrix  groups of `lanes` rows; the last is filled up with rows of zero bytes
//   group   chunks of 256 columns; the last may be narrower
//   chunk   columns [blocks][columns of a block][lanes] of four bytes, then the rest [blocks][lanes], filled up to 64 bytes
//
// A column is four neighbouring bytes of a block in the file. Blocks whose size is no multiple of four leave one or two bytes over,
// the rest: their scale. Nothing is decoded, so a packed matrix is as large as the file's, apart from the filling.
#include <cstddef>
#include <cstdint>

#include "ops/cpu/panel.h"
#include "tensor/dtype.h"

namespace cellar::ops::cpu_impl {

struct PackedLayout {
    int columns = 0;       // of a block
    int first_column = 0;  // byte of the block where the columns start
    int rest = 0;          // bytes left over
    int rest_at = 0;       // byte of the block where they are
};

constexpr PackedLayout packed_layout(DType type) {
    const int bytes = panel_format(type).block_bytes;
    const int rest = bytes % 4;
    // The formats with 256 columns end in their scale, the others start with it.
    if (panel_format(type).per_256) return {bytes / 4, 0, rest, bytes - rest};
    return {bytes / 4, rest, rest, 0};
}

// Bytes of a chunk of `blocks` blocks.
constexpr size_t packed_chunk_bytes(DType type, int lanes, int64_t blocks) {
    const auto bytes = static_cast<size_t>(blocks) * static_cast<size_t>(panel_format(type).block_bytes * lanes);
    return (bytes + 63) / 64 * 64;
}

// Bytes of a group of rows of `cols` columns.
constexpr size_t packed_group_bytes(DType type, int lanes, int64_t cols) {
    const int64_t block = panel_format(type).per_256 ? 256 : 32;
    const size_t whole = static_cast<size_t>(cols / kChunk) * packed_chunk_bytes(type, lanes, kChunk / block);
    return whole + (cols % kChunk != 0 ? packed_chunk_bytes(type, lanes, cols % kChunk / block) : 0);
}

}  // namespace cellar::ops::cpu_impl
