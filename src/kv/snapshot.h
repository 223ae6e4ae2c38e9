#pragma once
// Pieces of sequences as bytes: the tokens of a range of positions and the rows that a sequence holds of them. docs/file.md describes every byte.
//
// A piece does not depend on where rows lie, how large blocks are or how long a context may be; its rows keep the format they were stored in, and
// are converted when they are read into a cache of another one.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv/cache.h"

namespace cellar::kv {

using Sink = std::function<Result<void>(std::span<const std::byte>)>;

// Writes positions [positions.lo, positions.hi) of a sequence, in order and in as many pieces as it likes. The same calls with a sink that only
// counts give the size beforehand. Requires: 0 <= lo < hi <= length.
Result<void> write_piece(const Cache& cache, SeqId id, Interval positions, const Sink& sink);
uint64_t piece_bytes(const Cache& cache, SeqId id, Interval positions);

// A piece in memory, checked: every range lies within the bytes. Views live as long as the bytes do.
struct Piece {
    struct Group {
        std::vector<RowTable> rows;  // over the piece's bytes, read only; cell i is the i-th held position
        std::vector<Run> runs;       // absolute positions; `cell` counts held positions
        int planes = 0;
    };
    Interval positions;
    std::vector<Token> tokens;  // [positions.length()]
    std::vector<Group> groups;
};

// Refuses what is damaged, and rows that the cache's groups do not have. Formats may differ.
Result<Piece> parse_piece(std::span<const std::byte> bytes, std::string_view source, const CacheSpec& spec);

// Appends positions [length(id), end) from a piece that holds them. Full leaves the sequence with what was appended before.
// Requires: positions.lo <= length(id) < end <= positions.hi.
Result<void> append_piece(Cache& cache, SeqId id, const Piece& piece, int32_t end);

// True where rows of the piece have another format than the cache stores.
bool converts(const Piece& piece, const CacheSpec& spec);

}  // namespace cellar::kv
