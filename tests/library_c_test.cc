// The C face, called as a binding calls it: handles, lists in two calls, callbacks, errors by number and by word.
#include <cellar/cellar.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

const std::string kModel = CELLAR_SOURCE_DIR "/models/cellar-recall.gguf";

struct Closer {
    void operator()(cellar_model* model) const { cellar_model_close(model); }
    void operator()(cellar_engine* engine) const { cellar_engine_close(engine); }
    void operator()(cellar_session* session) const { cellar_session_close(session); }
    void operator()(cellar_answer* answer) const { cellar_answer_free(answer); }
    void operator()(cellar_cancel* cancel) const { cellar_cancel_free(cancel); }
};
template <class T>
using Handle = std::unique_ptr<T, Closer>;

class LibraryC : public testing::Test {
  protected:
    void SetUp() override {
        cellar_model* model = nullptr;
        ASSERT_EQ(cellar_model_open(kModel.c_str(), nullptr, &model, &error_), CELLAR_OK) << error_.message;
        model_.reset(model);
        cellar_engine_options options;
        cellar_engine_options_init(&options);
        options.threads = 2;
        options.context = 512;
        options.max_sessions = 2;
        cellar_engine* engine = nullptr;
        ASSERT_EQ(cellar_engine_make(model, &options, &engine, &error_), CELLAR_OK) << error_.message;
        engine_.reset(engine);
        cellar_session* session = nullptr;
        ASSERT_EQ(cellar_session_open(engine, nullptr, &session, &error_), CELLAR_OK) << error_.message;
        session_.reset(session);
        cellar_generate_options_init(&options_);
    }

    Handle<cellar_answer> say(cellar_session* session, const char* text) {
        cellar_answer* answer = nullptr;
        EXPECT_EQ(cellar_say(session, text, &options_, &answer, &error_), CELLAR_OK) << error_.message;
        return Handle<cellar_answer>(answer);
    }
    void expect_refused(cellar_code code, cellar_code expected, const char* word) const {
        EXPECT_EQ(code, expected) << error_.message;
        EXPECT_EQ(error_.code, expected);
        EXPECT_NE(std::strstr(error_.message, word), nullptr) << word << " is not in: " << error_.message;
    }

    cellar_error error_{};
    Handle<cellar_model> model_;
    Handle<cellar_engine> engine_;
    Handle<cellar_session> session_;
    cellar_generate_options options_{};
};

std::string text_of(const Handle<cellar_answer>& answer) {
    return cellar_answer_text(answer.get(), nullptr);
}

cellar_answer_info info_of(const Handle<cellar_answer>& answer) {
    cellar_answer_info info;
    cellar_answer_get_info(answer.get(), &info);
    return info;
}

TEST_F(LibraryC, VersionsAndDefaults) {
    EXPECT_EQ(cellar_abi_version(), static_cast<uint32_t>(CELLAR_ABI_VERSION));
    EXPECT_STREQ(cellar_version(), CELLAR_VERSION);
    cellar_model_info info;
    ASSERT_EQ(cellar_model_get_info(model_.get(), &info, nullptr), CELLAR_OK);
    EXPECT_EQ(info.path, kModel);
    EXPECT_STREQ(info.architecture, "llama");
    EXPECT_EQ(info.has_text, 1);
    EXPECT_EQ(info.has_template, 1);
    EXPECT_GE(info.eos, 0);
    cellar_memory memory;
    ASSERT_EQ(cellar_model_estimate(model_.get(), nullptr, &memory, &error_), CELLAR_OK);
    EXPECT_EQ(memory.context, info.trained_context);
    EXPECT_EQ(memory.total_bytes, memory.cache_bytes + memory.weight_bytes + memory.transient_bytes);
    EXPECT_EQ(memory.fits, 1);
}

