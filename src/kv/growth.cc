#include "kv/growth.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace cellar::kv {
namespace {

int64_t blocks_of(int64_t cells, int32_t block_cells) {
    return (cells + block_cells - 1) / block_cells;
}

int64_t sinks_below(const Keep& keep, int64_t pos) {
    return keep.kind == Keep::Kind::Window ? std::min<int64_t>(keep.sinks, pos) : 0;
}

// The position that would lie in cell 0 of the first block if all positions from it to the end of the step at `pos` had cells. A list that was
// empty begins a block anew, and one of sinks alone goes on behind them.
int64_t origin(const Keep& keep, int64_t pos, int64_t step) {
    if (keep.kind == Keep::Kind::Window && keep.size == 1) return pos - sinks_below(keep, pos);
    if (keep.kind == Keep::Kind::Chunk) {
        const int64_t period = std::lcm(step, int64_t{keep.size});
        return pos / period * period;
    }
    return 0;
}

// What a list that last slid at `pos` holds when it reaches to `end`.
int64_t blocks_held(const Keep& keep, int32_t block_cells, int64_t step, int64_t pos, int64_t end) {
    const int64_t sinks = blocks_of(sinks_below(keep, pos), block_cells);
    const int64_t first = first_needed(keep, static_cast<int32_t>(pos));
    if (first == end) return sinks;
    const int64_t zero = origin(keep, pos, step);
    return sinks + blocks_of(end - zero, block_cells) - std::max((first - zero) / block_cells, sinks);
}

// As long as nothing slides, later steps hold more; once the window has left the sinks' last block, steps repeat when block and step meet again.
std::vector<int64_t> widest_of_window(const Keep& keep, int32_t block_cells, int64_t length, int64_t step) {
    const int64_t slides = int64_t{keep.sinks} + keep.size - 1;
    const int64_t repeats = slides + step + block_cells + std::lcm(step, int64_t{block_cells});
    std::vector<int64_t> out;
    for (int64_t at = std::min(slides, length - 1) / step * step; at < std::min(length, repeats); at += step) out.push_back(at);
    return out;
}

// The last step that begins in a chunk holds most of it, and chunks repeat when chunk and step meet again.
std::vector<int64_t> widest_of_chunk(const Keep& keep, int64_t length, int64_t step) {
    const int64_t end = std::min(length, std::lcm(step, int64_t{keep.size}));
    std::vector<int64_t> out;
    for (int64_t at = 0; at < end; at += step) {
        const int64_t chunk_end = std::min(end, (at / keep.size + 1) * keep.size);
        at = (chunk_end - 1) / step * step;
        out.push_back(at);
    }
    return out;
}

}  // namespace

std::vector<int64_t> widest_steps(const Keep& keep, int32_t block_cells, int64_t length, int64_t step) {
    if (length == 0) return {};
    switch (keep.kind) {
        case Keep::Kind::All:
            return {(length - 1) / step * step};
        case Keep::Kind::Window:
            return widest_of_window(keep, block_cells, length, step);
        case Keep::Kind::Chunk:
            return widest_of_chunk(keep, length, step);
        case Keep::Kind::State:
            break;
    }
    CHECK(false);
}

Growth growth(const Keep& keep, int32_t block_cells, int64_t length, int64_t step) {
    Growth out;
    for (const int64_t at : widest_steps(keep, block_cells, length, step))
        out.most = std::max(out.most, blocks_held(keep, block_cells, step, at, std::min(length, at + step)));
    out.blocks = blocks_held(keep, block_cells, step, length, length);
    return out;
}

}  // namespace cellar::kv
