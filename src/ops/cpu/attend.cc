#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attend.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/target_inl.h"
//
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/thread_team.h"
#include "ops/cpu/attend.h"
#include "ops/cpu/attend_fold_inl.h"
#include "ops/cpu/attend_plan.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {

// int8 values of 32 elements, as bytes and as floats. A block that is not finite gets the scale NaN.
struct QueryBlock {
    float scale;
    int32_t start;
};

QueryBlock quantise_query(const float* x, int8_t* bytes, float* values) {
    const DF d;
    const hn::RebindToSigned<DF> di;
    const auto magnitude = hn::Set(di, 0x7FFFFFFF);
    auto most_bits = hn::Zero(di);
    for (int i = 0; i < kPackedBlock; i += kLanes) most_bits = hn::Max(most_bits, hn::And(hn::BitCast(di, hn::Load(d, x + i)), magnitude));
    const float most = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, most_bits)));
    const bool usable = most >= std::numeric_limits<float>::min() * 128 && most <= std::numeric_limits<float>::max();
    const VF inverse = hn::Set(d, usable ? 127.0F / most : 0.0F);
    int32_t sum = 0;
    for (int i = 0; i < kPackedBlock; i += kLanes) {
        const VF scaled = usable ? hn::Round(hn::Mul(hn::Load(d, x + i), inverse)) : hn::Zero(d);
        hn::Store(scaled, d, values + i);
    }
    for (int i = 0; i < kPackedBlock; ++i) {
        bytes[i] = static_cast<int8_t>(values[i]);
        sum += bytes[i];
    }
    const bool finite = most <= std::numeric_limits<float>::max();
    return {finite ? (usable ? most / 127.0F : 0.0F) : std::numeric_limits<float>::quiet_NaN(), -128 * sum};
}

// One query block's way through one KV head.
class Folder {
  public:
    Folder(const AttendShape& shape, const AttendBlock& block, int kv_head, const AttendSpace& space)
        : shape_(shape), args_(shape.args), block_(block), kv_head_(kv_head), space_(space), rows_(block.tokens * shape.per_kv_head) {}

    // The states of the rows after the positions of one segment.
    void fold_segment(int32_t segment, const AttendState& state) {
        std::fill_n(state.out, rows_ * shape_.v_padded, 0.0F);
        std::fill_n(state.most, rows_, -std::numeric_limits<float>::infinity());
        std::fill_n(state.sum, rows_, 0.0F);
        LaneFinder finder(block_.seq->runs);
        TileLanes lanes[2];
        int current = 0;
        const int32_t end = segment * kSegment + kSegment;
        int32_t start = next_start(segment * kSegment, end);
        if (start < end) finder.find(start, lanes[current]);
        while (start < end) {
            const int32_t next = next_start(start + kTile, end);
            if (next < end) {
                finder.find(next, lanes[1 - current]);
                prefetch(next, lanes[1 - current]);
            }
            fold_tile(start, lanes[current], state);
            current = 1 - current;
            start = next;
        }
    }

  private:
    // The first tile at or behind `start` that holds positions between the first and the last visible one.
    [[nodiscard]] int32_t next_start(int32_t start, int32_t end) const {
        while (start < end && lanes_in(block_.sinks, start) == 0 && lanes_in(block_.recent, start) == 0) start += kTile;
        return start;
    }

    [[nodiscard]] uint32_t union_of(int32_t start) const { return lanes_in(block_.sinks, start) | lanes_in(block_.recent, start); }

    void prefetch(int32_t start, const TileLanes& lanes) const {
        for (uint32_t left = lanes.present & union_of(start); left != 0; left &= left - 1) {
            const int32_t cell = lanes.cells[std::countr_zero(left)];
            prefetch_row(shape_.k, cell);
            prefetch_row(shape_.v, cell);
        }
    }

    void prefetch_row(const kv::RowTable& table, int32_t cell) const {
        const std::byte* row = table.at(args_.plane, kv_head_, cell);
        for (size_t at = 0; at < table.row_bytes; at += 64) __builtin_prefetch(row + at);
    }

