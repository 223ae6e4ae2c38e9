#pragma once
// An engine: one model, one cache, one team of threads, and the steps that run tokens through them.
//
// Thread rule: one thread owns an Engine. Another thread may set a Cancel.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_team.h"
#include "engine/prefill_meter.h"
#include "graph/walk.h"
#include "kv/cache.h"
#include "kv/index.h"
#include "model/cache_plan.h"
#include "model/model.h"

namespace cellar {

struct EngineOptions {
    int threads = 0;      // 0: the CPUs this process may use
    int64_t context = 0;  // most tokens of a sequence; 0: what the model was trained for, as far as memory allows
    model::CacheFormats formats;
    int chunk = 512;      // tokens of one step of a long prompt
    int max_outputs = 1;  // most rows of logits that one step gives
    int max_seqs = 4;
    int64_t cells = 0;               // of each group; 0: what the budget has room for
    int block = 32;                  // cells that are counted together: 16, 32 or 64
    size_t budget_bytes = 0;         // of cache and transients; 0: 90 % of what the process may use, less the weights
    bool check_finite = false;       // look through every result and name the layer whose numbers went wrong
    bool reference_kernels = false;  // slow, obvious arithmetic
    bool poison = false;             // tests: cells that nobody may see hold NaN
};

// Rows that wait to be run, as tokens of the cache.
using kv::SeqId;
using kv::Token;

// Set from a signal handler or another thread: what runs ends after the step it is in.
using Cancel = std::atomic<bool>;

// done of total tokens of a prompt are in the cache.
using Progress = std::function<void(int64_t done, int64_t total)>;

class Engine {
  public:
    static Result<std::unique_ptr<Engine>> make(std::shared_ptr<const model::Model> model, const EngineOptions& options);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    [[nodiscard]] const model::Model& model() const { return *model_; }
    [[nodiscard]] const std::shared_ptr<const model::Model>& shared_model() const { return model_; }
    [[nodiscard]] kv::Cache& cache() { return *cache_; }
    [[nodiscard]] const kv::Cache& cache() const { return *cache_; }
    // Kept prefixes. Steps that run out of cells or budget evict from it before full is an answer.
    [[nodiscard]] kv::Index& index() { return *index_; }
    [[nodiscard]] const kv::Index& index() const { return *index_; }
    // What rows of this engine depend on beside tokens: the root under which prefixes are kept. Its model never changes.
    [[nodiscard]] const std::string& root() const { return root_; }
    // Keeps what is pure of a sequence, for whoever begins alike. Returns the length that a later prompt can reach.
    int32_t keep(SeqId seq) { return index_->keep(root_, seq, cache_->length(seq)); }
    // What reading prompts has cost so far.
    [[nodiscard]] const PrefillMeter& prefill_meter() const { return prefill_meter_; }

    [[nodiscard]] int64_t context() const { return context_; }
    [[nodiscard]] int threads() const { return team_.size(); }
    [[nodiscard]] const EngineOptions& options() const { return options_; }
    [[nodiscard]] const std::vector<model::Rope>& ropes() const { return ropes_; }
    // One line about budget_bytes() and what there is room for.
    [[nodiscard]] const std::string& budget_summary() const { return budget_summary_; }
    // What was decided at the start and is worth a line: context, rope regime, formats.
    [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

    // Appends tokens to a sequence and gives the logits behind the last one: [vocabulary] floats, valid until the next call.
    // Long prompts run in chunks. Full and Cancelled leave the sequence at the last chunk that was done.
    // Requires: ids not empty, each inside the vocabulary.
    Result<std::span<const float>> append(SeqId seq, std::span<const int32_t> ids, const Cancel* cancel = nullptr, const Progress& progress = {});

    // As append, but hands the logits of every token to `take`: [rows, vocabulary], in order, at most options.max_outputs rows at a time.
    Result<void> append_all_logits(SeqId seq, std::span<const int32_t> ids, const std::function<void(ops::Mat)>& take);

    // One step of several sequences; logits of the last token of each, [appends, vocabulary]. Requires: appends <= max_outputs.
    Result<ops::Mat> step(std::span<const kv::Append> appends);

    // What steps run on, for work on rows besides them.
    [[nodiscard]] const ops::Ops& kernels() const { return ops_; }
    [[nodiscard]] ThreadTeam& team() { return team_; }

    // The graph for a shape, built if it is new.
    const graph::Graph& graph(graph::Shape shape);
    [[nodiscard]] int64_t graphs_built() const { return graphs_built_; }

    // From now on steps add their times to it; nullptr ends that. It must outlive the steps.
    void profile(graph::Profile* profile) { profile_ = profile; }

    // Bytes besides weights and cache: the workspace and the scratch of kernels.
    [[nodiscard]] size_t transient_bytes() const;
    // The one account of memory besides weights: live cells, kept prefixes, tables, transients. It never exceeds budget_bytes(): a step whose
    // transients are larger than any before takes the room from the cache, and where live sequences have it the answer is full.
    [[nodiscard]] size_t ledger_bytes() const { return cache_->ledger_bytes() + transient_bytes(); }
    [[nodiscard]] size_t budget_bytes() const { return budget_; }  // 0: no limit is known
    // What the ledger is at its highest while sequences of these lengths are read, and nothing else is there, to the byte. With
    // transients, and without.
    [[nodiscard]] Result<size_t> estimate(std::span<const int64_t> lengths) const;
    [[nodiscard]] Result<size_t> estimate_cache(std::span<const int64_t> lengths) const;

  private:
    Engine(std::shared_ptr<const model::Model> model, const EngineOptions& options, int threads);
    enum class Want { Nothing, Last, All };
    Result<ops::Mat> run(std::span<const kv::Append> appends, Want want);
    Result<void> start();
    Result<size_t> transients_of(int64_t context);
    [[nodiscard]] size_t scratch_of(const graph::Graph& graph, int64_t context) const;
    Result<void> make_room_for(const graph::Graph& graph);
    size_t reclaim(size_t bytes);

    struct Memory;
    std::shared_ptr<const model::Model> model_;
    EngineOptions options_;
    int64_t context_ = 0;
    const ops::Ops& ops_;
    ThreadTeam team_;
    std::vector<model::Rope> ropes_;
    std::unique_ptr<kv::Cache> cache_;
    std::unique_ptr<kv::Index> index_;
    std::string root_;
    size_t budget_ = 0;
    std::string budget_summary_;
    PrefillMeter prefill_meter_;
    std::vector<std::string> notes_;
    std::vector<std::unique_ptr<graph::Graph>> graphs_;
    int64_t graphs_built_ = 0;
    std::unique_ptr<Memory> memory_;
    kv::Step step_;
    graph::Profile* profile_ = nullptr;
    std::vector<int32_t> ids_;          // [chunk]
    std::vector<int32_t> output_rows_;  // [chunk]
    std::vector<Token> tokens_;         // [chunk]
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// Bytes that the cache of this plan takes when one sequence fills `context` positions.
Result<size_t> cache_bytes(const kv::CacheSpec& spec, int64_t context);

}  // namespace cellar