TEST_F(LibraryC, AChat) {
    std::string streamed;
    options_.user = &streamed;
    options_.on_text = [](const char* text, size_t length, void* user) {
        static_cast<std::string*>(user)->append(text, length);
        return 1;
    };
    const auto first = say(session_.get(), "My name is Ada.");
    EXPECT_EQ(streamed, text_of(first));
    EXPECT_EQ(error_.code, CELLAR_OK);
    EXPECT_STREQ(error_.message, "");
    const auto second = say(session_.get(), "What is my name?");
    EXPECT_EQ(text_of(second), "Your name is Ada.");
    size_t count = 0;
    const int32_t* tokens = cellar_answer_tokens(second.get(), &count);
    ASSERT_GT(count, 0U);
    EXPECT_GE(tokens[count - 1], 0);
    const cellar_answer_info info = info_of(second);
    EXPECT_EQ(info.stop, 0);
    EXPECT_EQ(info.reuse, 3);
    EXPECT_EQ(info.pure, 1);
    EXPECT_EQ(info.prompt_tokens, info.prompt - info.reused);
    EXPECT_GT(info.reused, info_of(first).prompt);
    EXPECT_GT(info.prompt_seconds, 0.0);

    cellar_answer* answer = nullptr;
    ASSERT_EQ(cellar_again(session_.get(), nullptr, &answer, &error_), CELLAR_OK) << error_.message;
    EXPECT_EQ(text_of(Handle<cellar_answer>(answer)), "Your name is Ada.");
    int undone = 0;
    ASSERT_EQ(cellar_undo(session_.get(), &undone, &error_), CELLAR_OK);
    EXPECT_EQ(undone, 1);

    const cellar_message messages[] = {{"user", "I live in Oslo."}, {"assistant", "Okay."}, {"user", "Where do I live?"}};
    ASSERT_EQ(cellar_chat(session_.get(), messages, 3, nullptr, &answer, &error_), CELLAR_OK) << error_.message;
    EXPECT_NE(text_of(Handle<cellar_answer>(answer)).find("Oslo"), std::string::npos);
}

TEST_F(LibraryC, ReceiptsSayWhereTheReuseCameFrom) {
    say(session_.get(), "My name is Ada.");
    const auto again = say(session_.get(), "What is my name?");
    cellar_receipt receipt;
    receipt.size = sizeof receipt;
    ASSERT_EQ(cellar_answer_get_receipt(again.get(), &receipt, &error_), CELLAR_OK) << error_.message;
    EXPECT_EQ(receipt.size, sizeof receipt);
    EXPECT_EQ(receipt.source, 1);
    EXPECT_EQ(receipt.reuse, 3);
    EXPECT_EQ(receipt.first_difference, -1);
    EXPECT_EQ(receipt.pure, 1);
    EXPECT_EQ(receipt.forgotten_tokens, 0);

    cellar_session* opened = nullptr;
    cellar_session_options options;
    cellar_session_options_init(&options);
    options.overflow = 1;
    ASSERT_EQ(cellar_session_open(engine_.get(), &options, &opened, &error_), CELLAR_OK) << error_.message;
    const auto other = say(opened, "My name is Bo.");
    ASSERT_EQ(cellar_answer_get_receipt(other.get(), &receipt, &error_), CELLAR_OK) << error_.message;
    EXPECT_EQ(receipt.source, 2);
    EXPECT_EQ(receipt.reuse, 2);
    EXPECT_EQ(receipt.first_difference, receipt.reused);
    EXPECT_NE(receipt.cached_token, receipt.wanted_token);
    EXPECT_NE(std::string(receipt.before).find("is"), std::string::npos) << receipt.before;
    EXPECT_NE(std::string(receipt.cached).find("Ada"), std::string::npos) << receipt.cached;
    EXPECT_NE(std::string(receipt.wanted).find("Bo"), std::string::npos) << receipt.wanted;
    EXPECT_NE(std::string(receipt.explanation).find("kept prefix"), std::string::npos) << receipt.explanation;
    cellar_session_close(opened);

    // A program that knows less of it gets less.
    cellar_receipt old;
    std::memset(&old, 0x55, sizeof old);
    old.size = offsetof(cellar_receipt, forgotten_turns);
    const cellar_receipt before = old;
    ASSERT_EQ(cellar_answer_get_receipt(other.get(), &old, &error_), CELLAR_OK);
    EXPECT_EQ(old.prompt, receipt.prompt);
    EXPECT_EQ(old.forgotten_turns, before.forgotten_turns);
    old.size = 0;
    EXPECT_EQ(cellar_answer_get_receipt(other.get(), &old, &error_), CELLAR_INPUT);
    options.overflow = 4;
    EXPECT_EQ(cellar_session_open(engine_.get(), &options, &opened, &error_), CELLAR_INPUT);
    cellar_engine_options engine_options;
    cellar_engine_options_init(&engine_options);
    engine_options.kv_budget = "lots";
    cellar_engine* made = nullptr;
    EXPECT_EQ(cellar_engine_make(model_.get(), &engine_options, &made, &error_), CELLAR_INPUT);
}

