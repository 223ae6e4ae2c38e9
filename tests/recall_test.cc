// The shipped model answers from its context alone, so facts show which rows are there: those that should be known after a fork, an undo or a
// kill are, and those that were taken out are not.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "engine/conversation.h"
#include "engine/session.h"
#include "kv/verify.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

class Recall : public testing::TestWithParam<kv::RowFormat> {
  protected:
    static std::unique_ptr<Engine> make_engine() {
        EngineOptions options = tiny::options(GetParam());
        options.context = 1024;
        options.cells = 4096;
        options.max_seqs = 8;
        return tiny::engine(tiny::shipped(), options);
    }
    static std::unique_ptr<Conversation> make_chat(Engine& engine) {
        auto made = Conversation::make(engine, {});
        EXPECT_TRUE(made) << made.error().message;
        return *std::move(made);
    }
    static std::string say(Conversation& chat, const std::string& text) {
        GenerateOptions options;
        options.max_tokens = 40;
        const auto answer = chat.say(text, options);
        EXPECT_TRUE(answer) << answer.error().message;
        return answer ? answer->text : "";
    }
    static bool knows(Conversation& chat, const std::string& question, const std::string& fact) {
        const std::string answer = say(chat, question);
        chat.undo();
        return answer.find(fact) != std::string::npos;
    }
};

TEST_P(Recall, AForkKnowsWhatWasSaidBeforeItAndNothingThatTheOtherSaidAfterwards) {
    auto engine = make_engine();
    auto chat = make_chat(*engine);
    say(*chat, "My name is Ada.");
    auto fork = chat->fork();
    ASSERT_TRUE(fork) << fork.error().message;
    say(*chat, "I live in Oslo.");
    say(**fork, "The code for the red door is 4821.");
    for (Conversation* one : {chat.get(), fork->get()}) EXPECT_TRUE(knows(*one, "What is my name?", "Ada"));
    EXPECT_TRUE(knows(*chat, "Where do I live?", "Oslo"));
    EXPECT_FALSE(knows(**fork, "Where do I live?", "Oslo"));
    EXPECT_TRUE(knows(**fork, "What is the code for the red door?", "4821"));
    EXPECT_FALSE(knows(*chat, "What is the code for the red door?", "4821"));
    EXPECT_EQ(kv::verify(engine->cache()), "");
}

TEST_P(Recall, WhatWasUndoneIsForgotten) {
    auto engine = make_engine();
    auto chat = make_chat(*engine);
    say(*chat, "My name is Ada.");
    say(*chat, "I live in Oslo.");
    EXPECT_TRUE(knows(*chat, "Where do I live?", "Oslo"));
    ASSERT_TRUE(chat->undo());
    EXPECT_FALSE(knows(*chat, "Where do I live?", "Oslo"));
    EXPECT_TRUE(knows(*chat, "What is my name?", "Ada"));
    // Another answer to the same question, over the same cells.
    say(*chat, "I live in Lima.");
    EXPECT_TRUE(knows(*chat, "Where do I live?", "Lima"));
    EXPECT_EQ(kv::verify(engine->cache()), "");
}

TEST_P(Recall, MovedAndCompactedRowsAreTheSameRows) {
    auto engine = make_engine();
    auto chat = make_chat(*engine);
    auto other = make_chat(*engine);
    // In turns, so that neither lies in one piece.
    say(*chat, "My name is Ada.");
    say(*other, "My name is Rafa.");
    say(*chat, "I live in Oslo.");
    say(*other, "I live in Lima.");
    other->clear();
    engine->cache().compact();
    EXPECT_TRUE(knows(*chat, "What is my name?", "Ada"));
    EXPECT_TRUE(knows(*chat, "Where do I live?", "Oslo"));
    EXPECT_FALSE(knows(*other, "What is my name?", "Rafa"));
    EXPECT_EQ(kv::verify(engine->cache()), "");
}

// Another process talks, saves after each turn, and is killed; this one goes on.
TEST_P(Recall, AChatSurvivesAKill) {
    const std::string path = std::string(CELLAR_BINARY_DIR) + "/recall-" + std::to_string(getpid()) + ".session";
    std::filesystem::remove(path);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto engine = make_engine();
        auto chat = make_chat(*engine);
        auto session = Session::open(path, *engine);
        if (!session) _exit(1);
        const auto save = [&] {
            const Session::Source source{"main", chat->seq(), chat->state()};
            if (!(*session)->save({&source, 1})) _exit(2);
        };
        say(*chat, "My name is Ada.");
        save();
        say(*chat, "The code for the red door is 4821.");
        save();
        say(*chat, "I live in Oslo.");  // never saved
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "exit code " << WEXITSTATUS(status);
    auto engine = make_engine();
    auto session = Session::open(path, *engine);
    ASSERT_TRUE(session) << session.error().message;
    const SeqId seq = *engine->cache().open();
    const auto restored = (*session)->restore("main", seq);
    ASSERT_TRUE(restored) << restored.error().message;
    auto chat = Conversation::make_on(*engine, {}, seq);
    ASSERT_TRUE(chat);
    ASSERT_TRUE((*chat)->resume(std::string((*session)->find("main")->host)));
    EXPECT_TRUE(knows(**chat, "What is my name?", "Ada"));
    EXPECT_TRUE(knows(**chat, "What is the code for the red door?", "4821"));
    EXPECT_FALSE(knows(**chat, "Where do I live?", "Oslo"));
    EXPECT_EQ(kv::verify(engine->cache()), "");
    std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Formats, Recall, testing::Values(kv::RowFormat::F32, kv::RowFormat::F16, kv::RowFormat::BF16, kv::RowFormat::Q8_0),
                         [](const auto& info) { return std::string(kv::name(info.param)); });

}  // namespace
}  // namespace cellar
