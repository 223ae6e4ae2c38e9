#include "text/piece_index.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace cellar::text {

PieceIndex::PieceIndex(const StringPool& pieces) : pieces_(&pieces), slots_(std::bit_ceil(pieces.size() * 2 + 1), -1) {
    for (size_t id = 0; id < pieces.size(); ++id) {
        if (pieces[id].empty()) continue;
        int32_t& slot = slots_[slot_of(pieces[id])];
        if (slot < 0) {
            slot = static_cast<int32_t>(id);
        } else if (!duplicate_) {
            duplicate_ = {slot, static_cast<int32_t>(id)};
        }
    }
}

size_t PieceIndex::slot_of(std::string_view piece) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = std::hash<std::string_view>{}(piece)&mask;
    while (slots_[slot] >= 0 && (*pieces_)[static_cast<size_t>(slots_[slot])] != piece) slot = (slot + 1) & mask;
    return slot;
}

int32_t PieceIndex::find(std::string_view piece) const {
    return slots_.empty() || piece.empty() ? -1 : slots_[slot_of(piece)];
}

PieceTrie::PieceTrie(std::vector<Entry> entries) {
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.piece < b.piece; });
    // Breadth first, so that the children of a node get neighbouring places. A range of entries shares its first `depth` bytes.
    struct Range {
        uint32_t node;
        size_t begin, end, depth;
    };
    std::vector<Range> ranges{{kRoot, 0, entries.size(), 0}};
    for (size_t next = 0; next < ranges.size(); ++next) {
        Range range = ranges[next];
        while (range.begin < range.end && entries[range.begin].piece.size() == range.depth) {
            if (nodes_[range.node].value < 0 && range.depth > 0) nodes_[range.node].value = entries[range.begin].value;
            ++range.begin;
        }
        nodes_[range.node].first = static_cast<uint32_t>(nodes_.size());
        for (size_t begin = range.begin, end; begin < range.end; begin = end) {
            const char byte = entries[begin].piece[range.depth];
            end = begin;
            while (end < range.end && entries[end].piece[range.depth] == byte) ++end;
            const auto child = static_cast<uint32_t>(nodes_.size());
            nodes_.push_back({0, 0, static_cast<uint8_t>(byte), -1});
            ++nodes_[range.node].children;
            if (range.node == kRoot) starts_[static_cast<uint8_t>(byte)] = child;
            ranges.push_back({child, begin, end, range.depth + 1});
        }
    }
}

uint32_t PieceTrie::step(uint32_t node, uint8_t byte) const {
    if (node == kRoot) return starts_[byte];
    const Node& parent = nodes_[node];
    const auto begin = nodes_.begin() + parent.first;
    const auto end = begin + parent.children;
    const auto found = std::lower_bound(begin, end, byte, [](const Node& child, uint8_t wanted) { return child.byte < wanted; });
    return found != end && found->byte == byte ? static_cast<uint32_t>(found - nodes_.begin()) : kNone;
}

}  // namespace cellar::text
