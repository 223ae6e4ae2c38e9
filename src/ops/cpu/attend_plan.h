#pragma once
// How attention is cut into pieces, and where the pieces keep what they work on. Plain code, the same for all targets.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/types.h"

namespace cellar::ops::cpu_impl {

inline constexpr int kTile = 32;       // positions
inline constexpr int kSegment = 1024;  // positions
inline constexpr int kChunk = 64;      // elements of a K row that are folded at a time
inline constexpr int kBlockRows = 64;  // rows of a piece: query heads that share their KV head; more only where one token has more
// What counts as no score at all. It is finite, so that differences of scores are never undefined.
inline constexpr float kNoScore = -0x1p100F;
inline constexpr float kLog2e = 1.44269504088896340736F;

struct AttendShape {
    AttendShape(const AttendArgs& args, int most_tokens);

    const AttendArgs& args;
    kv::RowTable k;
    kv::RowTable v;
    int k_width;
    int v_width;
    int chunks;        // of kChunk in k_width
    int v_padded;      // v_width rounded up to 16
    int per_kv_head;   // query heads
    int block_tokens;  // queries of a piece, at most kBlockRows
    int rows;          // block_tokens * per_kv_head
    bool packed_keys;
    bool packed_values;
};

// Neighbouring queries of one sequence.
struct AttendBlock {
    const kv::SeqView* seq;
    int32_t first;  // token of the batch
    int32_t tokens;
    kv::Interval sinks;  // what any of them sees
    kv::Interval recent;
    int64_t first_item;  // number of (KV head, segment) pairs of the blocks before

    // Segments that hold something visible: [0, head_segments) and [tail_first, tail_end).
    [[nodiscard]] int32_t head_segments() const { return (sinks.hi + kSegment - 1) / kSegment; }
    [[nodiscard]] int32_t tail_first() const;
    [[nodiscard]] int32_t tail_end() const;
    [[nodiscard]] int32_t segments() const { return head_segments() + tail_end() - tail_first(); }
    [[nodiscard]] int32_t segment(int32_t i) const { return i < head_segments() ? i : tail_first() + i - head_segments(); }
};

// Writes the blocks of all sequences; returns how many there are, at most one for each token.
int64_t cut_blocks(const AttendShape& shape, AttendBlock* blocks);

// States of a block's rows after some positions.
struct AttendState {
    float* out;   // [rows, v_padded]
    float* most;  // [rows]: kNoScore where nothing was seen
    float* sum;   // [rows]
};

// What one member of the team works on.
struct AttendSpace {
    float* query;           // [chunks, rows, kChunk]: scaled; not with packed keys
    int16_t* query_quants;  // [chunks, rows, kChunk]: with packed keys; of 8 or 16 bits, as the target multiplies them
    float* query_scales;    // [chunks * 2, rows]
    int32_t* query_starts;  // [chunks * 2, rows]: -128 times the sum of a block's bytes
    float* query_row;       // [chunks * kChunk]
    float* turn_table;      // [chunks * kChunk]
    float* keys;            // [kChunk, kTile]; of packed keys one block as pairs of words, where the target multiplies these
    uint16_t* key_halves;   // [kChunk, kTile]
    float* values;          // [kTile, v_padded]
    float* value_scales;    // [blocks of 32 in v_padded, kTile]
    float* scores;          // [rows, kTile]
    float* other_scores;    // [rows, kTile]: those of another turn, then weights times scales of packed values
    float* corrections;     // [rows]
    float* lane_sums;       // [rows, 16]
    AttendState state;
};

// Offsets into the scratch memory.
struct AttendLayout {
    AttendLayout(int tokens, int heads, int rows, int chunks, int v_padded, int threads);

    [[nodiscard]] AttendSpace space(std::byte* scratch, int member) const;
    [[nodiscard]] AttendState slot(std::byte* scratch, int64_t i) const;
    // The maximum and the sum of each token's head, over all segments merged so far: two arrays of [tokens * heads].
    [[nodiscard]] float* totals(std::byte* scratch) const { return reinterpret_cast<float*>(scratch + totals_at); }
    [[nodiscard]] AttendBlock* blocks(std::byte* scratch) const { return reinterpret_cast<AttendBlock*>(scratch); }

    int rows;
    int chunks;
    int v_padded;
    size_t totals_at;
    size_t spaces_at;
    size_t space_bytes;
    size_t slots_at;
    size_t slot_bytes;
};

// The tile that starts at a position: which of its positions the sequence has, and where.
struct TileLanes {
    uint32_t present = 0;
    bool neighbours = false;  // all are present, have one turn, and their cells lie one behind another: only the first of each array is set
    bool one_turn = true;     // all of them have the same
    int32_t cells[kTile];     // set where present, as are the turns
    int32_t turns[kTile];
};

// Walks the tiles of a sequence upwards.
class LaneFinder {
  public:
    // `from`: no tile before it is asked for.
    LaneFinder(std::span<const kv::Run> runs, int32_t from);
    // Requires: starts do not fall from call to call.
    void find(int32_t start, TileLanes& lanes);

  private:
    std::span<const kv::Run> runs_;
    size_t first_;  // runs before it end at or before the last start
};

// The kernels of the target in force. `totals` as AttendLayout::totals.
struct AttendKernels {
    // All of a block's way through one KV head, into the output matrix.
    void (*attend_block)(const AttendShape& shape, const AttendBlock& block, int kv_head, const AttendSpace& space, float* totals);
    // One segment of it, into a state of its own.
    void (*attend_segment)(const AttendShape& shape, const AttendBlock& block, int kv_head, int32_t segment, const AttendSpace& space,
                           const AttendState& state);
    // What segments are merged with: the totals, whose values lie in the output matrix.
    void (*clear_totals)(const AttendShape& shape, const AttendBlock& block, int kv_head, float* totals);
    void (*merge_state)(const AttendShape& shape, const AttendBlock& block, int kv_head, const AttendState& state, float* totals);
    void (*finish)(const AttendShape& shape, const AttendBlock& block, int kv_head, const float* totals);
};
AttendKernels attend_kernels();

// The lanes of the tile at `start` that lie in an interval.
inline uint32_t lanes_in(const kv::Interval& interval, int32_t start) {
    const int64_t lo = std::clamp<int64_t>(int64_t{interval.lo} - start, 0, kTile);
    const int64_t hi = std::clamp<int64_t>(int64_t{interval.hi} - start, 0, kTile);
    return hi <= lo ? 0 : static_cast<uint32_t>((uint64_t{1} << hi) - (uint64_t{1} << lo));
}

}  // namespace cellar::ops::cpu_impl