    void fold_tile(int32_t start, const TileLanes& lanes, const AttendState& state) {
        uint32_t seen[kBlockRows];
        uint32_t any = 0;
        for (int32_t i = 0; i < block_.tokens; ++i) {
            const kv::Visible& visible = args_.group->visible[static_cast<size_t>(block_.first + i)];
            seen[i] = (lanes_in(visible.sinks, start) | lanes_in(visible.recent, start)) & lanes.present;
            any |= seen[i];
        }
        if (any == 0) return;
        Rows keys;
        find_rows(shape_.k, lanes, any, keys);
        score_tile(lanes, any, keys);
        for (uint32_t left = any; left != 0; left &= left - 1) {
            const int lane = std::countr_zero(left);
            widen_row(shape_.v.format, shape_.v.at(args_.plane, kv_head_, lanes.cells[lane]), shape_.v_width, shape_.v_padded,
                      space_.values + lane * shape_.v_padded);
        }
        // Neighbouring queries that see the same go together.
        for (int32_t i = 0; i < block_.tokens;) {
            int32_t last = i + 1;
            while (last < block_.tokens && seen[last] == seen[i]) ++last;
            if (seen[i] != 0) add_values(i * shape_.per_kv_head, (last - i) * shape_.per_kv_head, seen[i], state);
            i = last;
        }
    }

    // Rows of the positions in `wanted`; the others repeat one of these, so that nothing else is ever read.
    void find_rows(const kv::RowTable& table, const TileLanes& lanes, uint32_t wanted, Rows& rows) const {
        const std::byte* base = table.at(args_.plane, kv_head_, 0);
        const int32_t spare = lanes.cells[std::countr_zero(wanted)];
        for (int i = 0; i < kTile; ++i) {
            const int32_t cell = (wanted >> i & 1U) != 0 ? lanes.cells[i] : spare;
            rows[i] = base + static_cast<size_t>(cell) * table.row_bytes;
        }
    }

    // Scores of all rows for all positions in `wanted`, each against the query turned for it.
    void score_tile(const TileLanes& lanes, uint32_t wanted, const Rows& keys) {
        const int32_t turn = lanes.turns[std::countr_zero(wanted)];
        score(turn, keys, space_.scores);
        uint32_t others = 0;
        for (uint32_t left = wanted; left != 0; left &= left - 1) {
            const int lane = std::countr_zero(left);
            if (lanes.turns[lane] != turn) others |= 1U << lane;
        }
        while (others != 0) {
            const int32_t other = lanes.turns[std::countr_zero(others)];
            score(other, keys, space_.mixed_scores);
            for (int lane = 0; lane < kTile; ++lane) {
                if ((others >> lane & 1U) == 0 || lanes.turns[lane] != other) continue;
                for (int r = 0; r < rows_; ++r) space_.scores[r * kTile + lane] = space_.mixed_scores[r * kTile + lane];
                others &= ~(1U << lane);
            }
        }
    }

    void score(int32_t turn, const Rows& keys, float* scores) {
        if (!prepared_ || turn != turn_) prepare(turn);
        if (shape_.packed_keys) return score_packed(keys, scores);
        for (int c = 0; c < shape_.chunks; ++c) {
            const int n = std::min(kChunk, shape_.k_width - c * kChunk);
            turn_keys(shape_.k.format, keys, c * kChunk, n, space_.keys);
            multiply_all<kChunk>(rows_, kTile,
                                 {.a = space_.query + c * rows_ * kChunk,
                                  .b = space_.keys,
                                  .b_stride = kTile,
                                  .first = 0,
                                  .last = n,
                                  .start = c == 0 ? Start::Zero : Start::Given,
                                  .factors = space_.corrections,
                                  .c = scores,
                                  .c_stride = kTile});
        }
    }

    void score_packed(const Rows& keys, float* scores) {
        std::fill_n(scores, rows_ * kTile, 0.0F);
        for (int b = 0; b * kPackedBlock < shape_.k_width; ++b) {
            turn_packed(keys, b * kPackedBlockBytes);
            const int at = b / 2 * rows_ * kChunk + b % 2 * kPackedBlock;
            multiply_packed_all(rows_, {.query = space_.query + at,
                                        .query_bytes = space_.query_bytes + at,
                                        .query_scales = space_.query_scales + b * rows_,
                                        .starts = space_.query_starts + b * rows_,
                                        .keys = space_.keys,
                                        .key_scales = space_.key_scales,
                                        .scores = scores});
        }
    }

