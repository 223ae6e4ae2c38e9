// Sessions survive: what was saved comes back with the same bits, and a crash or a damaged file never costs what was there before.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/file.h"
#include "engine/session.h"
#include "kv/verify.h"
#include "support/engine_case.h"
#include "support/numbers.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

#ifdef CELLAR_REDUCED_TESTS
constexpr int kMutations = 300;
constexpr int kKills = 20;
#else
constexpr int kMutations = 10000;
constexpr int kKills = 200;
#endif

// In memory, where a sync costs nothing.
std::string scratch_folder() {
    return std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : CELLAR_BINARY_DIR;
}

std::string fresh_path(const std::string& name) {
    const std::string path = scratch_folder() + "/cellar-session-" + name + "-" + std::to_string(getpid());
    std::filesystem::remove(path);
    return path;
}

std::string bytes_of(const std::string& path) {
    return *read_file(path, size_t{1} << 28);
}

std::unique_ptr<Session> open(const std::string& path, Engine& engine) {
    auto session = Session::open(path, engine);
    EXPECT_TRUE(session) << session.error().message;
    return session ? *std::move(session) : nullptr;
}

std::vector<float> next_logits(Engine& engine, SeqId seq, const std::vector<int32_t>& ids) {
    const auto logits = engine.append(seq, ids);
    EXPECT_TRUE(logits) << logits.error().message;
    return logits ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
}

class Sessions : public EngineCases {
  protected:
    void SetUp() override {
        EngineCases::SetUp();
        path_ = fresh_path(GetParam().recipe);
    }
    void TearDown() override { std::filesystem::remove(path_); }
    SeqId read(Engine& engine, size_t n) { return EngineCases::read(engine, std::span(ids_).first(n)); }
    // A fresh engine that may differ in what should not matter.
    std::unique_ptr<Engine> other_engine() {
        EngineOptions options = options_;
        options.context = 700;
        options.cells = 4096;
        options.threads = 1;
        options.chunk = 64;
        return tiny::engine(model_, options);
    }

    std::string path_;
};

TEST_P(Sessions, WhatIsSavedComesBackWithTheSameBits) {
    const SeqId seq = read(*engine_, 200);
    {
        auto session = open(path_, *engine_);
        EXPECT_TRUE(session->branches().empty());
        const Session::Source source{"main", seq, "host text"};
        const auto saved = session->save({&source, 1});
        ASSERT_TRUE(saved) << saved.error().message;
        EXPECT_EQ(saved->tokens_written, 200);
    }
    auto engine = other_engine();
    auto session = open(path_, *engine);
    ASSERT_EQ(session->branches().size(), 1U);
    EXPECT_EQ(session->branches()[0].host, "host text");
    const SeqId again = *engine->cache().open();
    const auto restored = session->restore("main", again);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(restored->length, 200);
    EXPECT_FALSE(restored->coloured());
    EXPECT_EQ(engine->cache().pure(again), 200);
    EXPECT_EQ(kv::verify(engine->cache()), "");
    const std::vector<int32_t> next{1, 2, 3};
    EXPECT_TRUE(same_bits(next_logits(*engine, again, next), next_logits(*engine_, seq, next)));
}

TEST_P(Sessions, ASecondSaveWritesOnlyWhatIsNew) {
    auto session = open(path_, *engine_);
    const SeqId seq = read(*engine_, 150);
    Session::Source source{"main", seq, ""};
    ASSERT_TRUE(session->save({&source, 1}));
    ASSERT_TRUE(engine_->append(seq, std::span<const int32_t>(ids_).subspan(150, 20)));
    auto saved = session->save({&source, 1});
    ASSERT_TRUE(saved);
    EXPECT_EQ(saved->tokens_written, 20);
    saved = session->save({&source, 1});
    ASSERT_TRUE(saved);
    EXPECT_EQ(saved->tokens_written, 0);
    // Undo and go on differently.
    const int32_t at = engine_->cache().trim(seq, 160);
    ASSERT_TRUE(engine_->append(seq, tiny::tokens(*model_, 30, 5)));
    saved = session->save({&source, 1});
    ASSERT_TRUE(saved);
    EXPECT_LE(saved->tokens_written, 30 + 170 - at);
    const std::vector<float> expected = next_logits(*engine_, seq, {7});
    session.reset();
    auto engine = other_engine();
    session = open(path_, *engine);
    const SeqId again = *engine->cache().open();
    ASSERT_TRUE(session->restore("main", again));
    EXPECT_TRUE(same_bits(next_logits(*engine, again, {7}), expected));
}

