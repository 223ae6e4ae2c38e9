#pragma once
// Finds the id of a piece by its bytes, and finds pieces that begin at a place of a text.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/vocabulary.h"

namespace cellar::text {

// A hash table over the pieces of a pool. The pool must outlive it and keep its address and its strings.
class PieceIndex {
  public:
    PieceIndex() = default;
    explicit PieceIndex(const StringPool& pieces);

    // The id, or -1. An empty piece is never found; of equal pieces the first is.
    [[nodiscard]] int32_t find(std::string_view piece) const;
    // The first two ids that have the same piece, if there are any.
    [[nodiscard]] const std::optional<std::pair<int32_t, int32_t>>& duplicate() const { return duplicate_; }

  private:
    [[nodiscard]] size_t slot_of(std::string_view piece) const;  // where it is, or the empty slot where it would be

    const StringPool* pieces_ = nullptr;
    std::vector<int32_t> slots_;  // a power of two, at most half full; -1: empty
    std::optional<std::pair<int32_t, int32_t>> duplicate_;
};

// A tree of strings: one step for each byte.
class PieceTrie {
  public:
    struct Entry {
        std::string_view piece;
        int32_t value;  // >= 0
    };
    static constexpr uint32_t kRoot = 0;
    static constexpr uint32_t kNone = UINT32_MAX;

    PieceTrie() = default;
    // Empty pieces are left out; of equal pieces the first counts.
    explicit PieceTrie(std::vector<Entry> entries);

    [[nodiscard]] bool empty() const { return nodes_.size() <= 1; }
    // The child of a node for the next byte, or kNone. Requires: a node of this trie.
    [[nodiscard]] uint32_t step(uint32_t node, uint8_t byte) const;
    // The value of the piece that ends at this node, or -1.
    [[nodiscard]] int32_t value(uint32_t node) const { return nodes_[node].value; }

  private:
    struct Node {
        uint32_t first = 0;  // children lie side by side, sorted by their byte
        uint16_t children = 0;
        uint8_t byte = 0;
        int32_t value = -1;
    };
    std::vector<Node> nodes_ = std::vector<Node>(1);
    std::array<uint32_t, 256> starts_ = all_none();  // the root's children

    static constexpr std::array<uint32_t, 256> all_none() {
        std::array<uint32_t, 256> none{};
        none.fill(kNone);
        return none;
    }
};

}  // namespace cellar::text
