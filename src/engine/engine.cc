#include "engine/engine.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/check.h"
#include "base/memory.h"
#include "base/units.h"
#include "engine/budget.h"
#include "kv/plan.h"

namespace cellar {
namespace {

constexpr size_t kMostGraphs = 24;

// Zeroed pages that are taken when they are first touched.
class Pages {
  public:
    Pages() = default;
    ~Pages() { reset(0); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    // Makes room for `bytes`; what was there is lost if it grows.
    bool reserve(size_t bytes) { return bytes <= bytes_ || reset(bytes); }
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] size_t size() const { return bytes_; }

  private:
    bool reset(size_t bytes) {
        if (data_ != nullptr) munmap(data_, bytes_);
        data_ = nullptr;
        bytes_ = 0;
        if (bytes == 0) return true;
        void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) return false;
        data_ = static_cast<std::byte*>(at);
        bytes_ = bytes;
        return true;
    }

    std::byte* data_ = nullptr;
    size_t bytes_ = 0;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

kv::CacheLimits limits_of(const EngineOptions& options) {
    kv::CacheLimits limits;
    limits.context = options.context;
    limits.cells = options.cells;
    limits.block = options.block;
    limits.max_seqs = options.max_seqs;
    limits.max_step_tokens = options.chunk;
    limits.poison = options.poison;
    return limits;
}

// One engine has one model, which never changes; so the name of the model stands for its weights.
std::string root_of(const Engine& engine) {
    std::string out = engine.model().file().path();
    for (const model::Rope& rope : engine.ropes()) {
        out += fmt::format("|rope {:a}", rope.magnitude);
        for (const double f : rope.frequency) out += fmt::format(" {:a}", f);
    }
    for (const kv::GroupSpec& group : engine.cache().spec().groups)
        for (const kv::RowSpec& row : group.rows) out += fmt::format("|{} {}x{} {}", row.name, row.heads, row.width, kv::name(row.format));
    return out;
}

}  // namespace

struct Engine::Memory {
    Pages values;
    Pages scratch;
};

Result<size_t> cache_bytes(const kv::CacheSpec& spec, int64_t context) {
    kv::CacheLimits limits;
    limits.context = context;
    limits.max_seqs = 1;
    CELLAR_TRY(const kv::Estimate estimate, kv::estimate(spec, limits, std::span<const int64_t>(&context, 1)));
    return estimate.peak_bytes;
}

Engine::Engine(std::shared_ptr<const model::Model> model, const EngineOptions& options, int threads)
    : model_(std::move(model)),
      options_(options),
      ops_(options.reference_kernels ? ops::reference() : ops::cpu()),
      team_(threads),
      memory_(std::make_unique<Memory>()) {}

Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::make(std::shared_ptr<const model::Model> model, const EngineOptions& options) {
    if (options.threads < 0 || options.threads > 1024)
        return fail("--threads is {}, but must lie in [1, 1024], or be 0 for all CPUs", options.threads);
    if (options.chunk < 1 || options.chunk > 65536) return fail("the chunk of a prompt is {} tokens, but must lie in [1, 65536]", options.chunk);
    if (options.reference_kernels && model->packed())
        return fail("the slow kernels read weights in file layout, but those of {} are packed", model->file().path());
    std::unique_ptr<Engine> engine(new Engine(std::move(model), options, options.threads == 0 ? usable_cpus() : options.threads));
    CELLAR_TRY_VOID(engine->start());
    return engine;
}

Result<void> Engine::start() {
    const model::Network& network = model_->network();
    CELLAR_TRY(kv::CacheSpec spec, model::plan_cache(network, options_.formats));
    if (options_.context < 0 || options_.context > kv::most_context)
        return fail("--ctx is {}, but must lie in [1, {}], or be 0 for automatic", options_.context, kv::most_context);
    options_.max_outputs = std::clamp(options_.max_outputs, 1, options_.chunk);
    BudgetRequest request;
    request.limits = limits_of(options_);
    request.trained = network.config.context;
    request.budget = options_.budget_bytes;
    CELLAR_TRY(request.transients, transients_of(options_.context != 0 ? options_.context : network.config.context));
    request.weights = model_->unread_bytes();
    request.memory = usable_memory();
    CELLAR_TRY(BudgetPlan plan, plan_budget(spec, request));
    context_ = plan.limits.context;
    budget_ = plan.budget;
    budget_summary_ = std::move(plan.summary);
    notes_ = std::move(plan.notes);
    graphs_.clear();  // of another context, perhaps
    graphs_built_ = 0;
    ropes_.clear();
    for (const model::RopeConfig& rope : network.ropes) {
        ropes_.push_back(model::resolve(rope, context_));
        if (rope.scaling == model::RopeConfig::Scaling::LongRope && !rope.long_factors.empty())
            notes_.push_back(fmt::format("rope: {} factors (context {}, original {})", ropes_.back().long_regime ? "long" : "short", context_,
                                         rope.original_context));
    }
    CELLAR_TRY(cache_, kv::Cache::make(std::move(spec), plan.limits));
    index_ = std::make_unique<kv::Index>(*cache_);
    cache_->set_reclaim([this](size_t bytes) { return reclaim(bytes); });
    root_ = root_of(*this);
    const auto chunk = static_cast<size_t>(options_.chunk);
    ids_.reserve(chunk);
    output_rows_.reserve(chunk);
    tokens_.reserve(chunk);
    graphs_.reserve(kMostGraphs + 1);
    // The graph of the longest step says how much workspace every shorter one needs at most, or nearly so.
    const graph::Graph& longest = graph({options_.chunk, options_.max_outputs});
    if (!memory_->values.reserve(longest.workspace_bytes))
        return fail(ErrorKind::System, "no address space for {} of workspace", format_bytes(longest.workspace_bytes));
    const size_t scratch = scratch_of(longest, context_);
    if (!memory_->scratch.reserve(scratch)) return fail(ErrorKind::System, "no address space for {} of scratch", format_bytes(scratch));
    return {};
}

size_t Engine::scratch_of(const graph::Graph& graph, int64_t context) const {
    return graph::scratch_bytes(graph, ops_, context, team_.size());
}

// Shorter steps may need a little more than the longest one: values fall into other gaps, and scratch is cut into other slots.
Result<void> Engine::make_room_for(const graph::Graph& graph) {
    const size_t values = std::max(graph.workspace_bytes, memory_->values.size());
    const size_t scratch = std::max(scratch_of(graph, context_), memory_->scratch.size());
    const size_t more = values + scratch - transient_bytes();
    if (more == 0) return {};
    if (!cache_->give_up(more))
        return fail(ErrorKind::Full, "the cache budget of {} is full: a step of {} tokens needs {} more for its workspace", format_bytes(budget_),
                    graph.shape.tokens, format_bytes(more));
    if (!memory_->values.reserve(values) || !memory_->scratch.reserve(scratch))
        return fail(ErrorKind::System, "no address space for {} of workspace", format_bytes(values + scratch));
    return {};
}

// Of the longest step, behind a sequence of this length.
Result<size_t> Engine::transients_of(int64_t context) {
    ropes_.clear();
    for (const model::RopeConfig& rope : model_->network().ropes) ropes_.push_back(model::resolve(rope, context));
    const graph::Graph& longest = graph({options_.chunk, options_.max_outputs});
    return longest.workspace_bytes + scratch_of(longest, context);
}

// Lets go of kept prefixes. What it lets go is weighed by what this engine needs to read a prompt.
size_t Engine::reclaim(size_t bytes) {
    index_->set_cost(prefill_meter_.cost());
    return index_->evict(bytes, seconds_since(started_));
}

Result<size_t> Engine::estimate(std::span<const int64_t> lengths) const {
    CELLAR_TRY(const size_t cache, estimate_cache(lengths));
    return cache + transient_bytes();
}

Result<size_t> Engine::estimate_cache(std::span<const int64_t> lengths) const {
    CELLAR_TRY(const kv::Estimate cache, kv::estimate(cache_->spec(), cache_->limits(), lengths));
    return cache.peak_bytes;
}

size_t Engine::transient_bytes() const {
    return memory_->values.size() + memory_->scratch.size();
}

const graph::Graph& Engine::graph(graph::Shape shape) {
    const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const auto& g) { return g->shape == shape; });
    if (found != graphs_.end()) return **found;
    std::vector<ops::RopeSpec> ropes;
    for (const model::Rope& rope : ropes_) ropes.push_back(rope.spec());
    graph::Builder builder(shape, ops_, std::move(ropes));
    const graph::Ref logits = model_->network().build(builder);
    if (graphs_.size() == kMostGraphs) graphs_.erase(graphs_.begin() + 1);
    graphs_.push_back(std::make_unique<graph::Graph>(builder.finish(logits)));
    ++graphs_built_;
    return *graphs_.back();
}

