#pragma once
// The cache: sequences over groups of layers, and the steps that grow them.
//
//   auto id = cache->open();
//   Append append{*id, tokens};
//   cache->begin({&append, 1}, step);    // cells for all of it or for nothing
//   ... kernels read step.view() ...
//   cache->commit(step);                 // now the tokens belong to the sequence, and windows slide
//
// Thread rule: one thread owns a Cache and everything in it. Kernel threads may read the view of an open step meanwhile.
//
// Invariants
//  1. A cell that two holders can see is never written. Cells are handed out once and written before anybody else may see them.
//  2. A holder counts once for each block that any of its runs touches; a block without holders is free.
//  3. Every operation acts on all groups or on none, and says what it reached.
//  4. restorable(id, length(id)) == length(id): the next token always finds all it may see.
//  5. Between the first and the last call of a step its sequences do nothing else; other sequences may do anything.
//
// Unknown or closed ids are bugs of the caller (CHECK), as is touching a sequence that is part of an open step.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/limits.h"
#include "kv/moves.h"
#include "kv/seq.h"
#include "kv/spec.h"
#include "kv/step.h"
#include "kv/store.h"
#include "kv/view.h"

namespace cellar::kv {

class Index;

class Cache {
  public:
    static Result<std::unique_ptr<Cache>> make(CacheSpec spec, CacheLimits limits);
    ~Cache();
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    [[nodiscard]] const CacheSpec& spec() const { return spec_; }
    [[nodiscard]] const CacheLimits& limits() const { return limits_; }

    // --- sequences. Ids grow and are never used again.
    Result<SeqId> open();  // Full when max_seqs are open
    void close(SeqId id);
    [[nodiscard]] bool is_open(SeqId id) const;
    [[nodiscard]] int open_seqs() const { return open_seqs_; }

    [[nodiscard]] int32_t length(SeqId id) const { return seq(id).length; }
    // The length up to which the rows are what a fresh run over the log computes; behind it the sequence is coloured.
    [[nodiscard]] int32_t pure(SeqId id) const { return seq(id).pure; }
    // Says that rows from `from` on are not what a fresh run computes (converted, loaded from elsewhere).
    void colour(SeqId id, int32_t from);

    [[nodiscard]] Token token(SeqId id, int32_t pos) const;  // Requires: 0 <= pos < length
    void copy_tokens(SeqId id, Interval positions, std::span<Token> out) const;
    // How many tokens from the first on are equal. The second form compares text: no media, rotary positions that count from 0.
    [[nodiscard]] int32_t common_prefix(SeqId id, std::span<const Token> tokens) const;
    [[nodiscard]] int32_t common_prefix(SeqId id, std::span<const int32_t> ids) const;
    // What the sequence reads of a group, in position order.
    [[nodiscard]] std::span<const Run> runs(SeqId id, int group) const { return seq(id).groups[static_cast<size_t>(group)].runs(); }

    [[nodiscard]] std::span<const RowTable> rows(int group) const { return stores_[static_cast<size_t>(group)]->arena().rows(); }

    // The largest m <= n at which every group still holds all that a next token may see.
    [[nodiscard]] int32_t restorable(SeqId id, int32_t n) const;
    // Shortens to restorable(n) and returns it. The logits of what is left are not kept: run the last token again for them.
    int32_t trim(SeqId id, int32_t n);
    // A new sequence of length restorable(at) that shares all its cells; nothing is copied.
    Result<SeqId> fork(SeqId id, int32_t at);
    // Takes the positions out of every group and keeps the gap: all others keep their positions. Returns how many were in range.
    int32_t remove(SeqId id, Interval positions);
    // Takes the positions out, log included; what lies behind moves up by turning, no row is touched. Unsupported, with nothing
    // done, where a window or chunk would then have to reach back to rows that it let go.
    Result<void> remove_and_shift(SeqId id, Interval positions);

