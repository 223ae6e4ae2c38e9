// cellar.h over the C++ face: pointers are checked, nothing else happens here.
#include <cellar/cellar.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include <cellar/engine.h>

namespace api = cellar::v1;

struct cellar_model {
    api::Model model;
};
struct cellar_engine {
    api::Engine engine;
};
struct cellar_session {
    api::Session session;
};
struct cellar_answer {
    api::Answer answer;
};
struct cellar_cancel {
    std::atomic<bool> on{false};
};

namespace {

cellar_code tell(const api::Status& status, cellar_error* error) {
    const auto code = static_cast<cellar_code>(status.kind);
    if (error == nullptr) return code;
    error->code = code;
    size_t length = std::min(status.message.size(), sizeof error->message - 1);
    // Back to the beginning of a character, where one would be cut.
    if (length < status.message.size())
        while (length > 0 && (static_cast<unsigned char>(status.message[length]) & 0xC0U) == 0x80U) --length;
    std::memcpy(error->message, status.message.data(), length);
    error->message[length] = '\0';
    return code;
}

api::Status missing(const char* what) {
    return {api::StatusKind::Input, std::string(what) + " is NULL"};
}

// Runs body() -> Status, and whatever it throws is a lack of memory or a bug.
template <class Body>
cellar_code guard(cellar_error* error, Body&& body) noexcept {
    try {
        return tell(body(), error);
    } catch (const std::bad_alloc&) {
        return tell({api::StatusKind::System, "out of memory"}, error);
    } catch (const std::exception& thrown) {
        return tell({api::StatusKind::Internal, thrown.what()}, error);
    } catch (...) {
        return tell({api::StatusKind::Internal, "unknown exception"}, error);
    }
}

// Guard for calls that hand out a handle.
template <class Handle, class Body>
cellar_code hand_out(Handle** out, cellar_error* error, Body&& body) noexcept {
    if (out == nullptr) return guard(error, [] { return missing("out"); });
    *out = nullptr;
    return guard(error, [&]() -> api::Status {
        auto made = body();
        if (!made) return made.status();
        *out = std::make_unique<Handle>(Handle{*std::move(made)}).release();
        return {};
    });
}

template <class T>
api::Status copy_out(const T* from, size_t found, T* out, size_t capacity, size_t* count) {
    if (count == nullptr) return missing("count");
    if (out == nullptr && capacity > 0) return missing("out");
    *count = found;
    std::copy_n(from, std::min(found, capacity), out);
    return {};
}

// Options as far as the caller knows them, the rest at their defaults. None: the first field says that init was not called.
template <class Options>
std::optional<Options> known(const Options* given, void (*init)(Options*, size_t)) {
    Options out;
    init(&out, sizeof out);
    if (given == nullptr) return out;
    if (given->size < sizeof(size_t) || given->size > 4096) return std::nullopt;
    std::memcpy(&out, given, std::min(given->size, sizeof out));
    return out;
}

api::Status not_initialised(const char* init) {
    return {api::StatusKind::Input, std::string("options have no size: call ") + init + " first"};
}

std::string text_or_empty(const char* text) {
    return text == nullptr ? std::string() : std::string(text);
}

api::Result<api::EngineOptions> to_options(const cellar_engine_options* given) {
    const auto options = known(given, cellar_engine_options_init_sized);
    if (!options) return not_initialised("cellar_engine_options_init");
    api::EngineOptions out;
    out.threads = options->threads;
    out.context = options->context;
    out.cache_type = text_or_empty(options->cache_type);
    out.cache_type_k = text_or_empty(options->cache_type_k);
    out.cache_type_v = text_or_empty(options->cache_type_v);
    out.max_sessions = options->max_sessions;
    out.cache_tokens = options->cache_tokens;
    out.kv_budget = text_or_empty(options->kv_budget);
    out.chunk = options->chunk;
    out.check_finite = options->check_finite != 0;
    return out;
}

api::Result<api::GenerateOptions> to_options(const cellar_generate_options* given) {
    const auto o = known(given, cellar_generate_options_init_sized);
    if (!o) return not_initialised("cellar_generate_options_init");
    if (o->stops == nullptr && o->stops_count > 0) return missing("stops");
    api::GenerateOptions out;
    out.sampling = {o->temperature,       o->top_k,          o->top_p, o->min_p, o->typical_p, o->repetition_penalty, o->presence_penalty,
                    o->frequency_penalty, o->penalty_last_n, o->seed};
    out.max_tokens = o->max_tokens;
    for (size_t i = 0; i < o->stops_count; ++i) {
        if (o->stops[i] == nullptr) return missing("a stop string");
        out.stops.emplace_back(o->stops[i]);
    }
    out.ignore_end = o->ignore_end != 0;
    out.show_special = o->show_special != 0;
    out.parse_special = o->parse_special != 0;
    void* const user = o->user;
    if (const auto on_text = o->on_text)
        out.on_text = [on_text, user](std::string_view text) { return on_text(text.data(), text.size(), user) != 0; };
    if (const auto on_progress = o->on_progress)
        out.on_progress = [on_progress, user](int64_t done, int64_t total) { on_progress(done, total, user); };
    if (o->cancel != nullptr) out.cancel = &o->cancel->on;
    return out;
}

// One answer: options as C++ wants them, then ask(session, options).
template <class Ask>
cellar_code ask(cellar_session* session, const cellar_generate_options* given, cellar_answer** out, cellar_error* error, Ask&& ask) noexcept {
    return hand_out(out, error, [&]() -> api::Result<api::Answer> {
        if (session == nullptr) return missing("session");
        const auto options = to_options(given);
        if (!options) return options.status();
        return ask(session->session, *options);
    });
}

// Hands out defaults as far as the caller's structure reaches, which may be one of an older header.
template <class T>
void fill(T* options, size_t size, T defaults) {
    if (options == nullptr || size < sizeof defaults.size) return;
    defaults.size = std::min(size, sizeof defaults);
    std::memcpy(options, &defaults, defaults.size);
}

}  // namespace