TEST_F(LibraryC, TokensForkAndTrim) {
    const std::string text = "The code for the red door is 4821.";
    size_t count = 0;
    ASSERT_EQ(cellar_encode(model_.get(), text.data(), text.size(), 0, 0, nullptr, 0, &count, &error_), CELLAR_OK);
    ASSERT_GT(count, 3U);
    std::vector<int32_t> ids(count + 1, -9);
    ASSERT_EQ(cellar_encode(model_.get(), text.data(), text.size(), 0, 0, ids.data(), count - 1, &count, &error_), CELLAR_OK);
    EXPECT_EQ(ids[count - 1], -9);  // capacity is kept
    ASSERT_EQ(cellar_encode(model_.get(), text.data(), text.size(), 0, 0, ids.data(), ids.size(), &count, &error_), CELLAR_OK);
    EXPECT_EQ(ids[count], -9);
    ids.resize(count);
    std::string back(100, '#');
    ASSERT_EQ(cellar_decode(model_.get(), ids.data(), ids.size(), 0, back.data(), back.size(), &count, &error_), CELLAR_OK);
    EXPECT_EQ(back.substr(0, count), text);
    EXPECT_EQ(back[count], '#');

    cellar_model_info info;
    ASSERT_EQ(cellar_model_get_info(model_.get(), &info, &error_), CELLAR_OK);
    std::vector<float> logits(static_cast<size_t>(info.vocabulary));
    ASSERT_EQ(cellar_append(session_.get(), ids.data(), ids.size(), logits.data(), &error_), CELLAR_OK) << error_.message;
    EXPECT_EQ(cellar_length(session_.get()), static_cast<int64_t>(ids.size()));
    cellar_session* raw = nullptr;
    ASSERT_EQ(cellar_fork(session_.get(), 4, &raw, &error_), CELLAR_OK) << error_.message;
    const Handle<cellar_session> fork(raw);
    EXPECT_EQ(cellar_length(fork.get()), 4);
    std::vector<float> again(logits.size());
    ASSERT_EQ(cellar_append(fork.get(), ids.data() + 4, ids.size() - 4, again.data(), &error_), CELLAR_OK);
    EXPECT_EQ(again, logits);
    std::vector<int32_t> log(ids.size());
    ASSERT_EQ(cellar_tokens(fork.get(), log.data(), log.size(), &count, &error_), CELLAR_OK);
    EXPECT_EQ(log, ids);
    cellar_stats stats;
    ASSERT_EQ(cellar_engine_get_stats(engine_.get(), &stats, &error_), CELLAR_OK);
    EXPECT_EQ(stats.open_sessions, 2);
    EXPECT_EQ(stats.threads, 2);
    EXPECT_GT(stats.blocks_shared, 0);
    int64_t reached = -1;
    ASSERT_EQ(cellar_trim(session_.get(), 2, &reached, &error_), CELLAR_OK);
    EXPECT_EQ(reached, 2);
    cellar_answer* answer = nullptr;
    options_.max_tokens = 3;
    options_.ignore_end = 1;
    ASSERT_EQ(cellar_generate_tokens(session_.get(), ids.data(), ids.size(), &options_, &answer, &error_), CELLAR_OK) << error_.message;
    EXPECT_EQ(info_of(Handle<cellar_answer>(answer)).reused, 2);
}

