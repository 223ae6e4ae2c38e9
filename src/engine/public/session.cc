#include <cellar/session.h>

#include <algorithm>

#include "engine/public/state.h"

namespace cellar::v1 {
namespace {

enum class Access { Reads, Changes };

// Every call on a session: alone on its engine, and refused where it would change what a callback is in the middle of.
// body(state, engine) -> cellar::Result<T>. The copy of `state` outlives the lock, so a callback may let go of its session.
template <class T, class State, class Body>
Result<T> call(std::shared_ptr<State> state, Access access, Body&& body) {
    if (state == nullptr) return Status{StatusKind::Input, "the session is closed"};
    auto& owner = *state->engine;
    const std::lock_guard lock(owner.mutex);
    if (access == Access::Reads) return guarded<T>([&] { return body(*state, *owner.engine); });
    if (owner.running) return Status{StatusKind::Input, "a callback may read, but not change the sessions of the engine that runs it"};
    if (owner.broken)
        return Status{StatusKind::System, "the engine was stopped in the middle of a step, by a lack of memory or worse; make a new one"};
    owner.running = true;
    bool came_back = false;
    auto result = guarded<T>([&] {
        auto inner = body(*state, *owner.engine);
        came_back = true;
        return inner;
    });
    owner.running = false;
    owner.broken = !came_back;
    return result;
}

// Callbacks as the engine takes them. What they throw ends the answer and is told when it has ended.
class Callbacks {
  public:
    explicit Callbacks(const GenerateOptions& options) : options_(options) {}

    [[nodiscard]] TakeText take() {
        return [this](std::string_view text) {
            if (thrown_) return false;
            return !options_.on_text || caught([&] { return options_.on_text(text); });
        };
    }
    [[nodiscard]] Progress progress() {
        if (!options_.on_progress) return {};
        return [this](int64_t done, int64_t total) {
            if (!thrown_) caught([&] { return options_.on_progress(done, total), true; });
        };
    }
    [[nodiscard]] bool thrown() const { return thrown_; }