uint32_t cellar_abi_version(void) {
    return CELLAR_ABI_VERSION;
}
const char* cellar_version(void) {
    return api::version().data();
}

// --- models

void cellar_model_options_init_sized(cellar_model_options* options, size_t size) {
    const api::ModelOptions defaults;
    cellar_model_options out{};
    out.pack = defaults.pack ? 1 : 0;
    out.threads = defaults.threads;
    fill(options, size, out);
}

cellar_code cellar_model_open(const char* path, const cellar_model_options* given, cellar_model** out, cellar_error* error) {
    return hand_out(out, error, [&]() -> api::Result<api::Model> {
        if (path == nullptr) return missing("path");
        const auto options = known(given, cellar_model_options_init_sized);
        if (!options) return not_initialised("cellar_model_options_init");
        return api::Model::open(path, {options->pack != 0, options->threads});
    });
}

void cellar_model_close(cellar_model* model) {
    delete model;
}

cellar_code cellar_model_get_info(const cellar_model* model, cellar_model_info* out, cellar_error* error) {
    return guard(error, [&]() -> api::Status {
        if (model == nullptr) return missing("model");
        if (out == nullptr) return missing("out");
        const api::ModelInfo& info = model->model.info();
        *out = {info.path.c_str(), info.name.c_str(), info.architecture.c_str(), info.layers,       info.embedding,        info.trained_context,
                info.vocabulary,   info.weight_bytes, info.has_text ? 1 : 0,     info.has_template, info.bos.value_or(-1), info.eos.value_or(-1)};
        return {};
    });
}

cellar_code cellar_model_estimate(const cellar_model* model, const cellar_engine_options* given, cellar_memory* out, cellar_error* error) {
    return guard(error, [&]() -> api::Status {
        if (model == nullptr) return missing("model");
        if (out == nullptr) return missing("out");
        const auto options = to_options(given);
        if (!options) return options.status();
        const auto found = model->model.estimate(*options);
        if (!found) return found.status();
        *out = {found->context,     found->cache_bytes_per_token,    found->cache_bytes, found->weight_bytes, found->transient_bytes,
                found->total_bytes, found->usable_bytes.value_or(0), found->fits ? 1 : 0};
        return {};
    });
}

