// The public face in C++, on the shipped model: what it promises, what it refuses, and what happens when memory runs out.
#include <cellar/engine.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <stdexcept>
#include <thread>

namespace {

// The allocation after this many fails, on this thread; below 0: none.
thread_local int64_t allocations_left = -1;

}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
    if (allocations_left == 0) {
        allocations_left = -1;
        return nullptr;
    }
    if (allocations_left > 0) --allocations_left;
    return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void* operator new(size_t bytes) {
    if (void* memory = operator new(bytes, std::nothrow)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}

namespace cellar::v1 {
namespace {

const std::string kModel = CELLAR_SOURCE_DIR "/models/cellar-recall.gguf";
const std::string kStory = "Tell me a story about a fox and a bear.";

Model shipped() {
    static const Model model = Model::open(kModel).value();
    return model;
}

EngineOptions small(EngineOptions options = {}) {
    if (options.threads == 0) options.threads = 2;
    if (options.context == 0) options.context = 512;
    return options;
}

Engine engine(EngineOptions options = {}) {
    return Engine::make(shipped(), small(std::move(options))).value();
}

void expect_refused(const Status& status, StatusKind kind, const std::vector<std::string>& words) {
    EXPECT_EQ(name(status.kind), name(kind)) << status.message;
    EXPECT_EQ(status.message.find('\n'), std::string::npos);
    for (const std::string& word : words) EXPECT_NE(status.message.find(word), std::string::npos) << word << " is not in: " << status.message;
}

std::string text_of(Result<Answer> answer) {
    EXPECT_TRUE(answer) << answer.status().message;
    return answer ? answer->text : "";
}

// --- models

TEST(LibraryModel, SaysWhatItIs) {
    const ModelInfo& info = shipped().info();
    EXPECT_EQ(info.path, kModel);
    EXPECT_FALSE(info.name.empty());
    EXPECT_EQ(info.architecture, "llama");
    EXPECT_GT(info.layers, 1);
    EXPECT_GE(info.trained_context, 2048);
    EXPECT_GT(info.vocabulary, 1000);
    EXPECT_GT(info.weight_bytes, 1'000'000U);
    EXPECT_TRUE(info.has_text);
    EXPECT_TRUE(info.has_template);
    ASSERT_TRUE(info.eos);
    EXPECT_TRUE(shipped().ends_answer(*info.eos));
    EXPECT_FALSE(shipped().ends_answer(-1));
    EXPECT_FALSE(shipped().ends_answer(static_cast<int32_t>(info.vocabulary)));
}

TEST(LibraryModel, RefusesWhatIsNoModel) {
    expect_refused(Model::open("/nowhere/none.gguf").status(), StatusKind::Input, {"/nowhere/none.gguf"});
    const std::string path = CELLAR_BINARY_DIR "/library_test_no_model.txt";
    std::ofstream(path) << "This is no model.";
    expect_refused(Model::open(path).status(), StatusKind::Input, {path});
    expect_refused(Model::open(kModel, {.pack = true, .threads = -1}).status(), StatusKind::Input, {"threads", "-1"});
}

TEST(LibraryModel, WordsThereAndBack) {
    const std::string text = "My name is Ada, and the code is 4821.";
    const auto ids = shipped().encode(text, {.add_special = false});
    ASSERT_TRUE(ids);
    EXPECT_EQ(shipped().decode(*ids).value(), text);
    EXPECT_TRUE(shipped().encode("").ok());
    const auto vocabulary = static_cast<int32_t>(shipped().info().vocabulary);
    expect_refused(shipped().decode(std::vector<int32_t>{5, vocabulary}).status(), StatusKind::Input, {std::to_string(vocabulary), "position 1"});
    expect_refused(shipped().decode(std::vector<int32_t>{-1}).status(), StatusKind::Input, {"-1"});
}

TEST(LibraryModel, TheEstimateIsWhatAFullCacheTakes) {
    for (const char* type : {"f32", "q8_0"}) {
        const EngineOptions options{.threads = 1, .context = 200, .cache_type = type, .max_sessions = 3, .cache_tokens = 320};
        const auto estimate = shipped().estimate(options);
        ASSERT_TRUE(estimate) << estimate.status().message;
        EXPECT_EQ(estimate->context, 200);
        EXPECT_EQ(estimate->total_bytes, estimate->cache_bytes + estimate->weight_bytes + estimate->transient_bytes);
        EXPECT_TRUE(estimate->fits);
        Engine full = Engine::make(shipped(), options).value();
        Session first = full.open_session().value();
        Session second = full.open_session().value();
        EXPECT_TRUE(first.append(std::vector<int32_t>(200, 7)));
        EXPECT_TRUE(second.append(std::vector<int32_t>(96, 7)));
        EXPECT_EQ(full.stats().used_bytes, estimate->cache_bytes) << type;
    }
    const auto f32 = shipped().estimate({.cache_type = "f32"});
    const auto f16 = shipped().estimate({.cache_type_k = "f16", .cache_type_v = "f16"});
    EXPECT_EQ(f32->cache_bytes_per_token, 2 * f16->cache_bytes_per_token);
    EXPECT_EQ(f16->context, shipped().info().trained_context);
}

// --- engines

TEST(LibraryEngine, RefusesWrongOptionsByName) {
    const auto refused = [](EngineOptions options, const std::vector<std::string>& words) {
        expect_refused(Engine::make(shipped(), options).status(), StatusKind::Input, words);
        expect_refused(shipped().estimate(options).status(), StatusKind::Input, words);
    };
    refused({.cache_type = "q9_0"}, {"cache_type", "q9_0", "q8_0"});
    refused({.cache_type = "F16"}, {"cache_type", "F16"});
    refused({.cache_type_k = "f17"}, {"cache_type_k", "f17"});
    refused({.cache_type_v = " f16"}, {"cache_type_v", " f16"});
    refused({.threads = -1}, {"threads", "-1"});
    refused({.threads = 5000}, {"threads", "5000"});
    refused({.context = -5}, {"context", "-5"});
    refused({.context = INT64_MAX}, {"context"});
    refused({.max_sessions = 0}, {"max_sessions"});
    refused({.max_sessions = 70000}, {"max_sessions", "70000"});
    refused({.cache_tokens = -1}, {"cache_tokens"});
    refused({.chunk = 0}, {"chunk"});
    refused({.kv_budget = "lots"}, {"kv_budget", "lots"});
    refused({.kv_budget = "0"}, {"kv_budget", "0"});
    expect_refused(Engine::make(shipped(), {.kv_budget = "1000"}).status(), StatusKind::Full, {"1000 B", "8 blocks"});
}

TEST(LibraryEngine, SaysWhatWasDecided) {
    const Engine made = engine({.context = 4000, .cache_type = "bf16", .cache_type_v = "q8_0"});
    EXPECT_EQ(made.info().threads, 2);
    EXPECT_EQ(made.info().context, 4000);
    EXPECT_EQ(made.info().cache_type_k, "bf16");
    EXPECT_EQ(made.info().cache_type_v, "q8_0");
    EXPECT_FALSE(made.info().cpu_target.empty());
    ASSERT_FALSE(made.info().notes.empty());
    EXPECT_NE(made.info().notes[0].find("4000"), std::string::npos);
    EXPECT_EQ(made.model().info().path, kModel);
}

TEST(LibraryEngine, HasRoomForItsSessionsOnly) {
    Engine made = engine({.max_sessions = 2});
    Session first = made.open_session().value();
    Session second = made.open_session().value();
    expect_refused(made.open_session().status(), StatusKind::Full, {"2", "max_sessions"});
    expect_refused(first.fork().status(), StatusKind::Full, {"2", "max_sessions"});
    second.close();
    EXPECT_EQ(made.stats().open_sessions, 1);
    EXPECT_TRUE(first.fork());
    EXPECT_TRUE(made.open_session());
}

TEST(LibraryEngine, LivesAsLongAsASession) {
    Session session;
    {
        const Model model = Model::open(kModel).value();
        session = Engine::make(model, small()).value().open_session().value();
    }
    EXPECT_EQ(text_of(session.say("My name is Ada.")).empty(), false);
    EXPECT_EQ(text_of(session.say("What is my name?")), "Your name is Ada.");
}

// --- conversations

TEST(LibrarySession, RemembersAndRunsOnlyWhatIsNew) {
    Engine made = engine();
    Session session = made.open_session().value();
    std::string streamed;
    int64_t read = 0;
    GenerateOptions options;
    options.on_text = [&](std::string_view text) { return streamed += text, true; };
    options.on_progress = [&](int64_t done, int64_t total) { read = done == total ? total : 0; };
    const auto first = session.say("My name is Ada.", options);
    ASSERT_TRUE(first) << first.status().message;
    EXPECT_EQ(streamed, first->text);
    EXPECT_EQ(read, first->receipt.prompt);
    EXPECT_EQ(first->receipt.reason, ReuseReason::Nothing);
    EXPECT_EQ(first->stop, StopReason::EndOfTurn);
    EXPECT_TRUE(made.model().ends_answer(first->tokens.back()));
    EXPECT_EQ(session.length(), first->receipt.prompt + static_cast<int64_t>(first->tokens.size()) - 1);

    const auto second = session.say("What is my name?");
    ASSERT_TRUE(second);
    EXPECT_EQ(second->text, "Your name is Ada.");
    EXPECT_EQ(second->receipt.reused, first->receipt.prompt + static_cast<int64_t>(first->tokens.size()) - 1);
    EXPECT_EQ(name(second->receipt.reason), "shorter");
    EXPECT_TRUE(second->receipt.pure);
    EXPECT_EQ(second->timings.prompt_tokens, second->receipt.prompt - second->receipt.reused);
    EXPECT_EQ(second->timings.generated_tokens, static_cast<int64_t>(second->tokens.size()) - 1);
    EXPECT_GT(second->timings.prompt_seconds, 0.0);

    // Cold and warm are equal.
    std::vector<int32_t> prompt = session.tokens().value();
    prompt.resize(static_cast<size_t>(second->receipt.prompt));
    Engine fresh = engine({.chunk = 7});
    const auto cold = fresh.open_session()->generate_tokens(prompt);
    ASSERT_TRUE(cold);
    EXPECT_EQ(cold->tokens, second->tokens);
}

TEST(LibrarySession, SessionsShareWhatTheyHaveInCommon) {
    Engine made = engine();
    const SessionOptions options{.system = "You are Nora. You answer in one short sentence, and you never make anything up that you were not told."};
    Session first = made.open_session(options).value();
    ASSERT_TRUE(first.say("My name is Ada."));
    const CacheStats alone = made.stats();
    EXPECT_GT(alone.kept_tokens, 0);
    Session second = made.open_session(options).value();
    const auto answer = second.say("I live in Oslo.");
    ASSERT_TRUE(answer) << answer.status().message;
    EXPECT_EQ(answer->receipt.source, ReuseSource::Kept);
    EXPECT_EQ(name(answer->receipt.source), "kept");
    EXPECT_GT(answer->receipt.reused, 20);
    EXPECT_TRUE(answer->receipt.pure);
    EXPECT_GT(answer->receipt.seconds_saved, 0.0);
    const int64_t blocks = (second.length() + 31) / 32;
    EXPECT_LT(made.stats().groups[0].blocks_used, alone.groups[0].blocks_used + blocks) << "they share cells";
    EXPECT_GT(made.stats().groups[0].blocks_shared, 0);
    EXPECT_LE(made.stats().ledger_bytes, made.stats().budget_bytes);

    // Where they part, with both sides.
    EXPECT_EQ(answer->receipt.reason, ReuseReason::Differs);
    EXPECT_EQ(answer->receipt.first_difference, answer->receipt.reused);
    EXPECT_TRUE(answer->receipt.before.ends_with("<|user|>")) << answer->receipt.before;
    EXPECT_TRUE(answer->receipt.cached.starts_with("My name")) << answer->receipt.cached;
    EXPECT_TRUE(answer->receipt.wanted.starts_with("I live")) << answer->receipt.wanted;
    EXPECT_NE(answer->receipt.cached_token, answer->receipt.wanted_token);
    EXPECT_NE(answer->receipt.explanation.find("kept prefix"), std::string::npos) << answer->receipt.explanation;

    // A session that is closed leaves what it read to the next one.
    const int64_t length = second.length();
    const auto ids = second.tokens().value();
    second.close();
    Session third = made.open_session().value();
    const auto again = third.generate_tokens(ids, {.max_tokens = 1});
    ASSERT_TRUE(again);
    EXPECT_EQ(again->receipt.reused, length - 1);
}

TEST(LibrarySession, ForgetsByItsPolicyOnly) {
    Engine made = engine({.context = 192});
    for (const Overflow overflow : {Overflow::Stop, Overflow::DropTurns, Overflow::Shift, Overflow::Slide}) {
        Session session = made.open_session({.system = "You are Nora.", .overflow = overflow}).value();
        int64_t forgotten = 0;
        bool full = false;
        for (int turn = 0; turn < 20 && !full; ++turn) {
            // No two alike: what another session has kept would be taken, and is pure.
            const std::string text = std::to_string(turn) + ", door " + std::to_string(static_cast<int>(overflow)) + " is the red one.";
            const auto answer = session.say(text, {.max_tokens = 20});
            full = !answer || answer->stop == StopReason::Context;
            if (!answer) continue;
            forgotten += answer->forgotten.tokens;
            if (answer->forgotten.tokens > 0) {
                EXPECT_FALSE(session.say("What is the code?", {.max_tokens = 2})->receipt.pure);
            }
        }
        EXPECT_EQ(full, overflow == Overflow::Stop);
        EXPECT_EQ(forgotten > 0, overflow != Overflow::Stop);
        EXPECT_EQ(session.messages().value().front().content, "You are Nora.");
    }
}

TEST(LibrarySession, TakesWholeConversations) {
    Engine made = engine();
    Session session = made.open_session().value();
    const auto first = session.chat({{"system", "You are Nora."}, {"user", "My name is Ada."}});
    ASSERT_TRUE(first) << first.status().message;
    auto messages = session.messages().value();
    ASSERT_EQ(messages.size(), 3U);
    EXPECT_EQ(messages[0], (Message{"system", "You are Nora."}));
    EXPECT_EQ(messages[2], (Message{"assistant", first->text}));
    messages.push_back({"user", "What is my name?"});
    const auto second = session.chat(messages);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->text, "Your name is Ada.");
    EXPECT_EQ(second->receipt.reused, first->receipt.prompt + static_cast<int64_t>(first->tokens.size()) - 1);

    // Another one on the same session, and its answer is that of a fresh session.
    const std::vector<Message> other = {{"user", "I live in Oslo."}, {"assistant", "Okay."}, {"user", "Where do I live?"}};
    const auto changed = session.chat(other);
    EXPECT_EQ(name(changed->receipt.reason), "differs");
    EXPECT_GT(changed->receipt.first_difference, 0);
    EXPECT_EQ(changed->tokens, engine().open_session()->chat(other)->tokens);

    // Refused, and nothing is lost.
    const auto before = session.messages().value();
    expect_refused(session.chat({}).status(), StatusKind::Input, {"no message"});
    expect_refused(session.chat({{"system", "x"}}).status(), StatusKind::Input, {"no message"});
    expect_refused(session.chat({{"user", "x"}, {"assistant", "y"}}).status(), StatusKind::Input, {"assistant"});
    expect_refused(session.chat({{"system", "a"}, {"user", "x"}, {"system", "y"}}).status(), StatusKind::Input, {"message 2", "system"});
    EXPECT_EQ(session.messages().value(), before);
}

TEST(LibrarySession, UndoAndAgain) {
    Engine made = engine();
    Session session = made.open_session({.system = "You are Nora."}).value();
    EXPECT_EQ(session.messages().value(), (std::vector<Message>{{"system", "You are Nora."}}));
    EXPECT_FALSE(session.undo().value());
    expect_refused(session.again().status(), StatusKind::Input, {"no turn"});
    const auto first = session.say("My name is Ada.");
    const auto again = session.again();
    ASSERT_TRUE(again);
    EXPECT_EQ(again->tokens, first->tokens);
    EXPECT_EQ(name(again->receipt.reason), "all");
    EXPECT_EQ(again->receipt.reused, first->receipt.prompt - 1);
    EXPECT_TRUE(session.undo().value());
    EXPECT_FALSE(session.undo().value());
    EXPECT_EQ(session.messages()->size(), 1U);
    EXPECT_EQ(text_of(session.say("What is my name?")), "You have not told me your name.");
}

TEST(LibrarySession, TemplatesOfTheCaller) {
    Engine made = engine();
    Session broken = made.open_session({.chat_template = "{% for %}"}).value();
    expect_refused(broken.say("x").status(), StatusKind::Input, {"template"});
    EXPECT_TRUE(broken.messages()->empty());
    Session raising = made.open_session({.chat_template = "{{ raise_exception('no thanks') }}"}).value();
    expect_refused(raising.say("x").status(), StatusKind::Input, {"no thanks"});
    Session own = made.open_session({.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"}).value();
    const auto answer = own.say("My name is Ada.", {.max_tokens = 1});
    EXPECT_EQ(answer->receipt.prompt, static_cast<int64_t>(shipped().encode("My name is Ada.", {.parse_special = true})->size()));
}

// --- the sequence

TEST(LibrarySession, ForksShareCellsAndGoTheirOwnWays) {
    Engine made = engine();
    Session session = made.open_session().value();
    ASSERT_TRUE(session.say("My name is Ada."));
    ASSERT_TRUE(session.say("The code for the red door is 4821."));
    const uint64_t before = made.stats().used_bytes;
    Session fork = session.fork().value();
    EXPECT_EQ(made.stats().used_bytes, before);
    EXPECT_GT(made.stats().groups.at(0).blocks_shared, 0);
    EXPECT_EQ(fork.length(), session.length());
    EXPECT_EQ(fork.tokens().value(), session.tokens().value());
    EXPECT_EQ(fork.messages().value(), session.messages().value());

    const auto name_answer = fork.say("What is my name?");
    const auto code_answer = session.say("What is the code for the red door?");
    EXPECT_EQ(name_answer->text, "Your name is Ada.");
    EXPECT_EQ(code_answer->text, "The code for the red door is 4821.");
    EXPECT_EQ(name_answer->timings.prompt_tokens, name_answer->receipt.prompt - name_answer->receipt.reused);
    EXPECT_GT(name_answer->receipt.reused, 20);
    EXPECT_EQ(session.messages()->size(), 6U);
    EXPECT_EQ(fork.messages()->at(4).content, "What is my name?");

    Session earlier = session.fork(10).value();
    EXPECT_EQ(earlier.length(), 10);
    Session empty = session.fork(0).value();
    EXPECT_EQ(empty.length(), 0);
    expect_refused(session.fork(session.length() + 1).status(), StatusKind::Input,
                   {std::to_string(session.length() + 1), std::to_string(session.length())});
    expect_refused(session.fork(-2).status(), StatusKind::Input, {"-2"});
}

TEST(LibrarySession, TrimSaysWhatItReached) {
    Engine made = engine();
    Session session = made.open_session().value();
    std::vector<int32_t> ids = shipped().encode("The code for the red door is 4821. My name is Ada.").value();
    const auto all = session.append(ids);
    ASSERT_TRUE(all) << all.status().message;
    EXPECT_EQ(static_cast<int64_t>(all->size()), shipped().info().vocabulary);
    EXPECT_EQ(session.tokens().value(), ids);
    EXPECT_EQ(session.trim(7).value(), 7);
    EXPECT_EQ(session.length(), 7);
    EXPECT_EQ(session.trim(100).value(), 7);
    expect_refused(session.trim(-1).status(), StatusKind::Input, {"-1"});
    // The same tokens again, in two parts, give the same logits, bit for bit.
    EXPECT_TRUE(session.append(std::span(ids).subspan(7, 3)));
    const auto again = session.append(std::span(ids).subspan(10));
    EXPECT_EQ(*again, *all);
    EXPECT_EQ(session.trim(0).value(), 0);
    EXPECT_EQ(session.tokens()->size(), 0U);
}

TEST(LibrarySession, RawPromptsAndTokens) {
    Engine made = engine();
    Session session = made.open_session().value();
    const auto text = session.generate("My name is Ada.", {.max_tokens = 6, .ignore_end = true});
    ASSERT_TRUE(text) << text.status().message;
    EXPECT_EQ(text->stop, StopReason::MaxTokens);
    EXPECT_EQ(text->tokens.size(), 6U);
    Session other = made.open_session().value();
    const auto tokens = other.generate_tokens(shipped().encode("My name is Ada.").value(), {.max_tokens = 6, .ignore_end = true});
    EXPECT_EQ(tokens->tokens, text->tokens);
    const auto none = other.generate_tokens(shipped().encode("My name is Ada.").value(), {.max_tokens = 0});
    EXPECT_TRUE(none->tokens.empty());
    EXPECT_EQ(none->receipt.reused, none->receipt.prompt - 1);
    // A stop string ends the answer before it.
    const auto whole = other.say(kStory);
    ASSERT_GT(whole->text.size(), 20U);
    const std::string stop = whole->text.substr(12, 5);
    const auto stopped = other.again({.stops = {stop}});
    EXPECT_EQ(name(stopped->stop), "stop");
    EXPECT_EQ(stopped->text, whole->text.substr(0, whole->text.find(stop)));
    // The same seed, the same text.
    const GenerateOptions drawn{.sampling = {.temperature = 1.5F, .seed = 7}, .max_tokens = 12, .ignore_end = true};
    EXPECT_EQ(other.again(drawn)->tokens, other.again(drawn)->tokens);
}

TEST(LibrarySession, RefusesWrongRequests) {
    Engine made = engine({.context = 64});
    Session session = made.open_session().value();
    ASSERT_TRUE(session.append(std::vector<int32_t>{1, 2, 3}));
    const auto vocabulary = static_cast<int32_t>(shipped().info().vocabulary);
    const std::string v = std::to_string(vocabulary);
    expect_refused(session.append({}).status(), StatusKind::Input, {"no tokens"});
    expect_refused(session.append(std::vector<int32_t>{5, vocabulary}).status(), StatusKind::Input, {v, "position 1"});
    expect_refused(session.append(std::vector<int32_t>(62, 5)).status(), StatusKind::Full, {"62", "64", "3"});
    expect_refused(session.generate_tokens({}).status(), StatusKind::Input, {"empty"});
    expect_refused(session.generate_tokens(std::vector<int32_t>{-7}).status(), StatusKind::Input, {"-7", v});
    expect_refused(session.generate_tokens(std::vector<int32_t>(65, 5)).status(), StatusKind::Full, {"65", "64"});
    expect_refused(session.generate("x", {.max_tokens = -2}).status(), StatusKind::Input, {"max_tokens", "-2"});
    expect_refused(session.generate("x", {.sampling = {.temperature = -1.0F}}).status(), StatusKind::Input, {"temperature"});
    expect_refused(session.say("x", {.sampling = {.top_p = 2.0F}}).status(), StatusKind::Input, {"top"});
    std::string long_text;
    while (long_text.size() < 2000) long_text += "My name is Ada. ";
    expect_refused(session.say(long_text).status(), StatusKind::Full, {"64"});
    EXPECT_EQ(session.tokens().value(), (std::vector<int32_t>{1, 2, 3}));
    EXPECT_TRUE(session.messages()->empty());
    EXPECT_TRUE(session.append(std::vector<int32_t>(61, 5)));
    EXPECT_EQ(session.length(), 64);
}

TEST(LibrarySession, ClosedOnesRefuseEverything) {
    Engine made = engine();
    Session closed = made.open_session().value();
    closed.close();
    Session from = made.open_session().value();
    const Session to = std::move(from);
    EXPECT_TRUE(to.is_open());
    Session never;
    for (Session* session : {&closed, &from, &never}) {
        EXPECT_FALSE(session->is_open());
        EXPECT_EQ(session->length(), 0);
        for (const Status& status :
             {session->say("x").status(), session->chat({{"user", "x"}}).status(), session->again().status(), session->undo().status(),
              session->messages().status(), session->generate("x").status(), session->generate_tokens({}).status(), session->append({}).status(),
              session->tokens().status(), session->fork().status(), session->trim(0).status()}) {
            expect_refused(status, StatusKind::Input, {"closed"});
        }
    }
    EXPECT_EQ(made.stats().open_sessions, 1);
}

TEST(LibrarySession, ReadingAFailureEndsTheProgram) {
    EXPECT_DEATH(std::ignore = Model::open("/nowhere/none.gguf").value(), "none.gguf");
}

// --- stopping, callbacks, threads

TEST(LibraryCancel, BeforeDuringAndByTheCallback) {
    Engine made = engine();
    Session session = made.open_session().value();
    std::atomic<bool> cancel{true};
    expect_refused(session.say(kStory, {.cancel = &cancel}).status(), StatusKind::Cancelled, {"cancelled"});
    EXPECT_TRUE(session.messages()->empty());
    cancel = false;
    int pieces = 0;
    GenerateOptions options{.ignore_end = true, .cancel = &cancel};
    options.on_text = [&](std::string_view) {
        if (++pieces == 3) cancel = true;
        return true;
    };
    const auto cut = session.say(kStory, options);
    ASSERT_TRUE(cut) << cut.status().message;
    EXPECT_EQ(name(cut->stop), "cancelled");
    EXPECT_EQ(pieces, 3);
    EXPECT_EQ(session.messages()->back().content, cut->text);

    const auto ended = session.again({.on_text = [](std::string_view) { return false; }});
    EXPECT_EQ(ended->stop, StopReason::Cancelled);

    // From another thread, an answer that would not end before the context does.
    cancel = false;
    std::atomic<bool> began{false};
    std::thread other([&] {
        while (!began) std::this_thread::yield();
        cancel = true;
    });
    options.on_text = [&](std::string_view) { return began = true; };
    const auto stopped = session.again(options);
    other.join();
    EXPECT_TRUE(stopped->stop == StopReason::Cancelled || stopped->stop == StopReason::Context);
    EXPECT_EQ(session.say("My name is Ada.")->stop, StopReason::EndOfTurn);
}

TEST(LibraryCallbacks, MayReadAndNotChange) {
    Engine made = engine();
    Session session = made.open_session().value();
    Session other = made.open_session().value();
    ASSERT_TRUE(other.append(std::vector<int32_t>{1, 2}));
    int calls = 0;
    GenerateOptions options{.max_tokens = 4, .ignore_end = true};
    options.on_text = [&](std::string_view) {
        ++calls;
        EXPECT_GT(session.length(), 5);
        EXPECT_EQ(static_cast<int64_t>(session.tokens()->size()), session.length());
        EXPECT_EQ(session.messages()->size(), 1U);
        EXPECT_GE(made.stats().open_sessions, 1);
        if (calls > 1) return true;
        for (const Status& status : {session.trim(0).status(), session.say("x").status(), session.fork().status(), session.undo().status(),
                                     other.append(std::vector<int32_t>{3}).status(), made.open_session().status()})
            expect_refused(status, StatusKind::Input, {"callback"});
        other.close();  // letting go is allowed
        return true;
    };
    EXPECT_TRUE(session.say("My name is Ada.", options));
    EXPECT_GT(calls, 0);
    EXPECT_EQ(made.stats().open_sessions, 1);
    // Its own session, too: it goes when the answer has ended.
    options.on_text = [&](std::string_view) { return session.close(), true; };
    EXPECT_TRUE(session.say("I live in Oslo.", options));
    EXPECT_EQ(made.stats().open_sessions, 0);
}

TEST(LibraryCallbacks, WhatTheyThrowComesBackAsAStatus) {
    Engine made = engine();
    Session session = made.open_session().value();
    GenerateOptions options;
    options.on_text = [](std::string_view) -> bool { throw std::runtime_error("mine"); };
    expect_refused(session.say("My name is Ada.", options).status(), StatusKind::Internal, {"callback"});
    options.on_text = {};
    options.on_progress = [](int64_t, int64_t) { throw 7; };
    expect_refused(session.say("I live in Oslo.", options).status(), StatusKind::Internal, {"callback"});
    EXPECT_TRUE(session.chat({{"user", "My name is Ada."}}));
    EXPECT_EQ(text_of(session.say("What is my name?")), "Your name is Ada.");
}

// What a callback throws is an error like any other: the turn is taken back, and the next one does not know of it.
TEST(LibraryCallbacks, WhatTheyThrowTakesTheTurnBack) {
    Engine made = engine();
    Session session = made.open_session().value();
    ASSERT_TRUE(session.say("My name is Ada."));
    const auto before = session.messages().value();
    for (const bool at_once : {true, false}) {
        GenerateOptions options;
        int pieces = 0;
        options.on_text = [&](std::string_view) -> bool {
            if (at_once || ++pieces % 2 == 0) throw std::runtime_error("mine");
            return true;
        };
        expect_refused(session.say(kStory, options).status(), StatusKind::Internal, {"callback"});
        EXPECT_EQ(session.messages().value(), before);
        expect_refused(session.chat({{"user", "I live in Oslo."}}, options).status(), StatusKind::Internal, {"callback"});
        EXPECT_EQ(session.messages().value(), before);
    }
    GenerateOptions options;
    options.on_progress = [](int64_t, int64_t) { throw 7; };
    expect_refused(session.say(kStory, options).status(), StatusKind::Internal, {"callback"});
    EXPECT_EQ(session.messages().value(), before);
    EXPECT_EQ(text_of(session.say("What is my name?")), "Your name is Ada.");
}

TEST(LibraryThreads, SessionsOfOneEngineOnTheirOwnThreads) {
    Engine made = engine({.max_sessions = 6, .cache_tokens = 1024});
    const std::vector<std::string> names = {"Ada", "Tom", "Nora"};
    std::vector<std::string> found(names.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < names.size(); ++i) {
        threads.emplace_back([&, i] {
            Session session = made.open_session().value();
            (void)session.say("My name is " + names[i] + ".");
            Session fork = session.fork().value();
            (void)session.trim(3);
            found[i] = fork.say("What is my name?")->text;
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(found[i], "Your name is " + names[i] + ".");
    EXPECT_EQ(made.stats().open_sessions, 0);
}

TEST(LibraryThreads, EnginesOfOneModelOnTheirOwnThreads) {
    const Model model = shipped();
    const std::vector<std::string> names = {"Ada", "Tom", "Nora"};
    std::vector<std::string> found(names.size());
    std::vector<std::string> spelled(names.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < names.size(); ++i) {
        threads.emplace_back([&, i] {
            Engine made = Engine::make(model, small({.context = 256})).value();
            Session session = made.open_session().value();
            (void)session.say("My name is " + names[i] + ".");
            found[i] = session.say("What is my name?")->text;
            for (int round = 0; round < 20; ++round) {
                const Model copy = model;
                spelled[i] = copy.decode(copy.encode("My name is " + names[i] + ".", {.add_special = false}).value()).value();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < names.size(); ++i) {
        EXPECT_EQ(found[i], "Your name is " + names[i] + ".");
        EXPECT_EQ(spelled[i], "My name is " + names[i] + ".");
    }
}

// --- memory. Whatever allocation fails, the call comes back, nothing is thrown, and what is left can be closed.

// Lets allocation number 0, 1, 2... fail, in growing steps, until a run has fewer. run() -> the status of what it did.
template <class Run>
void fail_each_allocation(Run&& run) {
#ifdef CELLAR_REDUCED_TESTS
    constexpr int64_t dense = 8;
#else
    constexpr int64_t dense = 40;
#endif
    int failures = 0;
    for (int64_t at = 0;; at += at < dense ? 1 : at / 7) {
        allocations_left = at;
        const Status status = run();
        const bool reached = allocations_left == -1;
        allocations_left = -1;
        if (!reached) break;
        if (status.ok()) continue;
        ++failures;
        EXPECT_NE(status.message.find("memory"), std::string::npos) << at << ": " << status.message;
    }
    EXPECT_GT(failures, 3);
}

TEST(LibraryMemory, OpeningAndMaking) {
    const Model model = shipped();  // opened before anything fails
    fail_each_allocation([] { return Model::open(kModel, {.threads = 1}).status(); });
    fail_each_allocation([&] { return Engine::make(model, {.threads = 1, .context = 128}).status(); });
}

TEST(LibraryMemory, Answering) {
    fail_each_allocation([] {
        const int64_t left = std::exchange(allocations_left, -1);
        Engine made = Engine::make(shipped(), {.threads = 1, .context = 128}).value();
        Session session = made.open_session().value();
        const GenerateOptions options{.max_tokens = 3, .stops = {"none"}};
        allocations_left = left;
        const Status status = session.generate("My name is Ada.", options).status();
        const bool reached = allocations_left == -1;
        allocations_left = -1;
        // The engine answers as ever, or says that it is of no more use.
        const auto next = session.say("My name is Ada.", {.max_tokens = 3});
        if (!next) expect_refused(next.status(), StatusKind::System, {"make a new one"});
        (void)session.fork();
        if (!reached) allocations_left = 1;
        return status;
    });
}

}  // namespace
}  // namespace cellar::v1
