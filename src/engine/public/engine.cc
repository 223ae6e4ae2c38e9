#include <cellar/engine.h>

#include "engine/budget.h"
#include "engine/public/state.h"

namespace cellar::v1 {
namespace {

cellar::Result<void> check_range(std::string_view option, int64_t value, int64_t low, int64_t high, std::string_view zero) {
    if (value >= low && value <= high) return {};
    if (zero.empty()) return fail("{} is {}, but must lie in [{}, {}]", option, value, low, high);
    return fail("{} is {}, but must lie in [1, {}], or be 0 for {}", option, value, high, zero);
}

}  // namespace

cellar::Result<model::CacheFormats> cache_formats(const EngineOptions& options) {
    model::CacheFormats out;
    if (!options.cache_type.empty()) {
        CELLAR_TRY(out.k, model::parse_cache_format(options.cache_type, "cache_type"));
        out.v = out.k;
    }
    if (!options.cache_type_k.empty()) {
        CELLAR_TRY(out.k, model::parse_cache_format(options.cache_type_k, "cache_type_k"));
    }
    if (!options.cache_type_v.empty()) {
        CELLAR_TRY(out.v, model::parse_cache_format(options.cache_type_v, "cache_type_v"));
    }
    return out;
}

cellar::Result<cellar::EngineOptions> engine_options(const EngineOptions& options) {
    constexpr int64_t most_tokens = INT32_MAX / 2;
    CELLAR_TRY_VOID(check_range("threads", options.threads, 0, 1024, "all CPUs"));
    CELLAR_TRY_VOID(check_range("context", options.context, 0, most_tokens, "the trained length"));
    CELLAR_TRY_VOID(check_range("cache_tokens", options.cache_tokens, 0, most_tokens, "what kv_budget has room for"));
    CELLAR_TRY_VOID(check_range("max_sessions", options.max_sessions, 1, 65'535, ""));
    CELLAR_TRY_VOID(check_range("chunk", options.chunk, 1, 65'536, ""));
    cellar::EngineOptions out;
    CELLAR_TRY(out.formats, cache_formats(options));
    out.threads = options.threads;
    out.context = options.context;
    out.chunk = options.chunk;
    out.max_seqs = options.max_sessions;
    out.cells = options.cache_tokens;
    CELLAR_TRY(out.budget_bytes, parse_budget(options.kv_budget, "kv_budget"));
    out.check_finite = options.check_finite;
    return out;
}

cellar::Result<SeqId> open_seq(cellar::Engine& engine) {
    const int most = engine.cache().limits().max_seqs;
    if (engine.cache().open_seqs() >= most) return fail(ErrorKind::Full, "all {} sessions are open; close one, or raise max_sessions", most);
    return engine.cache().open();
}

Result<Engine> Engine::make(const Model& model, const EngineOptions& asked) {
    return guarded<Engine>([&]() -> cellar::Result<Engine> {
        CELLAR_TRY(const cellar::EngineOptions options, engine_options(asked));
        auto state = std::make_shared<State>(model);
        CELLAR_TRY(state->engine, cellar::Engine::make(model.state_->model, options));
        EngineInfo& info = state->info;
        info.threads = state->engine->threads();
        info.context = state->engine->context();
        info.cache_type_k = kv::name(options.formats.k);
        info.cache_type_v = kv::name(options.formats.v);
        info.cpu_target = ops::cpu_target();
        info.notes = state->engine->notes();
        return Engine(std::move(state));
    });
}

const Model& Engine::model() const {
    return state_->model;
}
const EngineInfo& Engine::info() const {
    return state_->info;
}

CacheStats Engine::stats() const {
    const std::lock_guard lock(state_->mutex);
    const kv::Cache& cache = state_->engine->cache();
    const kv::CacheStats found = cache.stats();
    CacheStats out;
    for (const kv::GroupStats& group : found.groups)
        out.groups.push_back({group.blocks, group.blocks_used, group.blocks_shared, group.cells_filled, group.block_bytes});
    out.used_bytes = found.ledger_bytes;
    out.table_bytes = found.table_bytes;
    out.open_sessions = cache.open_seqs();
    out.ledger_bytes = state_->engine->ledger_bytes();
    out.budget_bytes = state_->engine->budget_bytes();
    out.kept_tokens = state_->engine->index().stats().tokens;
    return out;
}

Result<Session> Engine::open_session(const SessionOptions& options) {
    return guarded<Session>([&]() -> cellar::Result<Session> {
        const std::lock_guard lock(state_->mutex);
        if (state_->running) return fail("a callback may not open sessions of the engine that runs it");
        CELLAR_TRY(const SeqId seq, open_seq(*state_->engine));
        return Session(std::make_shared<Session::State>(state_, seq, options));
    });
}

}  // namespace cellar::v1
