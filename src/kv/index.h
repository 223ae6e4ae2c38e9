#pragma once
// Kept prefixes: for each root a radix tree over tokens, whose edges hold rows like a sequence does. A hit shares them, nothing is copied.
//
// A root is everything that rows depend on besides tokens: tenant, model, adapters with their scales and contents, rope regime, formats. The
// caller writes all of it into one string, which is compared whole, never by hash. Tokens are compared whole too: id, rotary, media.
//
// Invariants
//  1. An edge holds the rows of all groups that keep every token, and the log, for exactly [begin, end).
//  2. Children of an edge begin at its end and differ in their first token.
//  3. A mark at length m holds, for every other group, what a query at m sees. Hits in such models are lengths that a mark can serve, on the
//     way of the tokens or behind the place where they turn off, or at which no such group needs a row (where a chunk begins).
//  4. Only pure rows are kept.
//
// Thread rule: the thread that owns the cache.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/cache.h"

namespace cellar::kv {

// What a prefill costs, for weighing what is kept: per token, and per pair of tokens that attend to each other.
struct PrefillCost {
    double seconds_per_token = 1e-3;
    double seconds_per_pair = 1e-7;
    [[nodiscard]] double seconds(int32_t from, int32_t to) const;
};

struct IndexStats {
    int64_t edges = 0;
    int64_t marks = 0;
    int64_t tokens = 0;   // on edges
    int64_t lookups = 0;  // calls of take
    int64_t tokens_asked = 0;
    int64_t tokens_reused = 0;  // counted once the sequence exists
};

class Index {
  public:
    // The cache must outlive the index.
    explicit Index(Cache& cache, PrefillCost cost = {});
    ~Index();

    struct Hit {
        SeqId id{};
        int32_t length = 0;   // of the new sequence: tokens whose rows it has
        int32_t matched = 0;  // tokens that were found; more than length where no mark serves the rest
    };
    // Opens a sequence with the longest kept prefix of `tokens`, one token fewer than there are at most, since logits need one. A miss opens
    // an empty one. Full when no sequence can be opened.
    Result<Hit> take(const std::string& root, std::span<const Token> tokens);
    // The same into an open sequence, which lets go all that it has.
    Hit take_into(const std::string& root, std::span<const Token> tokens, SeqId id);
    // What is kept behind the part of `tokens` that matches, `most` tokens of it at most, along the way used last; empty where nothing is.
    [[nodiscard]] std::vector<Token> continuation(const std::string& root, std::span<const Token> tokens, size_t most) const;
    // What take would answer, with no sequence.
    [[nodiscard]] Hit find(const std::string& root, std::span<const Token> tokens) const;

    // Keeps the first n tokens of a sequence, or its pure part if that is shorter, and a mark at the end where the model needs one and the
    // sequence still has what it takes. Returns the length that a later take can reach.
    int32_t keep(const std::string& root, SeqId id, int32_t n);

    // Protects what is kept of `tokens` from eviction until then, on the clock of evict.
    void pin(const std::string& root, std::span<const Token> tokens, double until);

    // Lets go what is worth least until the ledger has sunk by `bytes` or nothing is left that may go; returns by how much it sank. Worth is
    // prefill seconds saved times chance of reuse per byte. A newcomer that nobody came back to goes before what has been used, and among
    // such newcomers the latest first: a scan of one-time prompts passes through without washing out the rest.
    size_t evict(size_t bytes, double now);
    void clear();
    // From now on prefill seconds are weighed like this.
    void set_cost(PrefillCost cost) { cost_ = cost; }
    // Some group does not keep every token, so that only lengths with a mark can be reached.
    [[nodiscard]] bool needs_marks() const { return marks_needed_; }

    [[nodiscard]] IndexStats stats() const;

  private:
    friend std::string verify(const Index& index);

    struct Use {
        uint64_t born = 0;
        uint64_t last = 0;  // lookup that used it last
        double hits = 0;
        double pinned_until = 0;
    };
    struct Mark {
        std::unique_ptr<Holding> holding;
        Use use;
    };
    struct Edge {
        Edge* parent = nullptr;
        int32_t begin = 0;
        int32_t end = 0;
        std::unique_ptr<Holding> holding;  // none at the root
        std::vector<std::unique_ptr<Edge>> children;
        std::map<int32_t, Mark> marks;  // begin < length <= end
        Use use;
    };
    struct Path {
        std::vector<Edge*> edges;  // from the root down, the last one perhaps matched in part
        int32_t matched = 0;
    };
    struct Choice {
        int32_t length = 0;
        Edge* edge = nullptr;  // of the mark; none where none is needed
        int32_t mark = 0;      // its length
    };
    struct Victim {
        double worth = 0;
        uint64_t born = 0;
        Edge* edge = nullptr;
        int32_t mark = 0;  // 0: the edge itself
    };

    [[nodiscard]] Path walk(const std::string& root, std::span<const Token> tokens) const;
    [[nodiscard]] Choice choose(const Path& path, int32_t limit) const;
    [[nodiscard]] Edge* child(const Edge& edge, const Token& first) const;
    Edge* split(Edge* edge, int32_t at);
    Edge* grow(Edge* at, const Seq& seq, int32_t end);
    void mark(Edge* edge, const Seq& seq, int32_t at);
    [[nodiscard]] double worth(const Use& use, int32_t from, int32_t to, size_t bytes) const;
    [[nodiscard]] size_t bytes_alone(const Holding& holding) const;
    bool evict_one(double now);
    void consider(Edge* edge, double now, Victim& least) const;

    Cache& cache_;
    PrefillCost cost_;
    bool marks_needed_ = false;
    std::map<std::string, std::unique_ptr<Edge>> roots_;
    uint64_t clock_ = 0;  // lookups and keeps
    IndexStats stats_;    // lookups and tokens asked and reused
};

// Checks the invariants above; empty when all is well. verify(cache) checks the cells.
std::string verify(const Index& index);

}  // namespace cellar::kv