    // One block of the K rows, as multiply_packed wants it.
    void turn_packed(const Rows& keys, ptrdiff_t at) {
        gather_scales(keys, at, space_.key_scales);
#if HWY_TARGET == HWY_AVX3_DL
        turn_block(keys, at, 0x80808080U, reinterpret_cast<uint32_t*>(space_.keys));
#elif HWY_TARGET != HWY_SCALAR
        // The second half of the buffer is free: a block as floats takes the first.
        auto* units = reinterpret_cast<uint32_t*>(space_.keys + kPackedBlock * kTile);
        turn_block(keys, at, 0, units);
        widen_units(units, space_.keys);
#else
        for (int i = 0; i < kTile; ++i) {
            for (int k = 0; k < kPackedBlock; ++k) space_.keys[k * kTile + i] = static_cast<float>(static_cast<int8_t>(keys[i][at + 2 + k]));
        }
#endif
    }

    // The rows' queries, turned back by `turn`, scaled, in chunks.
    void prepare(int32_t turn) {
        const int padded = shape_.chunks * kChunk;
        const int dims = args_.rope.dims;
        for (int i = 0; turn != 0 && i < dims / 2; ++i) {
            const double angle = -static_cast<double>(turn) * args_.rope.frequency[i];
            space_.turn_table[2 * i] = static_cast<float>(std::cos(angle));
            space_.turn_table[2 * i + 1] = static_cast<float>(std::sin(angle));
        }
        const VF factor = hn::Set(DF(), args_.soft_cap != 0.0F ? args_.scale : args_.scale * kLog2e);
        float* row = space_.query_row;
        for (int r = 0; r < rows_; ++r) {
            const int64_t token = block_.first + r / shape_.per_kv_head;
            const int64_t head = static_cast<int64_t>(kv_head_) * shape_.per_kv_head + r % shape_.per_kv_head;
            std::copy_n(args_.q.row(token) + head * shape_.k_width, shape_.k_width, row);
            std::fill(row + shape_.k_width, row + padded, 0.0F);
            if (turn != 0) turn_row(row, dims);
            for (int i = 0; i < padded; i += kLanes) hn::Store(hn::Mul(hn::Load(DF(), row + i), factor), DF(), row + i);
            for (int c = 0; c < shape_.chunks; ++c) put_chunk(row + c * kChunk, c, r);
        }
        prepared_ = true;
        turn_ = turn;
    }

    void turn_row(float* row, int dims) const {
        const bool halves = args_.pairing == RopePairing::Halves;
        const float* table = space_.turn_table;
        for (int i = 0; i < dims / 2; ++i) {
            float& a = row[halves ? i : 2 * i];
            float& b = row[halves ? i + dims / 2 : 2 * i + 1];
            const float x = a;
            const float y = b;
            a = x * table[2 * i] - y * table[2 * i + 1];
            b = x * table[2 * i + 1] + y * table[2 * i];
        }
    }

    void put_chunk(const float* values, int chunk, int row) {
        const int at = (chunk * rows_ + row) * kChunk;
        if (!shape_.packed_keys) {
            std::copy_n(values, kChunk, space_.query + at);
            return;
        }
        for (int half = 0; half < 2; ++half) {
            const int offset = half * kPackedBlock;
            const QueryBlock block = quantise_query(values + offset, space_.query_bytes + at + offset, space_.query + at + offset);
            space_.query_scales[(2 * chunk + half) * rows_ + row] = block.scale;
            space_.query_starts[(2 * chunk + half) * rows_ + row] = block.start;
        }
    }

    // Folds the values of the tile into rows [first, first + count), all of which see the positions in `seen`.
    void add_values(int first, int count, uint32_t seen, const AttendState& state) {
        HWY_ALIGN float hidden[kTile];
        for (int i = 0; i < kTile; ++i) hidden[i] = (seen >> i & 1U) != 0 ? 0.0F : -1.0F;
        const bool all = seen == 0xFFFFFFFFU;
        for (int r = first; r < first + count; ++r) {
            weigh_row(space_.scores + r * kTile, all ? nullptr : hidden, args_.soft_cap, state.most[r], state.sum[r], space_.corrections[r]);
        }
        // The chain of additions passes over positions that are not seen: they may hold anything.
        Product product{.a = space_.scores + first * kTile,
                        .b = space_.values,
                        .b_stride = shape_.v_padded,
                        .first = 0,
                        .last = 0,
                        .start = Start::Scaled,
                        .factors = space_.corrections + first,
                        .c = state.out + first * shape_.v_padded,
                        .c_stride = shape_.v_padded};
        for (uint64_t left = seen; left != 0;) {
            product.first = std::countr_zero(left);
            product.last = product.first + std::countr_one(left >> product.first);
            multiply_all<kTile>(count, shape_.v_padded, product);
            product.start = Start::Given;
            left &= ~uint64_t{0} << product.last;
        }
    }

