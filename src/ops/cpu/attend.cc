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

#include "ops/cpu/attend_fold_inl.h"
#include "ops/cpu/attend_packed_inl.h"
#include "ops/cpu/attend_plan.h"
#include "ops/cpu/attend_weigh_inl.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {

// One query block's way through one KV head.
class Folder {
  public:
    Folder(const AttendShape& shape, const AttendBlock& block, int kv_head, const AttendSpace& space)
        : shape_(shape),
          args_(shape.args),
          block_(block),
          kv_head_(kv_head),
          space_(space),
          rows_(block.tokens * shape.per_kv_head),
          k_base_(shape.k.at(args_.plane, kv_head, 0)),
          v_base_(shape.v.at(args_.plane, kv_head, 0)),
          // With few rows a tile is read once, and not worth a copy as floats.
          from_cells_(HWY_TARGET != HWY_SCALAR && rows_ <= kFewRows && shape.v_width == shape.v_padded) {}

    // The states of the rows after the positions of one segment.
    void fold_segment(int32_t segment, const AttendState& state) {
        std::fill_n(state.out, rows_ * shape_.v_padded, 0.0F);
        std::fill_n(state.most, rows_, kNoScore);
        std::fill_n(space_.lane_sums, rows_ * 16, 0.0F);
        LaneFinder finder(block_.seq->runs, segment * kSegment);
        Tile tiles[2];
        int current = 0;
        const int32_t end = segment * kSegment + kSegment;
        bool more = find_tile(finder, segment * kSegment, end, tiles[current]);
        if (more) fetch_tile(tiles[current]);
        while (more) {
            Tile& tile = tiles[current];
            current = 1 - current;
            more = find_tile(finder, tile.start + kTile, end, tiles[current]);
            // The last tile fetches itself.
            const Tile& next = more ? tiles[current] : tile;
            tile.keys.next = next.keys.at;
            tile.values.next = next.values.at;
            fold_tile(tile, state);
        }
        for (int r = 0; r < rows_; ++r) state.sum[r] = hn::GetLane(hn::SumOfLanes(DF(), hn::Load(DF(), space_.lane_sums + r * 16)));
    }

  private:
    struct Tile {
        int32_t start;
        TileLanes lanes;
        uint32_t seen[kBlockRows];  // by each query
        uint32_t any;               // by one of them
        Rows keys;
        Rows values;
    };

    // The first tile of a segment comes from memory while the query is prepared.
    void fetch_tile(const Tile& tile) const {
        fetch_rows(tile.keys, shape_.k.row_bytes);
        fetch_rows(tile.values, shape_.v.row_bytes);
    }
    static void fetch_rows(const Rows& rows, size_t row_bytes) {
        const int bytes = fetched_bytes(row_bytes);
        for (const std::byte* row : rows.at) {
            for (int i = 0; i < bytes; i += 64) fetch(row + i);
        }
    }

    // The first tile at or behind `start` of which a query sees something.
    bool find_tile(LaneFinder& finder, int32_t start, int32_t end, Tile& tile) const {
        for (; start < end; start += kTile) {
            if ((lanes_in(block_.sinks, start) | lanes_in(block_.recent, start)) == 0) continue;
            finder.find(start, tile.lanes);
            tile.any = 0;
            for (int32_t i = 0; i < block_.tokens; ++i) {
                const kv::Visible& visible = args_.group->visible[static_cast<size_t>(block_.first) + static_cast<size_t>(i)];
                tile.seen[i] = (lanes_in(visible.sinks, start) | lanes_in(visible.recent, start)) & tile.lanes.present;
                tile.any |= tile.seen[i];
            }
            if (tile.any == 0) continue;
            tile.start = start;
            find_rows(tile);
            return true;
        }
        return false;
    }

    // Rows of the positions that are seen; the others repeat one of these, so that nothing else is ever read.
    void find_rows(Tile& tile) const {
        const TileLanes& lanes = tile.lanes;
        if (lanes.neighbours) {
            const std::byte* k = k_base_ + static_cast<size_t>(lanes.cells[0]) * shape_.k.row_bytes;
            const std::byte* v = v_base_ + static_cast<size_t>(lanes.cells[0]) * shape_.v.row_bytes;
            for (int i = 0; i < kTile; ++i) {
                tile.keys.at[i] = k + static_cast<size_t>(i) * shape_.k.row_bytes;
                tile.values.at[i] = v + static_cast<size_t>(i) * shape_.v.row_bytes;
            }
        } else {
            for (uint32_t left = tile.any; left != 0; left &= left - 1) {
                const int lane = std::countr_zero(left);
                tile.keys.at[lane] = k_base_ + static_cast<size_t>(lanes.cells[lane]) * shape_.k.row_bytes;
                tile.values.at[lane] = v_base_ + static_cast<size_t>(lanes.cells[lane]) * shape_.v.row_bytes;
            }
        }
        const int spare = std::countr_zero(tile.any);
        for (uint32_t left = ~tile.any; left != 0; left &= left - 1) {
            const int lane = std::countr_zero(left);
            tile.keys.at[lane] = tile.keys.at[spare];
            tile.values.at[lane] = tile.values.at[spare];
        }
    }