TEST_F(LibraryC, StopsAndCancels) {
    const char* const stops[] = {"name"};
    options_.stops = stops;
    options_.stops_count = 1;
    say(session_.get(), "My name is Ada.");
    const auto stopped = say(session_.get(), "What is my name?");
    EXPECT_EQ(info_of(stopped).stop, 1);
    EXPECT_EQ(text_of(stopped), "Your ");
    const Handle<cellar_cancel> cancel(cellar_cancel_make());
    options_.cancel = cancel.get();
    cellar_cancel_set(cancel.get(), 1);
    cellar_answer* answer = nullptr;
    expect_refused(cellar_say(session_.get(), "I live in Oslo.", &options_, &answer, &error_), CELLAR_CANCELLED, "cancelled");
    EXPECT_EQ(answer, nullptr);
    cellar_cancel_set(cancel.get(), 0);
    options_.user = cancel.get();
    options_.on_text = [](const char*, size_t, void* user) {
        cellar_cancel_set(static_cast<cellar_cancel*>(user), 1);
        return 1;
    };
    EXPECT_EQ(info_of(say(session_.get(), "I live in Oslo.")).stop, 4);
}

TEST_F(LibraryC, RefusesByNumberAndWord) {
    cellar_model* model = reinterpret_cast<cellar_model*>(&error_);
    expect_refused(cellar_model_open("/nowhere/none.gguf", nullptr, &model, &error_), CELLAR_INPUT, "none.gguf");
    EXPECT_EQ(model, nullptr);
    EXPECT_EQ(cellar_model_open("/nowhere/none.gguf", nullptr, &model, nullptr), CELLAR_INPUT);
    cellar_engine_options options;
    cellar_engine_options_init(&options);
    options.cache_type_k = "q9";
    cellar_engine* engine = nullptr;
    expect_refused(cellar_engine_make(model_.get(), &options, &engine, &error_), CELLAR_INPUT, "q9");
    cellar_memory memory;
    expect_refused(cellar_model_estimate(model_.get(), &options, &memory, &error_), CELLAR_INPUT, "q9");
    options.size = 0;
    expect_refused(cellar_engine_make(model_.get(), &options, &engine, &error_), CELLAR_INPUT, "cellar_engine_options_init");
    // A program that was built when options ended earlier.
    options.size = offsetof(cellar_engine_options, cache_type);
    options.context = 100;
    EXPECT_EQ(cellar_engine_make(model_.get(), &options, &engine, &error_), CELLAR_OK) << error_.message;
    cellar_engine_close(engine);
    cellar_session* session = nullptr;
    // The options of sessions as they were first: a program that knows no more leaves anything in what pads them.
    struct {
        size_t size;
        const char *system, *chat_template;
        int32_t thinking;
    } first;
    std::memset(&first, 0x55, sizeof first);
    first.size = sizeof first;
    first.system = first.chat_template = nullptr;
    first.thinking = -1;
    const auto* as_known = reinterpret_cast<const cellar_session_options*>(&first);
    EXPECT_EQ(cellar_session_open(engine_.get(), as_known, &session, &error_), CELLAR_OK) << error_.message;
    cellar_session_close(session);
    cellar_session_options session_options;
    cellar_session_options_init(&session_options);
    session_options.thinking = 2;
    expect_refused(cellar_session_open(engine_.get(), &session_options, &session, &error_), CELLAR_INPUT, "thinking");
    const std::vector<int32_t> many(600, 5);
    cellar_answer* answer = nullptr;
    expect_refused(cellar_generate_tokens(session_.get(), many.data(), many.size(), nullptr, &answer, &error_), CELLAR_FULL, "600");
    options_.temperature = -1.0F;
    expect_refused(cellar_say(session_.get(), "x", &options_, &answer, &error_), CELLAR_INPUT, "temperature");
}