TEST_P(Sessions, BranchesShareWhatTheyHaveInCommon) {
    auto session = open(path_, *engine_);
    const SeqId first = read(*engine_, 180);
    const auto fork = engine_->cache().fork(first, 120);
    ASSERT_TRUE(fork);
    const int32_t at = engine_->cache().length(*fork);
    ASSERT_TRUE(engine_->append(*fork, tiny::tokens(*model_, 25, 9)));
    const std::vector<Session::Source> sources{{"one", first, "1"}, {"two", *fork, "2"}};
    const auto saved = session->save(sources);
    ASSERT_TRUE(saved) << saved.error().message;
    const bool keeps_all = engine_->cache().spec().groups[0].keep == kv::Keep::all();
    EXPECT_LE(saved->tokens_written, keeps_all ? 180 + 25 + 120 - at : 400);
    const std::vector<float> expected_one = next_logits(*engine_, first, {7});
    const std::vector<float> expected_two = next_logits(*engine_, *fork, {7});
    session.reset();
    auto engine = other_engine();
    session = open(path_, *engine);
    const SeqId one = *engine->cache().open();
    const SeqId two = *engine->cache().open();
    ASSERT_TRUE(session->restore("one", one));
    ASSERT_TRUE(session->restore("two", two));
    EXPECT_TRUE(same_bits(next_logits(*engine, one, {7}), expected_one));
    EXPECT_TRUE(same_bits(next_logits(*engine, two, {7}), expected_two));
    // A branch that is not open stays as it is.
    const std::vector<Session::Source> kept{{"one", std::nullopt, ""}, {"two", two, "changed"}};
    ASSERT_TRUE(session->save(kept));
    EXPECT_EQ(session->find("one")->host, "1");
    EXPECT_EQ(session->find("two")->host, "changed");
}

TEST_P(Sessions, GapsAndTurnsComeBack) {
    auto session = open(path_, *engine_);
    const SeqId seq = read(*engine_, 200);
    engine_->cache().remove(seq, {180, 190});
    const bool shifted = engine_->cache().remove_and_shift(seq, {100, 130}).has_value();
    EXPECT_EQ(kv::verify(engine_->cache()), "");
    const Session::Source source{"main", seq, ""};
    ASSERT_TRUE(session->save({&source, 1}));
    session.reset();
    auto engine = other_engine();
    session = open(path_, *engine);
    const SeqId again = *engine->cache().open();
    const auto restored = session->restore("main", again);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(restored->length, shifted ? 170 : 200);
    EXPECT_EQ(engine->cache().pure(again), engine_->cache().pure(seq));
    EXPECT_EQ(kv::verify(engine->cache()), "");
    EXPECT_TRUE(same_bits(next_logits(*engine, again, {4, 5}), next_logits(*engine_, seq, {4, 5})));
}

TEST_P(Sessions, AnotherFormatIsConvertedAndSaidSo) {
    const SeqId seq = read(*engine_, 100);
    {
        auto session = open(path_, *engine_);
        const Session::Source source{"main", seq, ""};
        ASSERT_TRUE(session->save({&source, 1}));
    }
    for (const kv::RowFormat format : {kv::RowFormat::F32, kv::RowFormat::F16, kv::RowFormat::BF16, kv::RowFormat::Q8_0}) {
        EngineOptions options = options_;
        options.formats = {format, format};
        auto engine = tiny::engine(model_, options);
        auto session = open(path_, *engine);
        const SeqId again = *engine->cache().open();
        const auto restored = session->restore("main", again);
        ASSERT_TRUE(restored) << restored.error().message;
        EXPECT_EQ(restored->converted, format != GetParam().format);
        EXPECT_EQ(engine->cache().pure(again), format == GetParam().format ? 100 : 0);
        const std::vector<float> got = next_logits(*engine, again, {7});
        for (const float x : got) ASSERT_TRUE(std::isfinite(x));
    }
}