    void fold_tile(const Tile& tile, const AttendState& state) {
        const int v_blocks = shape_.packed_values ? (shape_.v_width + kPackedBlock - 1) / kPackedBlock : 0;
        for (int b = 0; b < v_blocks; ++b) load_scales(tile.values, b * kPackedBlockBytes, space_.value_scales + b * kTile);
        score_tile(tile);
        if (!from_cells_) {
            for (uint32_t left = tile.any; left != 0; left &= left - 1) {
                const int lane = std::countr_zero(left);
                for (size_t at = 0; at < shape_.v.row_bytes; at += 64) fetch(tile.values.next[lane] + at);
                widen_row(shape_.v.format, tile.values.at[lane], shape_.v_width, shape_.v_padded, space_.values + lane * shape_.v_padded);
            }
        }
        // Neighbouring queries that see the same go together.
        for (int32_t i = 0; i < block_.tokens;) {
            int32_t last = i + 1;
            while (last < block_.tokens && tile.seen[last] == tile.seen[i]) ++last;
            if (tile.seen[i] != 0) fold_rows(tile, i * shape_.per_kv_head, (last - i) * shape_.per_kv_head, tile.seen[i], state);
            i = last;
        }
    }

    // Scores of all rows for all positions that are seen, each against the query turned for it.
    void score_tile(const Tile& tile) {
        const int32_t turn = tile.lanes.turns[tile.lanes.neighbours ? 0 : std::countr_zero(tile.any)];
        score(turn, tile.keys, space_.scores);
        if (tile.lanes.neighbours || tile.lanes.one_turn) return;
        uint32_t others = 0;
        for (uint32_t left = tile.any; left != 0; left &= left - 1) {
            const int lane = std::countr_zero(left);
            if (tile.lanes.turns[lane] != turn) others |= 1U << lane;
        }
        while (others != 0) {
            const int32_t other = tile.lanes.turns[std::countr_zero(others)];
            score(other, tile.keys, space_.other_scores);
            for (int lane = 0; lane < kTile; ++lane) {
                if ((others >> lane & 1U) == 0 || tile.lanes.turns[lane] != other) continue;
                for (int r = 0; r < rows_; ++r) space_.scores[r * kTile + lane] = space_.other_scores[r * kTile + lane];
                others &= ~(1U << lane);
            }
        }
    }

    void score(int32_t turn, const Rows& keys, float* scores) {
        if (!prepared_ || turn != turn_) prepare(turn);
        if (shape_.packed_keys) return score_packed(keys, scores);
        for (int c = 0; c < shape_.chunks; ++c) {
            const int n = std::min(kChunk, shape_.k_width - c * kChunk);
            const Product product{.a = space_.query + c * rows_ * kChunk,
                                  .first = 0,
                                  .last = n,
                                  .start = c == 0 ? Start::Zero : Start::Given,
                                  .factors = space_.corrections,
                                  .c = scores,
                                  .c_stride = kTile};
            score_chunk(keys, c * kChunk, n, product);
        }
    }

    // The product of the query with elements [first, first + n) of the keys.
    void score_chunk(const Rows& keys, int first, int n, const Product& product) {
        const kv::RowFormat format = shape_.k.format;
        int done = 0;
#if HWY_TARGET != HWY_SCALAR
        const ptrdiff_t at = element_at(format, first);
        if (format == kv::RowFormat::F32) {
            done = n / 4 * 4;
            turn_floats(keys, at, done, space_.keys);
        } else {
            done = n / 8 * 8;
            turn_halves(keys, at, done, space_.key_halves);
            if (rows_ <= kFewRows && done == n) {
                if (format == kv::RowFormat::F16) {
                    return multiply_all<kChunk>(rows_, kTile, product, HalfTile<kv::RowFormat::F16>{space_.key_halves, {&keys, at, 2 * n}});
                }
                return multiply_all<kChunk>(rows_, kTile, product, HalfTile<kv::RowFormat::BF16>{space_.key_halves, {&keys, at, 2 * n}});
            }
            if (format == kv::RowFormat::F16) widen_halves<kv::RowFormat::F16>(keys, at, space_.key_halves, done, space_.keys);
            if (format == kv::RowFormat::BF16) widen_halves<kv::RowFormat::BF16>(keys, at, space_.key_halves, done, space_.keys);
        }
#endif
        if (done < n) turn_slowly(format, keys, first + done, n - done, space_.keys + done * kTile);
        multiply_all<kChunk>(rows_, kTile, product, FloatTile{space_.keys, kTile});
    }

    void score_packed(const Rows& keys, float* scores) {
        for (int b = 0; b * kPackedBlock < shape_.k_width; ++b) {
            multiply_packed(rows_, {.keys = keys,
                                    .at = b * kPackedBlockBytes,
                                    .query = query_quants() + b / 2 * rows_ * kChunk + b % 2 * kPackedBlock,
                                    .query_scales = space_.query_scales + b * rows_,
                                    .starts = space_.query_starts + b * rows_,
                                    .space = reinterpret_cast<uint32_t*>(space_.keys),
                                    .scores = scores,
                                    .first = b == 0});
        }
    }

