// Attention cut into pieces for a team.
#include <algorithm>

#include "base/check.h"
#include "base/thread_team.h"
#include "ops/cpu/attend.h"
#include "ops/cpu/attend_plan.h"

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
    const AttendKernels kernels = attend_kernels();
    for (const AttendBlock& block : blocks) {
        for (int h = 0; h < shape.k.heads; ++h) kernels.clear_totals(shape, block, h, totals);
    }
    const AttendBlock& last = blocks.back();
    const int64_t items = last.first_item + static_cast<int64_t>(last.segments()) * shape.k.heads;
    for (int64_t wave = 0; wave < items; wave += slots) {
        const int64_t count = std::min(slots, items - wave);
        team.run(count, [&](int64_t i, int member) {
            const Item item = item_at(shape, blocks, wave + i);
            kernels.attend_segment(shape, *item.block, item.kv_head, item.block->segment(item.segment), layout.space(scratch, member),
                                   layout.slot(scratch, i));
        });
        for (int64_t i = 0; i < count; ++i) {
            const Item item = item_at(shape, blocks, wave + i);
            kernels.merge_state(shape, *item.block, item.kv_head, layout.slot(scratch, i), totals);
        }
    }
    for (const AttendBlock& block : blocks) {
        for (int h = 0; h < shape.k.heads; ++h) kernels.finish(shape, block, h, totals);
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
    const auto attend_block = attend_kernels().attend_block;
    // The last blocks of a sequence see the most: they go first.
    const auto pieces = static_cast<int64_t>(blocks.size()) * shape.k.heads;
    team.run(pieces, [&](int64_t piece, int member) {
        const int64_t i = pieces - 1 - piece;
        attend_block(shape, blocks[static_cast<size_t>(i / shape.k.heads)], static_cast<int>(i % shape.k.heads), layout.space(args.scratch, member),
                     layout.totals(args.scratch));
    });
}

}  // namespace cellar::ops::cpu_impl