cellar_code cellar_encode(const cellar_model* model, const char* text, size_t length, int add_special, int parse_special, int32_t* out,
                          size_t capacity, size_t* count, cellar_error* error) {
    return guard(error, [&]() -> api::Status {
        if (model == nullptr) return missing("model");
        if (text == nullptr && length > 0) return missing("text");
        const auto ids = model->model.encode({text, length}, {add_special != 0, parse_special != 0});
        if (!ids) return ids.status();
        return copy_out(ids->data(), ids->size(), out, capacity, count);
    });
}

cellar_code cellar_decode(const cellar_model* model, const int32_t* ids, size_t ids_count, int show_special, char* out, size_t capacity,
                          size_t* count, cellar_error* error) {
    return guard(error, [&]() -> api::Status {
        if (model == nullptr) return missing("model");
        if (ids == nullptr && ids_count > 0) return missing("ids");
        const auto text = model->model.decode({ids, ids_count}, show_special != 0);
        if (!text) return text.status();
        return copy_out(text->data(), text->size(), out, capacity, count);
    });
}

// --- engines

void cellar_engine_options_init_sized(cellar_engine_options* options, size_t size) {
    const api::EngineOptions defaults;
    cellar_engine_options out{};
    out.threads = defaults.threads;
    out.context = defaults.context;
    out.max_sessions = defaults.max_sessions;
    out.cache_tokens = defaults.cache_tokens;
    out.chunk = defaults.chunk;
    out.check_finite = defaults.check_finite ? 1 : 0;
    fill(options, size, out);
}

cellar_code cellar_engine_make(const cellar_model* model, const cellar_engine_options* given, cellar_engine** out, cellar_error* error) {
    return hand_out(out, error, [&]() -> api::Result<api::Engine> {
        if (model == nullptr) return missing("model");
        const auto options = to_options(given);
        if (!options) return options.status();
        return api::Engine::make(model->model, *options);
    });
}

void cellar_engine_close(cellar_engine* engine) {
    delete engine;
}

cellar_code cellar_engine_get_stats(const cellar_engine* engine, cellar_stats* out, cellar_error* error) {
    return guard(error, [&]() -> api::Status {
        if (engine == nullptr) return missing("engine");
        if (out == nullptr) return missing("out");
        const api::CacheStats stats = engine->engine.stats();
        *out = {};
        out->used_bytes = stats.used_bytes;
        out->table_bytes = stats.table_bytes;
        out->context = engine->engine.info().context;
        out->threads = engine->engine.info().threads;
        out->open_sessions = stats.open_sessions;
        for (const api::GroupStats& group : stats.groups) {
            out->blocks += group.blocks;
            out->blocks_used += group.blocks_used;
            out->blocks_shared += group.blocks_shared;
        }
        return {};
    });
}

// --- sessions

void cellar_session_options_init_sized(cellar_session_options* options, size_t size) {
    cellar_session_options out{};
    out.thinking = -1;
    fill(options, size, out);
}

void cellar_generate_options_init_sized(cellar_generate_options* options, size_t size) {
    const api::GenerateOptions defaults;
    const api::Sampling& s = defaults.sampling;
    cellar_generate_options out{};
    out.temperature = s.temperature;
    out.top_k = s.top_k;
    out.top_p = s.top_p;
    out.min_p = s.min_p;
    out.typical_p = s.typical_p;
    out.repetition_penalty = s.repetition_penalty;
    out.presence_penalty = s.presence_penalty;
    out.frequency_penalty = s.frequency_penalty;
    out.penalty_last_n = s.penalty_last_n;
    out.seed = s.seed;
    out.max_tokens = defaults.max_tokens;
    fill(options, size, out);
}