Result<ops::Mat> Engine::run(std::span<const kv::Append> appends, Want want) {
    CELLAR_TRY_VOID(cache_->begin(appends, step_));
    const kv::View& view = step_.view();
    ids_.clear();
    output_rows_.clear();
    for (const kv::Append& append : appends) {
        for (const Token& token : append.tokens) ids_.push_back(token.id);
        if (want == Want::Last) output_rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
    }
    const auto tokens = static_cast<int32_t>(ids_.size());
    const int32_t outputs = want == Want::Nothing ? 0 : want == Want::Last ? static_cast<int32_t>(appends.size()) : tokens;
    const graph::Graph& g = graph({tokens, outputs});
    if (auto room = make_room_for(g); !room) {
        cache_->abandon(step_);
        return pass(std::move(room));
    }
    const graph::Workspace workspace{memory_->values.data(), memory_->scratch.data(), memory_->scratch.size()};
    const graph::Node* wrong = graph::walk(g, ops_, {ids_.data(), output_rows_.data(), &view}, workspace, team_, options_.check_finite, profile_);
    if (wrong != nullptr) {
        cache_->abandon(step_);
        return fail("{}: '{}' ({}) gave a number that is not finite", model_->file().path(), wrong->label, graph::name(wrong->op));
    }
    cache_->commit(step_);
    if (outputs == 0) return ops::Mat{};
    return graph::logits(g, workspace);
}

