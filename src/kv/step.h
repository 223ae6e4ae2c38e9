#pragma once
// One step: some tokens of some sequences, their cells, and the view that kernels read.
#include <cstdint>
#include <span>
#include <vector>

#include "kv/seq.h"
#include "kv/view.h"

namespace cellar::kv {

class Cache;

// Tokens that one sequence wants to grow by.
struct Append {
    SeqId id{};
    std::span<const Token> tokens;
};

// Owns the storage behind a view. Keep one and use it again: after the first step it allocates only to become larger than ever.
// A step that is destroyed while open is abandoned; it must not outlive its cache.
class Step {
  public:
    Step() = default;
    ~Step();
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

    [[nodiscard]] bool is_open() const { return cache_ != nullptr; }
    // Requires: is_open(). Valid until commit or abandon.
    [[nodiscard]] const View& view() const;

  private:
    friend class Cache;

    struct Part {
        SeqId id{};
        int32_t first_token = 0;
        int32_t tokens = 0;
        int32_t first_pos = 0;
    };
    struct Group {
        std::vector<SeqView> seqs;         // [parts]
        std::vector<Visible> visible;      // [tokens]
        std::vector<int32_t> write_cells;  // [tokens]
    };

    Cache* cache_ = nullptr;
    View view_;
    std::vector<Part> parts_;
    std::vector<int32_t> pos_;     // [tokens]
    std::vector<int32_t> rotary_;  // [tokens]
    std::vector<Group> groups_;
    std::vector<GroupView> group_views_;
    std::vector<int32_t> log_cells_;  // [tokens]
};

}  // namespace cellar::kv