// A program that was built against a header with shorter options: what lies behind them is its own.
template <class Options>
void expect_init_keeps_within(void (*init)(Options*, size_t), size_t known) {
    Options whole;
    init(&whole, sizeof whole);
    EXPECT_EQ(whole.size, sizeof whole);
    for (const size_t size : {size_t{0}, sizeof(size_t) - 1, sizeof(size_t), known, sizeof(Options), sizeof(Options) + 40}) {
        std::vector<unsigned char> place(sizeof(Options) + 64, 0x55);
        auto* options = reinterpret_cast<Options*>(place.data());
        init(options, size);
        const size_t written = size < sizeof(size_t) ? 0 : std::min(size, sizeof(Options));
        if (written > 0) {
            EXPECT_EQ(options->size, written);
            EXPECT_EQ(std::memcmp(place.data() + sizeof(size_t), reinterpret_cast<unsigned char*>(&whole) + sizeof(size_t), written - sizeof(size_t)),
                      0);
        }
        for (size_t i = written; i < place.size(); ++i) ASSERT_EQ(place[i], 0x55) << i << " of " << size;
    }
    init(nullptr, sizeof whole);
}

TEST_F(LibraryC, AnOlderProgramsOptionsAreNotOverrun) {
    expect_init_keeps_within(cellar_model_options_init_sized, offsetof(cellar_model_options, threads));
    expect_init_keeps_within(cellar_engine_options_init_sized, offsetof(cellar_engine_options, kv_budget));
    expect_init_keeps_within(cellar_session_options_init_sized, offsetof(cellar_session_options, overflow));
    expect_init_keeps_within(cellar_generate_options_init_sized, offsetof(cellar_generate_options, cancel));
    // What it was given it may hand in.
    std::vector<unsigned char> place(offsetof(cellar_engine_options, kv_budget));
    auto* options = reinterpret_cast<cellar_engine_options*>(place.data());
    cellar_engine_options_init_sized(options, place.size());
    options->context = 64;
    cellar_engine* engine = nullptr;
    EXPECT_EQ(cellar_engine_make(model_.get(), options, &engine, &error_), CELLAR_OK) << error_.message;
    cellar_engine_close(engine);
}

TEST_F(LibraryC, MessagesAreCutAtWholeCharacters) {
    std::string path = "/";
    while (path.size() < 3000) path += "\xE2\x82\xAC";
    cellar_model* model = nullptr;
    for (int shift = 0; shift < 3; ++shift) {
        path.insert(0, "/");
        EXPECT_NE(cellar_model_open(path.c_str(), nullptr, &model, &error_), CELLAR_OK);
        const std::string message = error_.message;
        ASSERT_GT(message.size(), sizeof error_.message - 4);
        EXPECT_EQ(message.substr(message.size() - 3), "\xE2\x82\xAC");
    }
}

