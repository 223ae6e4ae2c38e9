#pragma once
// Merges neighbouring symbols, the best pair first, until no pair can be merged: O(n log n) for n symbols.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace cellar::text {

struct Symbol {
    int32_t prev, next;  // neighbours, or -1
    uint32_t begin;      // where it begins in the text
    uint32_t bytes;      // 0: merged into another symbol
    int32_t id;          // its token, or -1
};

// Key: what makes a pair better, the smaller the better; of equal keys the leftmost pair wins.
template <class Key>
class MergeQueue {
  public:
    struct Merge {
        Key key;
        int32_t id;  // the token that the pair becomes
    };

    void clear() { symbols_.clear(); }
    // Appends a symbol behind the last. Requires: bytes > 0.
    void add(uint32_t begin, uint32_t bytes, int32_t id) {
        const auto at = static_cast<int32_t>(symbols_.size());
        if (at > 0) symbols_.back().next = at;
        symbols_.push_back({at - 1, -1, begin, bytes, id});
    }

    // find(left, right) -> std::optional<Merge> for two neighbours.
    template <class Find>
    void run(Find&& find) {
        heap_.clear();
        for (int32_t i = 1; i < static_cast<int32_t>(symbols_.size()); ++i) offer(i - 1, i, find);
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), worse);
            const Pair pair = heap_.back();
            heap_.pop_back();
            Symbol& left = symbols_[static_cast<size_t>(pair.left)];
            Symbol& right = symbols_[static_cast<size_t>(pair.right)];
            // Symbols only grow or vanish, so a pair that still has its size is the pair that was offered.
            if (left.bytes == 0 || right.bytes == 0 || left.bytes + right.bytes != pair.bytes) continue;
            left.bytes = pair.bytes;
            left.id = pair.id;
            left.next = right.next;
            right.bytes = 0;
            if (right.next >= 0) symbols_[static_cast<size_t>(right.next)].prev = pair.left;
            offer(left.prev, pair.left, find);
            offer(pair.left, left.next, find);
        }
    }

    // Calls body(symbol) for what is left, in order.
    template <class Body>
    void for_each(Body&& body) const {
        for (const Symbol& symbol : symbols_) {
            if (symbol.bytes > 0) body(symbol);
        }
    }

  private:
    struct Pair {
        Key key;
        int32_t left, right, id;
        uint32_t bytes;
    };
    static bool worse(const Pair& a, const Pair& b) { return a.key != b.key ? a.key > b.key : a.left > b.left; }

    template <class Find>
    void offer(int32_t left, int32_t right, Find& find) {
        if (left < 0 || right < 0) return;
        const Symbol& a = symbols_[static_cast<size_t>(left)];
        const Symbol& b = symbols_[static_cast<size_t>(right)];
        if (const std::optional<Merge> merge = find(a, b)) {
            heap_.push_back({merge->key, left, right, merge->id, a.bytes + b.bytes});
            std::push_heap(heap_.begin(), heap_.end(), worse);
        }
    }

    std::vector<Symbol> symbols_;
    std::vector<Pair> heap_;
};

}  // namespace cellar::text