    const AttendShape& shape_;
    const AttendArgs& args_;
    const AttendBlock& block_;
    int kv_head_;
    const AttendSpace& space_;
    int rows_;
    bool prepared_ = false;
    int32_t turn_ = 0;
};

// Merges the state of a segment into the totals, which lie in the output matrix.
void merge_state(const AttendShape& shape, const AttendBlock& block, int kv_head, const AttendState& state, float* totals) {
    const int64_t all = shape.args.q.rows * shape.args.heads;
    for (int r = 0; r < block.tokens * shape.per_kv_head; ++r) {
        const int64_t token = block.first + r / shape.per_kv_head;
        const int64_t head = static_cast<int64_t>(kv_head) * shape.per_kv_head + r % shape.per_kv_head;
        float* most = totals + token * shape.args.heads + head;
        merge_row(shape.args.out.row(token) + head * shape.v_width, *most, most[all], state.out + r * shape.v_padded, state.most[r], state.sum[r],
                  shape.v_width);
    }
}

void clear_totals(const AttendShape& shape, const AttendBlock& block, int kv_head, float* totals) {
    const int64_t all = shape.args.q.rows * shape.args.heads;
    for (int64_t token = block.first; token < block.first + block.tokens; ++token) {
        float* most = totals + token * shape.args.heads + static_cast<int64_t>(kv_head) * shape.per_kv_head;
        std::fill_n(most, shape.per_kv_head, -std::numeric_limits<float>::infinity());
        std::fill_n(most + all, shape.per_kv_head, 0.0F);
    }
}

void finish(const AttendShape& shape, const AttendBlock& block, int kv_head, const float* totals) {
    const int64_t all = shape.args.q.rows * shape.args.heads;
    for (int r = 0; r < block.tokens * shape.per_kv_head; ++r) {
        const int64_t token = block.first + r / shape.per_kv_head;
        const int64_t head = static_cast<int64_t>(kv_head) * shape.per_kv_head + r % shape.per_kv_head;
        const float* most = totals + token * shape.args.heads + head;
        const float sink = shape.args.sinks == nullptr ? 0.0F : shape.args.sinks[head] * kLog2e;
        finish_row(shape.args.out.row(token) + head * shape.v_width, *most, most[all], shape.args.sinks == nullptr ? nullptr : &sink, shape.v_width);
    }
}

// All of a block's way through one KV head.
void attend_block(const AttendShape& shape, const AttendBlock& block, int kv_head, const AttendSpace& space, float* totals) {
    clear_totals(shape, block, kv_head, totals);
    Folder folder(shape, block, kv_head, space);
    for (int32_t i = 0; i < block.segments(); ++i) {
        folder.fold_segment(block.segment(i), space.state);
        merge_state(shape, block, kv_head, space.state, totals);
    }
    finish(shape, block, kv_head, totals);
}

// One segment of it, into a state of its own.
void attend_segment(const AttendShape& shape, const AttendBlock& block, int kv_head, int32_t segment, const AttendSpace& space,
                    const AttendState& state) {
    Folder(shape, block, kv_head, space).fold_segment(segment, state);
}

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops {
HWY_EXPORT(attend_block);
HWY_EXPORT(attend_segment);
HWY_EXPORT(merge_state);
HWY_EXPORT(clear_totals);
HWY_EXPORT(finish);
}  // namespace cellar::ops