TEST_P(Sessions, TheFileIsAsSmallAsItsRows) {
    const SeqId seq = read(*engine_, 250);
    auto session = open(path_, *engine_);
    const Session::Source source{"main", seq, ""};
    ASSERT_TRUE(session->save({&source, 1}));
    uint64_t rows = 0;
    for (size_t g = 0; g < engine_->cache().spec().groups.size(); ++g)
        for (const kv::Run& run : engine_->cache().runs(seq, static_cast<int>(g)))
            rows += static_cast<uint64_t>(run.len) * engine_->cache().spec().groups[g].cell_bytes();
    EXPECT_LE(std::filesystem::file_size(path_), rows + rows / 50 + 65536);
    struct stat info {};
    ASSERT_EQ(stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_P(Sessions, AFileThatChangesALotIsWrittenAnew) {
    auto session = open(path_, *engine_);
    const SeqId seq = read(*engine_, 250);
    const Session::Source source{"main", seq, ""};
    ASSERT_TRUE(session->save({&source, 1}));
    const uint64_t once = std::filesystem::file_size(path_);
    bool rewritten = false;
    for (int i = 0; i < 30; ++i) {
        engine_->cache().trim(seq, 5);
        const int32_t at = engine_->cache().length(seq);
        ASSERT_TRUE(engine_->append(seq, tiny::tokens(*model_, static_cast<size_t>(250 - at), static_cast<uint64_t>(i) + 50)));
        const auto saved = session->save({&source, 1});
        ASSERT_TRUE(saved) << saved.error().message;
        rewritten = rewritten || saved->rewritten;
        EXPECT_LE(std::filesystem::file_size(path_), once + once * 15 / 100 + 2 * 65536);
    }
    EXPECT_TRUE(rewritten || once < 65536);
    session.reset();
    session = open(path_, *engine_);
    const SeqId again = *engine_->cache().open();
    ASSERT_TRUE(session->restore("main", again));
    EXPECT_TRUE(same_bits(next_logits(*engine_, again, {7}), next_logits(*engine_, seq, {7})));
}

INSTANTIATE_TEST_SUITE_P(Models, Sessions,
                         testing::Values(EngineCase{"llama", kv::RowFormat::F16}, EngineCase{"llama", kv::RowFormat::F32},
                                         EngineCase{"qwen3-hd80", kv::RowFormat::Q8_0}, EngineCase{"qwen3", kv::RowFormat::BF16},
                                         EngineCase{"olmo2", kv::RowFormat::F16}, EngineCase{"smollm3", kv::RowFormat::Q8_0}),
                         EngineCase::name);

class Safety : public testing::Test {
  protected:
    void SetUp() override {
        model_ = tiny::model("llama");
        options_ = tiny::options();
        options_.context = 256;
        options_.cells = 1024;
        engine_ = tiny::engine(model_, options_);
        seq_ = *engine_->cache().open();
        EXPECT_TRUE(engine_->append(seq_, tiny::tokens(*model_, 60)));
        path_ = fresh_path("safety");
    }
    void TearDown() override {
        for (const auto& entry : std::filesystem::directory_iterator(scratch_folder()))
            if (entry.path().string().starts_with(path_)) std::filesystem::remove(entry.path());
    }
    Session::Source source(const std::string& host) { return {"main", seq_, host}; }
    void save(Session& session, const std::string& host) {
        const Session::Source s = source(host);
        const auto saved = session.save({&s, 1});
        ASSERT_TRUE(saved) << saved.error().message;
    }
    // What a fresh look at the file finds: the host text of its branch, or the error.
    std::string look() {
        auto session = Session::open(path_, *engine_);
        if (!session) return "error: " + session.error().message;
        if ((*session)->branches().empty()) return "nothing";
        const SeqId seq = *engine_->cache().open();
        const auto restored = (*session)->restore("main", seq);
        engine_->cache().close(seq);
        return restored ? (*session)->find("main")->host : "error: " + restored.error().message;
    }

    std::shared_ptr<const model::Model> model_;
    EngineOptions options_;
    std::unique_ptr<Engine> engine_;
    SeqId seq_{};
    std::string path_;
};

// Every write and every sync fails once, in every way: the state is the old one or the new one.
TEST_F(Safety, EachFailingCallLeavesOldOrNew) {
    save(*open(path_, *engine_), "old");
    const std::string before = bytes_of(path_);
    int calls = 0;
    {
        auto session = open(path_, *engine_);
        session->file().set_fault_hook([&](size_t) { return ++calls, Fault{}; });
        ASSERT_TRUE(engine_->append(seq_, std::vector<int32_t>{1, 2, 3}));
        save(*session, "new");
    }
    ASSERT_GT(calls, 5);
    for (const int error : {ENOSPC, EIO}) {
        for (const size_t allowed : {size_t{0}, size_t{13}, SIZE_MAX}) {
            for (int failing = 1; failing <= calls; ++failing) {
                std::ofstream(path_, std::ios::binary) << before;
                int call = 0;
                auto session = open(path_, *engine_);
                ASSERT_NE(session, nullptr);
                session->file().set_fault_hook([&](size_t) { return ++call == failing ? Fault{allowed, error} : Fault{}; });
                const Session::Source s = source("new");
                const bool saved = session->save({&s, 1}).has_value();
                session->file().set_fault_hook({});
                EXPECT_FALSE(saved);
                // A save that failed can be tried again, and one that is not leaves the old state or the new one.
                if (failing % 3 == 0) {
                    save(*session, "again");
                    session.reset();
                    EXPECT_EQ(look(), "again");
                } else {
                    session.reset();
                    const std::string found = look();
                    EXPECT_TRUE(found == "old" || found == "new") << found << " after call " << failing;
                }
            }
        }
    }
}

TEST_F(Safety, AFirstSaveThatFailsLeavesNoFile) {
    for (int failing = 1;; ++failing) {
        auto session = open(path_, *engine_);
        int call = 0;
        session->file().set_fault_hook([&](size_t) { return ++call == failing ? Fault{0, ENOSPC} : Fault{}; });
        const Session::Source s = source("new");
        const auto saved = session->save({&s, 1});
        if (saved) {
            EXPECT_EQ(call, failing - 1);
            EXPECT_GT(failing, 12) << "each section is two writes, and a commit two syncs and a map";
            break;
        }
        EXPECT_EQ(saved.error().kind, ErrorKind::Full);
        session.reset();
        for (const auto& entry : std::filesystem::directory_iterator(scratch_folder()))
            EXPECT_FALSE(entry.path().string().starts_with(path_)) << entry.path();
    }
}

// The process dies at a random instant of a save: in the middle of a write or before a sync, or whenever a clock says so.
TEST_F(Safety, AKillAtAnyInstantLeavesOldOrNew) {
    save(*open(path_, *engine_), "0");
    std::mt19937 random(7);
    int old_ones = 0;
    int new_ones = 0;
    for (int round = 1; round <= kKills; ++round) {
        const std::string former = look();
        ASSERT_FALSE(former.starts_with("error")) << former;
        const bool by_clock = round % 2 == 0;
        const auto last = static_cast<int>(random() % 14);
        const auto microseconds = static_cast<useconds_t>(random() % 2000);
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            auto session = Session::open(path_, *engine_);
            if (!session) _exit(1);
            int calls = 0;
            if (!by_clock) {
                (*session)->file().set_fault_hook([&](size_t bytes) {
                    if (calls++ == last) kill(getpid(), SIGKILL);
                    return Fault{calls == last ? bytes / 2 : SIZE_MAX, 0};
                });
            }
            const Session::Source s = source(std::to_string(round));
            (void)(*session)->save({&s, 1});
            _exit(0);
        }
        if (by_clock) {
            usleep(microseconds);
            kill(child, SIGKILL);
        }
        waitpid(child, nullptr, 0);
        const std::string found = look();
        EXPECT_TRUE(found == former || found == std::to_string(round)) << found << " after " << former;
        ++(found == former ? old_ones : new_ones);
    }
    // Instants that always lie on one side show nothing.
    EXPECT_GT(old_ones, kKills / 20);
    EXPECT_GT(new_ones, kKills / 20);
}

TEST_F(Safety, DamagedFilesAreRefusedOrEqual) {
    {
        auto session = open(path_, *engine_);
        save(*session, "old");
        ASSERT_TRUE(engine_->append(seq_, std::vector<int32_t>{1, 2, 3}));
        save(*session, "new");
    }
    const std::string good = bytes_of(path_);
    const std::vector<float> expected = next_logits(*engine_, seq_, {9});
    engine_->cache().trim(seq_, 63);
    std::mt19937 random(11);
    int refused = 0;
    for (int i = 0; i < kMutations; ++i) {
        std::string bad = good;
        switch (random() % 4) {
            case 0:
                bad.resize(random() % bad.size());
                break;
            case 1:
                bad[random() % bad.size()] ^= static_cast<char>(1 << (random() % 8));
                break;
            case 2:
                for (int k = 0; k < 8; ++k) bad[random() % bad.size()] = static_cast<char>(random());
                break;
            default:
                bad.insert(random() % bad.size(), std::string(1 + random() % 100, static_cast<char>(random())));
        }
        std::ofstream(path_, std::ios::binary) << bad;
        const std::string found = look();
        if (found.starts_with("error")) {
            ++refused;
            EXPECT_EQ(bytes_of(path_), bad) << "a file that could not be read was changed";
        } else {
            EXPECT_TRUE(found == "old" || found == "new") << found;
        }
    }
    EXPECT_GT(refused, kMutations / 10);
    // The cache that runs has not noticed anything.
    EXPECT_EQ(kv::verify(engine_->cache()), "");
    EXPECT_TRUE(same_bits(next_logits(*engine_, seq_, {9}), expected));
}

TEST_F(Safety, OtherModelsAreRefusedByName) {
    save(*open(path_, *engine_), "old");
    for (const char* recipe : {"qwen2", "granite", "llama-moe", "mixtral"}) {
        auto other = tiny::engine(tiny::model(recipe), options_);
        const auto session = Session::open(path_, *other);
        ASSERT_FALSE(session) << recipe;
        EXPECT_NE(session.error().message.find("another model"), std::string::npos) << session.error().message;
    }
}

TEST_F(Safety, AnOpenSessionIsLocked) {
    auto session = open(path_, *engine_);
    save(*session, "old");
    const auto second = Session::open(path_, *engine_);
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().message.find("another process"), std::string::npos) << second.error().message;
}

TEST_F(Safety, WhatIsNoSessionIsRefusedAndKept) {
    for (const std::string& text : {std::string("hello"), std::string(), std::string(5000, 'x')}) {
        std::ofstream(path_, std::ios::binary) << text;
        EXPECT_TRUE(look().starts_with("error")) << text;
        EXPECT_EQ(bytes_of(path_), text);
    }
}

TEST_F(Safety, ABranchLongerThanTheContextIsRefusedWithBothNumbers) {
    save(*open(path_, *engine_), "old");
    EngineOptions options = options_;
    options.context = 32;
    options.cells = 0;
    auto small = tiny::engine(model_, options);
    auto session = open(path_, *small);
    const SeqId seq = *small->cache().open();
    const auto restored = session->restore("main", seq);
    ASSERT_FALSE(restored);
    EXPECT_NE(restored.error().message.find("60"), std::string::npos);
    EXPECT_NE(restored.error().message.find("32"), std::string::npos);
}

}  // namespace
}  // namespace cellar