Result<std::span<const float>> Engine::append(SeqId seq, std::span<const int32_t> ids, const Cancel* cancel, const Progress& progress) {
    CHECK(!ids.empty());
    int64_t rotary = cache_->length(seq) == 0 ? 0 : cache_->token(seq, cache_->length(seq) - 1).rotary + 1;
    const auto total = static_cast<int64_t>(ids.size());
    for (int64_t at = 0; at < total;) {
        if (cancel != nullptr && cancel->load(std::memory_order_relaxed))
            return fail(ErrorKind::Cancelled, "cancelled behind {} of {} tokens", at, total);
        const int64_t count = std::min<int64_t>(options_.chunk, total - at);
        tokens_.clear();
        for (int64_t i = 0; i < count; ++i) tokens_.push_back({ids[static_cast<size_t>(at + i)], static_cast<int32_t>(rotary++)});
        const bool last = at + count == total;
        const kv::Append append{seq, tokens_};
        const int32_t from = cache_->length(seq);
        const Clock::time_point start = Clock::now();
        CELLAR_TRY(const ops::Mat logits, run({&append, 1}, last ? Want::Last : Want::Nothing));
        if (count > 1) prefill_meter_.add(from, from + static_cast<int32_t>(count), seconds_since(start));
        at += count;
        if (progress) progress(at, total);
        if (last) return std::span<const float>(logits.data, static_cast<size_t>(logits.cols));
    }
    return fail("no tokens");
}

Result<void> Engine::append_all_logits(SeqId seq, std::span<const int32_t> ids, const std::function<void(ops::Mat)>& take) {
    int64_t rotary = cache_->length(seq) == 0 ? 0 : cache_->token(seq, cache_->length(seq) - 1).rotary + 1;
    for (size_t at = 0; at < ids.size();) {
        const size_t count = std::min(static_cast<size_t>(options_.max_outputs), ids.size() - at);
        tokens_.clear();
        for (size_t i = 0; i < count; ++i) tokens_.push_back({ids[at + i], static_cast<int32_t>(rotary++)});
        const kv::Append append{seq, tokens_};
        CELLAR_TRY(const ops::Mat logits, run({&append, 1}, Want::All));
        take(logits);
        at += count;
    }
    return {};
}

Result<ops::Mat> Engine::step(std::span<const kv::Append> appends) {
    return run(appends, Want::Last);
}

}  // namespace cellar