    // For readers of stored rows: rows of a group from position `from` on were written at rotary positions lower by `by` than the log says.
    void turn_rows(SeqId id, int group, int32_t from, int32_t by);
    // Likewise: the group has no rows of these positions, and no query will ask for them. Purity is left to the caller.
    void drop_rows(SeqId id, int group, Interval positions);

    // --- steps
    // Reserves cells for all appends, in this order, or for none. Each sequence at most once, each append at least one token.
    // Full: the context, the cells or the budget do not suffice; the message has the numbers.
    Result<void> begin(std::span<const Append> appends, Step& step);
    // Makes the first kept[i] tokens of append i part of their sequence (all of them without `kept`); cells of the others return.
    void commit(Step& step, std::span<const int32_t> kept = {});
    // Returns the cells; every sequence is as it was before begin.
    void abandon(Step& step);

    // --- bake: plain rows instead of turned ones (moves.h). Full when there is no room for them; the sequence is busy until the end.
    Result<void> begin_bake(SeqId id, Bake& bake);
    void commit_bake(Bake& bake);
    void abandon_bake(Bake& bake);

    // --- memory
    // Asked when cells or budget do not suffice for a step, before full is the answer: lets go of what nobody needs until the ledger has sunk
    // by about `bytes`, and returns by how much it sank; 0: there is nothing. Whatever it holds of the cache it must not grow.
    using Reclaim = std::function<size_t(size_t bytes)>;
    void set_reclaim(Reclaim reclaim) { reclaim_ = std::move(reclaim); }
    [[nodiscard]] CacheStats stats() const;
    // How many hold a block: sequences, kept prefixes, steps. 0: it is free.
    [[nodiscard]] int holders(int group, int32_t block) const { return stores_[static_cast<size_t>(group)]->pool().refs(block); }
    [[nodiscard]] size_t ledger_bytes() const { return budget_.used; }
    // Gives so much of the budget up for good, letting go what it must by set_reclaim. False with the budget as it was where live sequences need it.
    bool give_up(size_t bytes);
    // Gives pages of free blocks back to the operating system, in bulk. Rows that somebody holds are untouched.
    void release_pages();
    // Moves whole blocks so that they lie in the order in which they are read and free blocks gather at the end, whose pages go back.
    // Stops before more than max_cells would be moved; needs one free block in a group to move anything there. The moves have been
    // carried out; each goes to cells that are free at its turn. Requires: no open step or bake.
    std::vector<Move> compact(int64_t max_cells = INT64_MAX);

  private:
    friend class Holding;
    friend class Index;
    friend std::string verify(const Cache& cache);
    friend std::string verify(const Index& index);

    Cache(CacheSpec spec, CacheLimits limits) : spec_(std::move(spec)), limits_(limits) {}
    Seq& seq(SeqId id);
    [[nodiscard]] const Seq& seq(SeqId id) const;
    Seq& idle_seq(SeqId id);
    void tidy_log(Seq& seq);
    void prepare(Step& step, size_t tokens, size_t parts);
    const Store* reserve(Step& step, const Append& append);
    const Store* reserve_all(Step& step, std::span<const Append> appends);
    [[nodiscard]] size_t bytes_of(size_t tokens) const;
    void fill_view(Step& step, std::span<const Append> appends);
    void take_back(Step& step, std::span<const int32_t> kept);
    [[nodiscard]] tl::unexpected<Error> full(size_t tokens, size_t parts, const Store& store) const;

    CacheSpec spec_;
    CacheLimits limits_;
    Budget budget_;
    Reclaim reclaim_;
    std::vector<std::unique_ptr<Store>> stores_;  // one per group
    std::unique_ptr<Store> log_;
    std::vector<Seq> seqs_;  // [max_seqs] slots
    std::vector<Holding*> holdings_;
    int open_seqs_ = 0;
    int open_steps_ = 0;
    int open_bakes_ = 0;
    uint64_t next_serial_ = 1;
};

}  // namespace cellar::kv
