// What was restored from a session serves everybody: it is not read again by whoever says the same, from wherever.
#include <gtest/gtest.h>

#include "engine/conversation.h"
#include "kv/verify.h"
#include "support/session_files.h"

namespace cellar {
namespace {

class ResumedRows : public SessionFiles {
  protected:
    // How many tokens of a saved sequence of 60 another one that says the same reuses, on a new engine; while the first is open and when it is
    // closed.
    std::pair<int64_t, int64_t> reused_by_others(const EngineOptions& options) {
        const std::vector<int32_t> saved = tiny::tokens(*model_, 60);
        auto engine = tiny::engine(model_, options);
        auto session = open_with(*engine);
        const SeqId seq = *engine->cache().open();
        const auto restored = session->restore("main", seq);
        EXPECT_TRUE(restored);
        EXPECT_EQ(restored->length, 60);
        const auto reused = [&] {
            std::vector<int32_t> prompt = saved;
            prompt.push_back(3);
            GenerateOptions generation;
            generation.max_tokens = 1;
            const SeqId other = *engine->cache().open();
            const auto answer = generate(*engine, other, prompt, generation);
            EXPECT_TRUE(answer) << answer.error().message;
            engine->cache().trim(other, 0);
            engine->cache().close(other);
            EXPECT_EQ(kv::verify(engine->cache()), "");
            EXPECT_EQ(kv::verify(engine->index()), "");
            return answer ? answer->receipt.reused : -1;
        };
        std::pair<int64_t, int64_t> out;
        out.first = reused();
        engine->index().clear();
        engine->cache().close(seq);
        const SeqId again = *engine->cache().open();
        EXPECT_TRUE(session->restore("main", again));
        engine->cache().close(again);
        out.second = reused();
        return out;
    }

    // Begins a chat whose context holds a few turns; older ones are forgotten.
    std::unique_ptr<Conversation> begin_forgetful_chat() {
        model_ = tiny::shipped();
        options_.context = 160;
        options_.cells = 0;
        engine_ = tiny::engine(model_, options_);
        forgetful_.overflow = Overflow::DropTurns;
        short_answers_.max_tokens = 30;
        return *Conversation::make(*engine_, forgetful_);
    }
    ConversationOptions forgetful_;
    GenerateOptions short_answers_;
};

TEST_F(ResumedRows, ServeWhoeverSaysTheSame) {
    for (const char* recipe : {"llama", "olmo2"}) {  // olmo2 has windows
        model_ = tiny::model(recipe);
        engine_ = tiny::engine(model_, options_);
        seq_ = *engine_->cache().open();
        ASSERT_TRUE(engine_->append(seq_, tiny::tokens(*model_, 60)));
        std::filesystem::remove(path_);
        ASSERT_TRUE(save(*open(), ""));
        EXPECT_EQ(reused_by_others(options_), std::make_pair(int64_t{60}, int64_t{60})) << recipe;
    }
    // Converted rows are not those of a fresh run: they serve their own sequence only.
    EngineOptions other = options_;
    other.formats = {kv::RowFormat::Q8_0, kv::RowFormat::Q8_0};
    EXPECT_EQ(reused_by_others(other), std::make_pair(int64_t{0}, int64_t{0}));
}

// A client that says the whole conversation each time, also what is forgotten of it, does so over a restart too.
TEST_F(ResumedRows, AWholeConversationSentAgainRunsOnlyWhatIsNewAfterAResume) {
    std::vector<Message> all{{"system", "You remember what you are told."}};
    {
        const auto chat = begin_forgetful_chat();
        int forgotten = 0;
        for (int turn = 0; turn < 12; ++turn) {
            all.push_back({"user", turn == 11 ? "My name is Ada." : fmt::format("The code for the red door is {}.", 1000 + turn)});
            const auto answer = chat->reply(all, short_answers_);
            ASSERT_TRUE(answer) << answer.error().message;
            forgotten += answer->forgotten.turns;
            all.push_back({"assistant", answer->text});
        }
        ASSERT_GT(forgotten, 0);
        ASSERT_LT(chat->messages().size(), all.size() - 1);
        const Session::Source source{"main", chat->seq(), chat->state()};
        ASSERT_TRUE(open()->save({&source, 1}));
    }
    engine_ = tiny::engine(model_, options_);
    const auto session = open();
    const SeqId seq = *engine_->cache().open();
    ASSERT_TRUE(session->restore("main", seq));
    auto chat = *Conversation::adopt(*engine_, forgetful_, seq);
    ASSERT_TRUE(chat->resume(session->find("main")->host));
    const int32_t before = engine_->cache().length(seq);
    all.push_back({"user", "What is my name?"});
    const auto answer = chat->reply(all, short_answers_);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->text, "Your name is Ada.");
    EXPECT_GE(answer->receipt.reused, before - answer->forgotten.tokens);
    EXPECT_LT(answer->timings.prompt_tokens, 40);
    EXPECT_EQ(kv::verify(engine_->cache()), "");
}

// Who says only what is new has no use for what is gone; it does not stay in the file.
TEST_F(ResumedRows, WhatIsForgottenStaysInNoFileForNothing) {
    const auto chat = begin_forgetful_chat();
    for (int turn = 0; turn < 12; ++turn) ASSERT_TRUE(chat->say(fmt::format("The code for the red door is {}.", 1000 + turn), short_answers_));
    EXPECT_EQ(chat->state().find("1000"), std::string::npos);
    EXPECT_NE(chat->state().find("1011"), std::string::npos);
}

}  // namespace
}  // namespace cellar