cellar_code cellar_session_open(cellar_engine* engine, const cellar_session_options* given, cellar_session** out, cellar_error* error) {
    return hand_out(out, error, [&]() -> api::Result<api::Session> {
        if (engine == nullptr) return missing("engine");
        const auto options = known(given, cellar_session_options_init_sized);
        if (!options) return not_initialised("cellar_session_options_init");
        if (options->thinking < -1 || options->thinking > 1) return api::Status{api::StatusKind::Input, "thinking is not -1, 0 or 1"};
        api::SessionOptions inner;
        inner.system = text_or_empty(options->system);
        inner.chat_template = text_or_empty(options->chat_template);
        if (options->overflow < 0 || options->overflow > 3) return api::Status{api::StatusKind::Input, "overflow is not 0, 1, 2 or 3"};
        inner.overflow = static_cast<api::Overflow>(options->overflow);
        if (options->thinking >= 0) inner.thinking = options->thinking == 1;
        return engine->engine.open_session(inner);
    });
}

void cellar_session_close(cellar_session* session) {
    delete session;
}

cellar_code cellar_say(cellar_session* session, const char* text, const cellar_generate_options* options, cellar_answer** out, cellar_error* error) {
    return ask(session, options, out, error, [&](api::Session& s, const api::GenerateOptions& o) -> api::Result<api::Answer> {
        if (text == nullptr) return missing("text");
        return s.say(text, o);
    });
}

cellar_code cellar_chat(cellar_session* session, const cellar_message* messages, size_t count, const cellar_generate_options* options,
                        cellar_answer** out, cellar_error* error) {
    return ask(session, options, out, error, [&](api::Session& s, const api::GenerateOptions& o) -> api::Result<api::Answer> {
        if (messages == nullptr && count > 0) return missing("messages");
        std::vector<api::Message> inner;
        for (size_t i = 0; i < count; ++i) {
            if (messages[i].role == nullptr || messages[i].content == nullptr) return missing("a message's role or content");
            inner.push_back({messages[i].role, messages[i].content});
        }
        return s.chat(inner, o);
    });
}

cellar_code cellar_again(cellar_session* session, const cellar_generate_options* options, cellar_answer** out, cellar_error* error) {
    return ask(session, options, out, error, [](api::Session& s, const api::GenerateOptions& o) { return s.again(o); });
}

cellar_code cellar_undo(cellar_session* session, int* undone, cellar_error* error) {
    return guard(error, [&]() -> api::Status {
        if (session == nullptr) return missing("session");
        const auto found = session->session.undo();
        if (found && undone != nullptr) *undone = *found ? 1 : 0;
        return found.status();
    });
}

cellar_code cellar_generate(cellar_session* session, const char* text, const cellar_generate_options* options, cellar_answer** out,
                            cellar_error* error) {
    return ask(session, options, out, error, [&](api::Session& s, const api::GenerateOptions& o) -> api::Result<api::Answer> {
        if (text == nullptr) return missing("text");
        return s.generate(text, o);
    });
}

cellar_code cellar_generate_tokens(cellar_session* session, const int32_t* prompt, size_t count, const cellar_generate_options* options,
                                   cellar_answer** out, cellar_error* error) {
    return ask(session, options, out, error, [&](api::Session& s, const api::GenerateOptions& o) -> api::Result<api::Answer> {
        if (prompt == nullptr && count > 0) return missing("prompt");
        return s.generate_tokens({prompt, count}, o);
    });
}

cellar_code cellar_append(cellar_session* session, const int32_t* ids, size_t count, float* logits, cellar_error* error) {
    return guard(error, [&]() -> api::Status {
        if (session == nullptr) return missing("session");
        if (ids == nullptr && count > 0) return missing("ids");
        const auto found = session->session.append({ids, count});
        if (found && logits != nullptr) std::copy(found->begin(), found->end(), logits);
        return found.status();
    });
}

int64_t cellar_length(const cellar_session* session) {
    return session == nullptr ? 0 : session->session.length();
}