namespace cellar::ops::cpu_impl {
namespace {

constexpr int64_t kMostSlots = 64;
constexpr size_t kSlotBudget = size_t{4} << 20;

// The number of a pair of block and KV head, and of one of its segments.
struct Item {
    const AttendBlock* block;
    int kv_head;
    int32_t segment;  // ordinal within the block
};

Item item_at(const AttendShape& shape, std::span<const AttendBlock> blocks, int64_t i) {
    const auto after = std::upper_bound(blocks.begin(), blocks.end(), i, [](int64_t n, const AttendBlock& b) { return n < b.first_item; });
    const AttendBlock& block = *(after - 1);
    const int64_t within = i - block.first_item;
    CHECK_LT(within, static_cast<int64_t>(block.segments()) * shape.k.heads);
    return {&block, static_cast<int>(within / block.segments()), static_cast<int32_t>(within % block.segments())};
}

// Segments are folded side by side, as many at a time as there are slots, and then merged left to right.
void attend_split(const AttendShape& shape, std::span<const AttendBlock> blocks, const AttendLayout& layout, int64_t slots, ThreadTeam& team) {
    std::byte* scratch = shape.args.scratch;
    float* totals = layout.totals(scratch);
    const auto segment = HWY_DYNAMIC_DISPATCH(attend_segment);
    for (const AttendBlock& block : blocks) {
        for (int h = 0; h < shape.k.heads; ++h) HWY_DYNAMIC_DISPATCH(clear_totals)(shape, block, h, totals);
    }
    const AttendBlock& last = blocks.back();
    const int64_t items = last.first_item + static_cast<int64_t>(last.segments()) * shape.k.heads;
    for (int64_t wave = 0; wave < items; wave += slots) {
        const int64_t count = std::min(slots, items - wave);
        team.run(count, [&](int64_t i, int member) {
            const Item item = item_at(shape, blocks, wave + i);
            segment(shape, *item.block, item.kv_head, item.block->segment(item.segment), layout.space(scratch, member), layout.slot(scratch, i));
        });
        for (int64_t i = 0; i < count; ++i) {
            const Item item = item_at(shape, blocks, wave + i);
            HWY_DYNAMIC_DISPATCH(merge_state)(shape, *item.block, item.kv_head, layout.slot(scratch, i), totals);
        }
    }
    for (const AttendBlock& block : blocks) {
        for (int h = 0; h < shape.k.heads; ++h) HWY_DYNAMIC_DISPATCH(finish)(shape, block, h, totals);
    }
}

// Whether whole blocks would leave a member of the team waiting for another.
bool should_split(const AttendShape& shape, std::span<const AttendBlock> blocks, int threads) {
    if (threads == 1) return false;
    int64_t total = 0;
    int64_t most = 0;
    for (const AttendBlock& block : blocks) {
        const int64_t work = static_cast<int64_t>(block.segments()) * block.tokens;
        total += work;
        most = std::max(most, work);
    }
    return most * 4 * threads > total * shape.k.heads;
}

int rounded(int n, int to) {
    return (n + to - 1) / to * to;
}

}  // namespace

size_t attend_scratch_bytes(int tokens, int heads, int width, int64_t context, int threads) {
    const int rows = std::min(std::max(kBlockRows, heads), tokens * heads);
    const AttendLayout layout(tokens, heads, rows, rounded(width, kChunk) / kChunk, rounded(width, 16), threads);
    const int64_t segments = (context + kSegment - 1) / kSegment + 1;
    int64_t slots = std::min(kMostSlots, static_cast<int64_t>(kSlotBudget / layout.slot_bytes));
    slots = std::min(std::max<int64_t>(slots, 2L * threads), segments * heads * tokens);
    return layout.slots_at + static_cast<size_t>(slots) * layout.slot_bytes;
}

void attend(const AttendArgs& args, ThreadTeam& team) {
    const auto tokens = static_cast<int>(args.q.rows);
    int most_tokens = 0;
    for (const kv::SeqView& seq : args.group->seqs) most_tokens = std::max(most_tokens, seq.tokens);
    if (most_tokens == 0) return;
    const AttendShape shape(args, most_tokens);
    const AttendLayout layout(tokens, args.heads, shape.rows, shape.chunks, shape.v_padded, team.size());
    CHECK_LE(layout.slots_at, args.scratch_bytes);
    const std::span<const AttendBlock> blocks(layout.blocks(args.scratch), static_cast<size_t>(cut_blocks(shape, layout.blocks(args.scratch))));
    const auto slots = std::min(kMostSlots, static_cast<int64_t>((args.scratch_bytes - layout.slots_at) / layout.slot_bytes));
    if (slots > 1 && should_split(shape, blocks, team.size())) return attend_split(shape, blocks, layout, slots, team);
    const auto block = HWY_DYNAMIC_DISPATCH(attend_block);
    // The last blocks of a sequence see the most: they go first.
    const auto pieces = static_cast<int64_t>(blocks.size()) * shape.k.heads;
    team.run(pieces, [&](int64_t piece, int member) {
        const int64_t i = pieces - 1 - piece;
        block(shape, blocks[static_cast<size_t>(i / shape.k.heads)], static_cast<int>(i % shape.k.heads), layout.space(args.scratch, member),
              layout.totals(args.scratch));
    });
}

}  // namespace cellar::ops::cpu_impl
#endif