  private:
    template <class Body>
    bool caught(Body&& body) {
        try {
            return body();
        } catch (...) {
            thrown_ = true;
            return false;
        }
    }
    const GenerateOptions& options_;
    bool thrown_ = false;
};

cellar::Result<cellar::GenerateOptions> to_engine(const GenerateOptions& options) {
    if (options.max_tokens < -1) return fail("max_tokens is {}, but must be at least 0, or -1 for no limit", options.max_tokens);
    const Sampling& s = options.sampling;
    cellar::GenerateOptions out;
    out.sampler = {s.temperature,       s.top_k,          s.top_p, s.min_p, s.typical_p, s.repetition_penalty, s.presence_penalty,
                   s.frequency_penalty, s.penalty_last_n, s.seed};
    out.max_tokens = options.max_tokens;
    out.stops = options.stops;
    out.ignore_end = options.ignore_end;
    out.render_special = options.show_special;
    return out;
}

Answer to_public(cellar::Answer answer) {
    Answer out;
    out.text = std::move(answer.text);
    out.tokens = std::move(answer.tokens);
    out.stop = static_cast<StopReason>(answer.stop);
    const cellar::Receipt& r = answer.receipt;
    out.receipt.prompt = r.prompt;
    out.receipt.reused = r.reused;
    out.receipt.first_difference = r.first_difference;
    out.receipt.reason = static_cast<ReuseReason>(r.reason);
    out.receipt.pure = r.pure;
    out.receipt.seconds_saved = r.seconds_saved;
    out.receipt.source = static_cast<ReuseSource>(r.source);
    out.receipt.before = r.before.text;
    out.receipt.cached = r.cached.text;
    out.receipt.wanted = r.wanted.text;
    if (!r.cached.tokens.empty()) out.receipt.cached_token = r.cached.tokens.front();
    if (!r.wanted.tokens.empty()) out.receipt.wanted_token = r.wanted.tokens.front();
    out.receipt.explanation = explain(r);
    out.forgotten = {answer.forgotten.turns, answer.forgotten.tokens};
    const cellar::Timings& t = answer.timings;
    out.timings = {t.prompt_tokens, t.generated_tokens, t.prompt_seconds, t.generate_seconds};
    return out;
}

static_assert(static_cast<int>(StopReason::Cancelled) == static_cast<int>(cellar::StopReason::Cancelled));
static_assert(static_cast<int>(StopReason::Context) == static_cast<int>(cellar::StopReason::Context));
static_assert(static_cast<int>(StopReason::MaxTokens) == static_cast<int>(cellar::StopReason::MaxTokens));
static_assert(static_cast<int>(StopReason::StopString) == static_cast<int>(cellar::StopReason::StopString));
static_assert(static_cast<int>(ReuseSource::Session) == static_cast<int>(cellar::Receipt::Source::Sequence));
static_assert(static_cast<int>(ReuseSource::Kept) == static_cast<int>(cellar::Receipt::Source::Kept));
static_assert(static_cast<int>(Overflow::DropTurns) == static_cast<int>(cellar::Overflow::DropTurns));
static_assert(static_cast<int>(Overflow::Shift) == static_cast<int>(cellar::Overflow::Shift));
static_assert(static_cast<int>(Overflow::Slide) == static_cast<int>(cellar::Overflow::Slide));
static_assert(static_cast<int>(ReuseReason::All) == static_cast<int>(cellar::Receipt::Reason::All));
static_assert(static_cast<int>(ReuseReason::Differs) == static_cast<int>(cellar::Receipt::Reason::Differs));
static_assert(static_cast<int>(ReuseReason::Shorter) == static_cast<int>(cellar::Receipt::Reason::Shorter));
static_assert(static_cast<int>(ReuseReason::Unrestorable) == static_cast<int>(cellar::Receipt::Reason::Unrestorable));

// ask(state, engine, options, take, cancel, progress) -> cellar::Result<cellar::Answer>.
template <class State, class Ask>
Result<Answer> answer(const std::shared_ptr<State>& state, const GenerateOptions& options, Ask&& ask) {
    Callbacks callbacks(options);
    auto result = call<Answer>(state, Access::Changes, [&](State& self, cellar::Engine& engine) -> cellar::Result<Answer> {
        CELLAR_TRY(cellar::GenerateOptions inner, to_engine(options));
        inner.failed = [&] { return callbacks.thrown(); };
        CELLAR_TRY(cellar::Answer found, ask(self, engine, inner, callbacks.take(), options.cancel, callbacks.progress()));
        return to_public(std::move(found));
    });
    if (callbacks.thrown()) return Status{StatusKind::Internal, "an exception came out of a callback; the answer ended there"};
    return result;
}

// The session's conversation, made when it is first needed.
template <class State>
cellar::Result<Conversation*> chat_of(State& state, cellar::Engine& engine) {
    if (state.chat != nullptr) return state.chat.get();
    const model::Model& model = engine.model();
    ConversationOptions options;
    options.system = state.options.system;
    options.thinking = state.options.thinking;
    options.overflow = static_cast<cellar::Overflow>(state.options.overflow);
    if (!state.options.chat_template.empty()) {
        options.template_text = state.options.chat_template;
    } else if (model.tokenizer() != nullptr && !model.chat_template()) {
        return fail("{}: the file has no chat template; give one in SessionOptions::chat_template, or use generate()", model.file().path());
    }
    CELLAR_TRY(state.chat, Conversation::make_on(engine, std::move(options), state.seq));
    return state.chat.get();
}

cellar::Result<std::vector<float>> append_tokens(cellar::Engine& engine, SeqId seq, std::span<const int32_t> ids) {
    if (ids.empty()) return fail("there are no tokens to append");
    const int64_t vocabulary = engine.model().config().vocabulary;
    for (size_t i = 0; i < ids.size(); ++i)
        if (ids[i] < 0 || ids[i] >= vocabulary) return fail("token {} at position {} is outside the vocabulary of {}", ids[i], i, vocabulary);
    const int64_t length = engine.cache().length(seq);
    if (length + static_cast<int64_t>(ids.size()) > engine.context())
        return fail(ErrorKind::Full, "{} tokens do not fit behind {}: the context holds {}", ids.size(), length, engine.context());
    CELLAR_TRY(const std::span<const float> logits, engine.append(seq, ids));
    return std::vector<float>(logits.begin(), logits.end());
}

}  // namespace

std::string_view name(ReuseSource source) {
    return cellar::name(static_cast<cellar::Receipt::Source>(source));
}
std::string_view name(ReuseReason reason) {
    return cellar::name(static_cast<cellar::Receipt::Reason>(reason));
}
std::string_view name(StopReason reason) {
    return cellar::name(static_cast<cellar::StopReason>(reason));
}

Session::State::~State() {
    const std::lock_guard lock(engine->mutex);
    chat.reset();
    // A sequence that is part of a step that will never end goes with its engine.
    if (engine->broken) return;
    try {
        if (appended) engine->engine->keep(seq);
    } catch (const std::bad_alloc&) {
        engine->engine->index().clear();  // part of it may have been in the middle of a change
    }
    engine->engine->cache().close(seq);
}

Result<Answer> Session::say(std::string_view text, const GenerateOptions& options) {
    return answer(state_, options, [&](State& self, cellar::Engine& engine, const auto&... rest) -> cellar::Result<cellar::Answer> {
        CELLAR_TRY(Conversation * chat, chat_of(self, engine));
        return chat->say(std::string(text), rest...);
    });
}

Result<Answer> Session::chat(const std::vector<Message>& messages, const GenerateOptions& options) {
    return answer(state_, options, [&](State& self, cellar::Engine& engine, const auto&... rest) -> cellar::Result<cellar::Answer> {
        CELLAR_TRY(Conversation * chat, chat_of(self, engine));
        std::vector<cellar::Message> inner;
        inner.reserve(messages.size());
        for (const Message& message : messages) inner.push_back({message.role, message.content});
        return chat->reply(std::move(inner), rest...);
    });
}

Result<Answer> Session::again(const GenerateOptions& options) {
    return answer(state_, options, [&](State& self, cellar::Engine& engine, const auto&... rest) -> cellar::Result<cellar::Answer> {
        CELLAR_TRY(Conversation * chat, chat_of(self, engine));
        return chat->again(rest...);
    });
}

Result<bool> Session::undo() {
    return call<bool>(state_, Access::Changes,
                      [](State& self, cellar::Engine&) -> cellar::Result<bool> { return self.chat != nullptr && self.chat->undo(); });
}

Result<std::vector<Message>> Session::messages() const {
    return call<std::vector<Message>>(state_, Access::Reads, [](State& self, cellar::Engine&) -> cellar::Result<std::vector<Message>> {
        std::vector<Message> out;
        const std::string& system = self.chat != nullptr ? self.chat->system() : self.options.system;
        if (!system.empty()) out.push_back({"system", system});
        if (self.chat == nullptr) return out;
        for (const cellar::Message& message : self.chat->messages()) out.push_back({message.role, message.content});
        return out;
    });
}

Result<Answer> Session::generate(std::string_view prompt, const GenerateOptions& options) {
    return answer(state_, options, [&](State& self, cellar::Engine& engine, const auto&... rest) -> cellar::Result<cellar::Answer> {
        const text::Tokenizer* words = engine.model().tokenizer();
        if (words == nullptr) return fail("{}", engine.model().why_no_tokenizer());
        if (prompt.size() > INT32_MAX)
            return fail("a prompt of {} bytes is too long to be cut into tokens; {} are possible", prompt.size(), INT32_MAX);
        return cellar::generate(engine, self.seq, words->encode(prompt, {true, options.parse_special}), rest...);
    });
}

Result<Answer> Session::generate_tokens(std::span<const int32_t> prompt, const GenerateOptions& options) {
    return answer(state_, options,
                  [&](State& self, cellar::Engine& engine, const auto&... rest) { return cellar::generate(engine, self.seq, prompt, rest...); });
}

Result<std::vector<float>> Session::append(std::span<const int32_t> ids) {
    return call<std::vector<float>>(state_, Access::Changes, [&](State& self, cellar::Engine& engine) {
        self.appended = true;
        return append_tokens(engine, self.seq, ids);
    });
}

int64_t Session::length() const {
    const auto read = [](State& self, cellar::Engine& engine) -> cellar::Result<int64_t> { return engine.cache().length(self.seq); };
    const auto found = call<int64_t>(state_, Access::Reads, read);
    return found ? *found : 0;
}

Result<std::vector<int32_t>> Session::tokens() const {
    return call<std::vector<int32_t>>(state_, Access::Reads, [](State& self, cellar::Engine& engine) -> cellar::Result<std::vector<int32_t>> {
        const int32_t length = engine.cache().length(self.seq);
        std::vector<kv::Token> log(static_cast<size_t>(length));
        engine.cache().copy_tokens(self.seq, {0, length}, log);
        std::vector<int32_t> out;
        out.reserve(log.size());
        for (const kv::Token& token : log) out.push_back(token.id);
        return out;
    });
}

Result<Session> Session::fork(int64_t at) {
    return call<Session>(state_, Access::Changes, [&](State& self, cellar::Engine& engine) -> cellar::Result<Session> {
        kv::Cache& cache = engine.cache();
        const int64_t length = cache.length(self.seq);
        if (at < -1 || at > length) return fail("cannot fork at {}: the session has {} tokens", at, length);
        if (cache.open_seqs() >= cache.limits().max_seqs) {
            return fail(ErrorKind::Full, "all {} sessions are open; close one, or raise max_sessions", cache.limits().max_seqs);
        }
        CELLAR_TRY(const SeqId seq, cache.fork(self.seq, static_cast<int32_t>(at == -1 ? length : at)));
        auto child = std::make_shared<State>(self.engine, seq, self.options);
        child->appended = self.appended;
        if (self.chat != nullptr) child->chat = self.chat->copy_on(seq);
        return Session(std::move(child));
    });
}

Result<int64_t> Session::trim(int64_t n) {
    return call<int64_t>(state_, Access::Changes, [&](State& self, cellar::Engine& engine) -> cellar::Result<int64_t> {
        if (n < 0) return fail("cannot trim to {} tokens", n);
        return engine.cache().trim(self.seq, static_cast<int32_t>(std::min<int64_t>(n, engine.cache().length(self.seq))));
    });
}

}  // namespace cellar::v1