TEST_F(LibraryC, NullIsAnErrorAndNoCrash) {
    cellar_model* model = nullptr;
    cellar_engine* engine = nullptr;
    cellar_session* session = nullptr;
    cellar_answer* answer = nullptr;
    size_t count = 0;
    cellar_session* const s = session_.get();
    expect_refused(cellar_model_open(nullptr, nullptr, &model, &error_), CELLAR_INPUT, "path is NULL");
    expect_refused(cellar_model_open("x", nullptr, nullptr, &error_), CELLAR_INPUT, "out is NULL");
    expect_refused(cellar_model_get_info(nullptr, nullptr, &error_), CELLAR_INPUT, "model is NULL");
    expect_refused(cellar_model_get_info(model_.get(), nullptr, &error_), CELLAR_INPUT, "out is NULL");
    expect_refused(cellar_model_estimate(nullptr, nullptr, nullptr, &error_), CELLAR_INPUT, "model is NULL");
    expect_refused(cellar_encode(nullptr, "x", 1, 0, 0, nullptr, 0, &count, &error_), CELLAR_INPUT, "model is NULL");
    expect_refused(cellar_encode(model_.get(), nullptr, 1, 0, 0, nullptr, 0, &count, &error_), CELLAR_INPUT, "text is NULL");
    expect_refused(cellar_encode(model_.get(), "x", 1, 0, 0, nullptr, 5, &count, &error_), CELLAR_INPUT, "out is NULL");
    expect_refused(cellar_encode(model_.get(), "x", 1, 0, 0, nullptr, 0, nullptr, &error_), CELLAR_INPUT, "count is NULL");
    expect_refused(cellar_decode(model_.get(), nullptr, 1, 0, nullptr, 0, &count, &error_), CELLAR_INPUT, "ids is NULL");
    expect_refused(cellar_engine_make(nullptr, nullptr, &engine, &error_), CELLAR_INPUT, "model is NULL");
    expect_refused(cellar_engine_get_stats(nullptr, nullptr, &error_), CELLAR_INPUT, "engine is NULL");
    expect_refused(cellar_session_open(nullptr, nullptr, &session, &error_), CELLAR_INPUT, "engine is NULL");
    expect_refused(cellar_say(nullptr, "x", nullptr, &answer, &error_), CELLAR_INPUT, "session is NULL");
    expect_refused(cellar_say(s, nullptr, nullptr, &answer, &error_), CELLAR_INPUT, "text is NULL");
    expect_refused(cellar_say(s, "x", nullptr, nullptr, &error_), CELLAR_INPUT, "out is NULL");
    expect_refused(cellar_chat(s, nullptr, 1, nullptr, &answer, &error_), CELLAR_INPUT, "messages is NULL");
    const cellar_message half{"user", nullptr};
    expect_refused(cellar_chat(s, &half, 1, nullptr, &answer, &error_), CELLAR_INPUT, "content is NULL");
    expect_refused(cellar_generate(s, nullptr, nullptr, &answer, &error_), CELLAR_INPUT, "text is NULL");
    expect_refused(cellar_generate_tokens(s, nullptr, 1, nullptr, &answer, &error_), CELLAR_INPUT, "prompt is NULL");
    expect_refused(cellar_append(s, nullptr, 1, nullptr, &error_), CELLAR_INPUT, "ids is NULL");
    expect_refused(cellar_tokens(nullptr, nullptr, 0, &count, &error_), CELLAR_INPUT, "session is NULL");
    expect_refused(cellar_fork(nullptr, 0, &session, &error_), CELLAR_INPUT, "session is NULL");
    expect_refused(cellar_trim(nullptr, 0, nullptr, &error_), CELLAR_INPUT, "session is NULL");
    expect_refused(cellar_undo(nullptr, nullptr, &error_), CELLAR_INPUT, "session is NULL");
    options_.stops_count = 1;
    expect_refused(cellar_say(s, "x", &options_, &answer, &error_), CELLAR_INPUT, "stops is NULL");
    EXPECT_EQ(cellar_length(nullptr), 0);
    EXPECT_STREQ(cellar_answer_text(nullptr, &count), "");
    EXPECT_EQ(cellar_answer_tokens(nullptr, &count), nullptr);
    EXPECT_EQ(count, 0U);
    cellar_answer_get_info(nullptr, nullptr);
    cellar_cancel_set(nullptr, 1);
    cellar_answer_free(nullptr);
    cellar_session_close(nullptr);
    cellar_engine_close(nullptr);
    cellar_model_close(nullptr);
    cellar_cancel_free(nullptr);
}

TEST_F(LibraryC, HandlesMayGoInAnyOrder) {
    engine_.reset();
    model_.reset();
    say(session_.get(), "My name is Ada.");
    EXPECT_EQ(text_of(say(session_.get(), "What is my name?")), "Your name is Ada.");
}

}  // namespace
