#include "ops/cpu/attend_plan.h"

#include <algorithm>

#include "base/check.h"

namespace cellar::ops::cpu_impl {
namespace {

constexpr size_t kAlign = 64;

size_t aligned(size_t bytes) {
    return (bytes + kAlign - 1) / kAlign * kAlign;
}

// Hands out aligned arrays from a piece of memory; with no memory it only counts.
class Cutter {
  public:
    explicit Cutter(std::byte* base) : base_(base) {}

    template <class T>
    T* take(size_t count) {
        T* at = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
        used_ += aligned(count * sizeof(T));
        return at;
    }
    [[nodiscard]] size_t used() const { return used_; }

  private:
    std::byte* base_;
    size_t used_ = 0;
};

AttendState cut_state(Cutter& cutter, size_t rows, size_t v_padded) {
    AttendState state{};
    state.out = cutter.take<float>(rows * v_padded);
    state.most = cutter.take<float>(rows);
    state.sum = cutter.take<float>(rows);
    return state;
}

AttendSpace cut_space(Cutter& cutter, size_t rows, size_t chunks, size_t v_padded) {
    AttendSpace s{};
    s.query = cutter.take<float>(chunks * rows * kChunk);
    s.query_quants = cutter.take<int16_t>(chunks * rows * kChunk);
    s.query_scales = cutter.take<float>(chunks * 2 * rows);
    s.query_starts = cutter.take<int32_t>(chunks * 2 * rows);
    s.query_row = cutter.take<float>(chunks * kChunk);
    s.turn_table = cutter.take<float>(chunks * kChunk);
    s.keys = cutter.take<float>(static_cast<size_t>(kChunk) * kTile);
    s.key_halves = cutter.take<uint16_t>(static_cast<size_t>(kChunk) * kTile);
    s.values = cutter.take<float>(kTile * v_padded);
    s.value_scales = cutter.take<float>((v_padded + kTile - 1) / kTile * kTile);
    s.scores = cutter.take<float>(rows * kTile);
    s.other_scores = cutter.take<float>(rows * kTile);
    s.corrections = cutter.take<float>(rows);
    s.lane_sums = cutter.take<float>(rows * 16);
    s.state = cut_state(cutter, rows, v_padded);
    return s;
}

void widen(kv::Interval& all, const kv::Interval& one) {
    if (one.length() == 0) return;
    all = all.length() == 0 ? one : kv::Interval{std::min(all.lo, one.lo), std::max(all.hi, one.hi)};
}

kv::Interval clipped(const kv::Interval& interval, std::span<const kv::Run> runs) {
    if (runs.empty()) return {};
    const kv::Interval cut{std::max(interval.lo, runs.front().pos), std::min(interval.hi, runs.back().end())};
    return cut.length() == 0 ? kv::Interval{} : cut;
}

}  // namespace

AttendShape::AttendShape(const AttendArgs& a, int most_tokens)
    : args(a),
      k(a.group->rows[static_cast<size_t>(a.k_row)]),
      v(a.group->rows[static_cast<size_t>(a.v_row)]),
      k_width(static_cast<int>(a.q.cols) / a.heads),
      v_width(static_cast<int>(a.out.cols) / a.heads),
      chunks((k_width + kChunk - 1) / kChunk),
      v_padded((v_width + 15) / 16 * 16),
      per_kv_head(a.heads / k.heads),
      block_tokens(std::clamp(std::min(kBlockRows / per_kv_head, most_tokens), 1, kBlockRows)),
      rows(block_tokens * per_kv_head),
      packed_keys(k.format == kv::RowFormat::Q8_0),
      packed_values(v.format == kv::RowFormat::Q8_0) {
    CHECK_EQ(per_kv_head * k.heads, a.heads);
    CHECK_EQ(k.heads, v.heads);
    CHECK(k_width * a.heads == a.q.cols && k_width <= k.width);
    CHECK(v_width * a.heads == a.out.cols && v_width <= v.width);
    CHECK_LE(a.rope.dims, k_width);
}

int32_t AttendBlock::tail_first() const {
    return std::max(head_segments(), recent.lo / kSegment);
}

int32_t AttendBlock::tail_end() const {
    return std::max(tail_first(), (recent.hi + kSegment - 1) / kSegment);
}

int64_t cut_blocks(const AttendShape& shape, AttendBlock* blocks) {
    int64_t count = 0;
    int64_t items = 0;
    for (const kv::SeqView& seq : shape.args.group->seqs) {
        for (int32_t t = 0; t < seq.tokens; t += shape.block_tokens) {
            AttendBlock block{&seq, seq.first_token + t, std::min(shape.block_tokens, seq.tokens - t), {}, {}, items};
            for (int32_t i = block.first; i < block.first + block.tokens; ++i) {
                const kv::Visible& visible = shape.args.group->visible[static_cast<size_t>(i)];
                widen(block.sinks, visible.sinks);
                widen(block.recent, visible.recent);
            }
            block.sinks = clipped(block.sinks, seq.runs);
            block.recent = clipped(block.recent, seq.runs);
            items += static_cast<int64_t>(block.segments()) * shape.k.heads;
            blocks[count++] = block;
        }
    }
    return count;
}

AttendLayout::AttendLayout(int tokens, int heads, int rows_of_block, int chunks_of_row, int padded, int threads)
    : rows(rows_of_block), chunks(chunks_of_row), v_padded(padded) {
    const auto sizes = [&](auto cut) {
        Cutter cutter(nullptr);
        cut(cutter);
        return cutter.used();
    };
    space_bytes = sizes([&](Cutter& c) { cut_space(c, static_cast<size_t>(rows), static_cast<size_t>(chunks), static_cast<size_t>(v_padded)); });
    slot_bytes = sizes([&](Cutter& c) { cut_state(c, static_cast<size_t>(rows), static_cast<size_t>(v_padded)); });
    totals_at = aligned(static_cast<size_t>(tokens) * sizeof(AttendBlock));
    spaces_at = totals_at + aligned(static_cast<size_t>(tokens) * static_cast<size_t>(heads) * 2 * sizeof(float));
    slots_at = spaces_at + static_cast<size_t>(threads) * space_bytes;
}

AttendSpace AttendLayout::space(std::byte* scratch, int member) const {
    Cutter cutter(scratch + spaces_at + static_cast<size_t>(member) * space_bytes);
    return cut_space(cutter, static_cast<size_t>(rows), static_cast<size_t>(chunks), static_cast<size_t>(v_padded));
}

AttendState AttendLayout::slot(std::byte* scratch, int64_t i) const {
    Cutter cutter(scratch + slots_at + static_cast<size_t>(i) * slot_bytes);
    return cut_state(cutter, static_cast<size_t>(rows), static_cast<size_t>(v_padded));
}

// Every segment has a finder of its own: each walking to its runs from the first one would cost the square of a long context in pieces.
LaneFinder::LaneFinder(std::span<const kv::Run> runs, int32_t from)
    : runs_(runs),
      first_(static_cast<size_t>(std::partition_point(runs.begin(), runs.end(), [&](const kv::Run& run) { return run.end() <= from; }) -
                                 runs.begin())) {}

void LaneFinder::find(int32_t start, TileLanes& lanes) {
    lanes.present = 0;
    lanes.one_turn = true;
    while (first_ < runs_.size() && runs_[first_].end() <= start) ++first_;
    lanes.neighbours = first_ < runs_.size() && runs_[first_].pos <= start && runs_[first_].end() - kTile >= start;
    if (lanes.neighbours) {
        const kv::Run& run = runs_[first_];
        lanes.present = 0xFFFFFFFFU;
        lanes.cells[0] = run.cell + (start - run.pos);
        lanes.turns[0] = run.turn;
        return;
    }
    for (size_t r = first_; r < runs_.size() && runs_[r].pos < start + kTile; ++r) {
        const kv::Run& run = runs_[r];
        const int32_t lo = std::max(run.pos, start) - start;
        const int32_t hi = std::min(run.end(), start + kTile) - start;
        for (int32_t lane = lo; lane < hi; ++lane) {
            lanes.cells[lane] = run.cell + (start + lane - run.pos);
            lanes.turns[lane] = run.turn;
        }
        lanes.present |= lanes_in({run.pos, run.end()}, start);
        lanes.one_turn = lanes.one_turn && run.turn == runs_[first_].turn;
    }
}

}  // namespace cellar::ops::cpu_impl