cellar_code cellar_tokens(const cellar_session* session, int32_t* out, size_t capacity, size_t* count, cellar_error* error) {
    return guard(error, [&]() -> api::Status {
        if (session == nullptr) return missing("session");
        const auto ids = session->session.tokens();
        if (!ids) return ids.status();
        return copy_out(ids->data(), ids->size(), out, capacity, count);
    });
}

cellar_code cellar_fork(cellar_session* session, int64_t at, cellar_session** out, cellar_error* error) {
    return hand_out(out, error, [&]() -> api::Result<api::Session> {
        if (session == nullptr) return missing("session");
        return session->session.fork(at);
    });
}

cellar_code cellar_trim(cellar_session* session, int64_t n, int64_t* reached, cellar_error* error) {
    return guard(error, [&]() -> api::Status {
        if (session == nullptr) return missing("session");
        const auto found = session->session.trim(n);
        if (found && reached != nullptr) *reached = *found;
        return found.status();
    });
}

// --- answers

const char* cellar_answer_text(const cellar_answer* answer, size_t* length) {
    if (length != nullptr) *length = answer == nullptr ? 0 : answer->answer.text.size();
    return answer == nullptr ? "" : answer->answer.text.c_str();
}

const int32_t* cellar_answer_tokens(const cellar_answer* answer, size_t* count) {
    if (count != nullptr) *count = answer == nullptr ? 0 : answer->answer.tokens.size();
    return answer == nullptr ? nullptr : answer->answer.tokens.data();
}

void cellar_answer_get_info(const cellar_answer* answer, cellar_answer_info* out) {
    if (out == nullptr) return;
    *out = {};
    if (answer == nullptr) return;
    const api::Receipt& receipt = answer->answer.receipt;
    const api::Timings& timings = answer->answer.timings;
    out->stop = static_cast<int32_t>(answer->answer.stop);
    out->reuse = static_cast<int32_t>(receipt.reason);
    out->prompt = receipt.prompt;
    out->reused = receipt.reused;
    out->first_difference = receipt.first_difference;
    out->prompt_tokens = timings.prompt_tokens;
    out->generated_tokens = timings.generated_tokens;
    out->pure = receipt.pure ? 1 : 0;
    out->prompt_seconds = timings.prompt_seconds;
    out->generate_seconds = timings.generate_seconds;
    out->seconds_saved = receipt.seconds_saved;
}

cellar_code cellar_answer_get_receipt(const cellar_answer* answer, cellar_receipt* out, cellar_error* error) {
    return guard(error, [&]() -> api::Status {
        if (answer == nullptr) return missing("answer");
        if (out == nullptr) return missing("out");
        if (out->size < sizeof(size_t) || out->size > 4096) return {api::StatusKind::Input, "a cellar_receipt has no size: set it first"};
        const api::Receipt& r = answer->answer.receipt;
        cellar_receipt full = {};
        full.size = out->size;
        full.reuse = static_cast<int32_t>(r.reason);
        full.source = static_cast<int32_t>(r.source);
        full.pure = r.pure ? 1 : 0;
        full.cached_token = r.cached_token;
        full.wanted_token = r.wanted_token;
        full.prompt = r.prompt;
        full.reused = r.reused;
        full.first_difference = r.first_difference;
        full.seconds_saved = r.seconds_saved;
        full.before = r.before.c_str();
        full.cached = r.cached.c_str();
        full.wanted = r.wanted.c_str();
        full.explanation = r.explanation.c_str();
        full.forgotten_turns = answer->answer.forgotten.turns;
        full.forgotten_tokens = answer->answer.forgotten.tokens;
        std::memcpy(out, &full, std::min(out->size, sizeof full));
        return {};
    });
}

void cellar_answer_free(cellar_answer* answer) {
    delete answer;
}

// --- stopping

cellar_cancel* cellar_cancel_make(void) {
    return new (std::nothrow) cellar_cancel;
}
void cellar_cancel_set(cellar_cancel* cancel, int on) {
    if (cancel != nullptr) cancel->on.store(on != 0, std::memory_order_relaxed);
}
void cellar_cancel_free(cellar_cancel* cancel) {
    delete cancel;
}