    [[nodiscard]] Quant* query_quants() const {
        return reinterpret_cast<Quant*>(space_.query_quants);
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
            const QueryBlock block = quantise_query(values + offset, query_quants() + at + offset);
            space_.query_scales[(2 * chunk + half) * rows_ + row] = block.scale;
            space_.query_starts[(2 * chunk + half) * rows_ + row] = block.start;
        }
    }

    // Weighs the scores of rows [first, first + count), all of which see the positions in `seen`, and folds in the values.
    void fold_rows([[maybe_unused]] const Tile& tile, int first, int count, uint32_t seen, const AttendState& state) {
        HWY_ALIGN float hidden[kTile];
        const bool all = seen == 0xFFFFFFFFU;
        for (int i = 0; !all && i < kTile; ++i) hidden[i] = (seen >> i & 1U) != 0 ? 0.0F : 1.0F;
        float* weights = space_.scores + first * kTile;
        const bool raised = weigh({.scores = weights,
                                   .hidden = all ? nullptr : hidden,
                                   .soft_cap = args_.soft_cap,
                                   .most = state.most + first,
                                   .lane_sums = space_.lane_sums + first * 16,
                                   .corrections = space_.corrections + first},
                                  count);
#if HWY_TARGET != HWY_SCALAR
        if (from_cells_) {
            const CellProduct product{.rows = tile.values,
                                      .seen = seen,
                                      .weights = weights,
                                      .value_scales = space_.value_scales,
                                      .scaled = space_.other_scores,
                                      .factors = raised ? space_.corrections + first : nullptr,
                                      .c = state.out + first * shape_.v_padded,
                                      .c_stride = shape_.v_padded,
                                      .columns = shape_.v_padded};
            const int row_bytes = fetched_bytes(shape_.v.row_bytes);
            switch (shape_.v.format) {
                case kv::RowFormat::F32:
                    return add_cells<kv::RowFormat::F32>(count, row_bytes, product);
                case kv::RowFormat::F16:
                    return add_cells<kv::RowFormat::F16>(count, row_bytes, product);
                case kv::RowFormat::BF16:
                    return add_cells<kv::RowFormat::BF16>(count, row_bytes, product);
                case kv::RowFormat::Q8_0:
                    return add_cells<kv::RowFormat::Q8_0>(count, row_bytes, product);
            }
        }
#endif
        Product product{.a = weights,
                        .first = 0,
                        .last = 0,
                        .start = raised ? Start::Scaled : Start::Given,
                        .factors = space_.corrections + first,
                        .c = state.out + first * shape_.v_padded,
                        .c_stride = shape_.v_padded};
        if (!shape_.packed_values) return add_values(count, seen, 0, shape_.v_padded, product);
        // The scale of a block goes into the weights: one product for a position in place of one for each of its values.
        float* scaled = space_.other_scores + first * kTile;
        product.a = scaled;
        for (int column = 0; column < shape_.v_padded; column += kPackedBlock) {
            scale_all_weights(weights, space_.value_scales + column, count, scaled);
            add_values(count, seen, column, std::min(kPackedBlock, shape_.v_padded - column), product);
            product.c += kPackedBlock;
        }
    }

    static void scale_all_weights(const float* weights, const float* scales, int rows, float* scaled) {
        const DF d;
        for (int i = 0; i < kTile; i += kLanes) {
            const VF scale = hn::Load(d, scales + i);
            for (int r = 0; r < rows; ++r) hn::Store(hn::Mul(hn::Load(d, weights + r * kTile + i), scale), d, scaled + r * kTile + i);
        }
    }

    // Adds the weighed values of some columns.
    void add_values(int count, uint32_t seen, int column, int columns, Product product) const {
        for_stretches(seen, [&](int first, int last) HWY_ATTR {
            product.first = first;
            product.last = last;
            multiply_all<kTile>(count, columns, product, FloatTile{space_.values + column, shape_.v_padded});
            product.start = Start::Given;
        });
    }

    const AttendShape& shape_;
    const AttendArgs& args_;
    const AttendBlock& block_;
    int kv_head_;
    const AttendSpace& space_;
    int rows_;
    const std::byte* k_base_;
    const std::byte* v_base_;
    bool from_cells_;
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
        std::fill_n(most, shape.per_kv_head, kNoScore);
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

AttendKernels attend_kernels() {
    return {.attend_block = HWY_DYNAMIC_DISPATCH(attend_block),
            .attend_segment = HWY_DYNAMIC_DISPATCH(attend_segment),
            .clear_totals = HWY_DYNAMIC_DISPATCH(clear_totals),
            .merge_state = HWY_DYNAMIC_DISPATCH(merge_state),
            .finish = HWY_DYNAMIC_DISPATCH(finish)};
}

}  // namespace cellar::ops::cpu_impl
#endif
