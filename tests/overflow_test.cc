// What happens when a conversation outgrows its context.
#include <gtest/gtest.h>

#include "engine/conversation.h"
#include "kv/verify.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

constexpr const char* kSystem = "You are Nora.";
constexpr const char* kStory = "Tell me a story about a fox and a bear.";  // an answer of about a hundred tokens

class OverflowChat : public testing::Test {
  protected:
    void start(Overflow overflow, int64_t context = 256, int64_t cells = 0) { start_with(tiny::shipped(), overflow, context, cells); }
    void start_with(const std::shared_ptr<const model::Model>& model, Overflow overflow, int64_t context, int64_t cells = 0,
                    std::optional<std::string> template_text = {}) {
        EngineOptions options = tiny::options();
        options.context = context;
        options.cells = cells;
        chat_.reset();
        engine_ = tiny::engine(model, options);
        auto made =
            Conversation::make(*engine_, {.system = kSystem, .template_text = std::move(template_text), .thinking = {}, .overflow = overflow});
        ASSERT_TRUE(made) << made.error().message;
        chat_ = *std::move(made);
    }
    Result<Answer> say(const std::string& text, int64_t most = 40, bool ignore_end = false) {
        GenerateOptions options;
        options.max_tokens = most;
        options.ignore_end = ignore_end;
        auto answer = chat_->say(text, options);
        EXPECT_EQ(kv::verify(engine_->cache()), "");
        EXPECT_EQ(kv::verify(engine_->index()), "");
        return answer;
    }
    // Says something each turn until something is forgotten; returns how many turns that took.
    int fill(Answer& last) {
        for (int turn = 1; turn < 100; ++turn) {
            auto answer = say(fmt::format("The code for the red door is {}.", 1000 + turn));
            EXPECT_TRUE(answer) << answer.error().message;
            if (!answer) return 0;
            last = *std::move(answer);
            if (last.forgotten.tokens > 0) return turn;
        }
        return 0;
    }
    [[nodiscard]] int32_t length() const { return engine_->cache().length(chat_->seq()); }
    // What the sequence holds, as text.
    [[nodiscard]] std::string held() const {
        std::vector<Token> log(static_cast<size_t>(length()));
        engine_->cache().copy_tokens(chat_->seq(), {0, length()}, log);
        std::vector<int32_t> ids;
        for (const Token& token : log) ids.push_back(token.id);
        return engine_->model().tokenizer()->decode(ids, true);
    }
    // The rows are those of the conversation as the template writes it now, but for the last sampled token and the end of the message.
    void expect_consistent() const {
        std::string rendered = *chat_->render();
        rendered.resize(rendered.size() - std::string("<|assistant|>").size());
        EXPECT_TRUE(rendered.starts_with(held())) << held() << "\n  but it should be\n" << rendered;
        EXPECT_GE(held().size() + std::string("<|end|>").size() + 12, rendered.size());
    }

    std::unique_ptr<Engine> engine_;
    std::unique_ptr<Conversation> chat_;
};

TEST_F(OverflowChat, DropTurnsForgetsWholeTurnsAndRunsOnlyWhatIsNew) {
    start(Overflow::DropTurns);
    Answer answer;
    const int turns = fill(answer);
    ASSERT_GT(turns, 3);
    EXPECT_GE(answer.forgotten.turns, 1);
    EXPECT_GE(answer.forgotten.tokens, 256 / 8);
    EXPECT_EQ(chat_->messages().size(), 2U * static_cast<size_t>(turns - answer.forgotten.turns));
    EXPECT_EQ(chat_->messages().front().role, "user");
    EXPECT_EQ(chat_->messages().front().content, fmt::format("The code for the red door is {}.", 1001 + answer.forgotten.turns));
    EXPECT_TRUE(held().find(kSystem) != std::string::npos) << "the system text never goes";
    EXPECT_LT(engine_->cache().pure(chat_->seq()), length()) << "what remains was computed in the presence of what went";
    expect_consistent();
    const int32_t before = length();
    const auto next = say("What is the code for the red door?", 8);
    ASSERT_TRUE(next) << next.error().message;
    if (next->forgotten.tokens == 0) {
        EXPECT_EQ(next->receipt.reused, before) << "everything but what is new is there already";
    }
    EXPECT_FALSE(next->receipt.pure);
    expect_consistent();
}

TEST_F(OverflowChat, ALongChatGoesOnForEver) {
    for (const Overflow overflow : {Overflow::DropTurns, Overflow::Shift, Overflow::Slide}) {
        start(overflow);
        int32_t forgotten = 0;
        for (int turn = 0; turn < 40; ++turn) {
            const int32_t before = length();
            const auto answer = say(fmt::format("My number is {}, and I live in Oslo.", turn));
            ASSERT_TRUE(answer) << answer.error().message;
            ASSERT_NE(answer->stop, StopReason::Context) << name(overflow);
            ASSERT_LE(length(), 256);
            forgotten += answer->forgotten.tokens;
            if (turn > 0) {
                EXPECT_GE(answer->receipt.reused, before - answer->forgotten.tokens) << name(overflow) << ", turn " << turn;
            }
            ASSERT_NE(held().find(kSystem), std::string::npos);
            expect_consistent();
        }
        EXPECT_GT(forgotten, 256) << name(overflow);
    }
}

// Positions of what remains are without a gap, and rows are turned, not run again: the policy costs no prefill.
TEST_F(OverflowChat, NothingIsRunAgain) {
    start(Overflow::DropTurns);
    Answer answer;
    ASSERT_GT(fill(answer), 0);
    const auto runs = engine_->cache().runs(chat_->seq(), 0);
    EXPECT_TRUE(std::any_of(runs.begin(), runs.end(), [](const kv::Run& run) { return run.turn != 0; }));
    EXPECT_LT(answer.timings.prompt_tokens, 40);
}

TEST_F(OverflowChat, ItRemembersWhatItShouldAndNothingElse) {
    start(Overflow::DropTurns, 256);
    ASSERT_TRUE(say("My name is Ada."));
    ASSERT_TRUE(say("I live in Oslo."));
    int turns = 0;
    int32_t forgotten = 0;
    for (; turns < 30 && forgotten < 2; ++turns) {
        const auto answer = say("Tell me a story about a fox and a bear.");
        ASSERT_TRUE(answer) << answer.error().message;
        forgotten += answer->forgotten.turns;
    }
    ASSERT_GE(forgotten, 2);
    // No story takes up the town, so nothing is left of it. (Its animals may be called Ada, by a model that had just met one.)
    EXPECT_EQ(held().find("Oslo"), std::string::npos) << held();
    EXPECT_EQ(held().find("My name is"), std::string::npos) << held();
    EXPECT_EQ(held().find("Hello, Ada"), std::string::npos) << held();
    const auto name = say("What is my name?");
    ASSERT_TRUE(name);
    EXPECT_EQ(name->text.find("Ada"), std::string::npos) << name->text;
    const auto home = say("Where do I live?");
    ASSERT_TRUE(home);
    EXPECT_EQ(home->text.find("Oslo"), std::string::npos) << home->text;
    EXPECT_EQ(held().find("Oslo"), std::string::npos) << held();
    const auto who = say("What is your name?");
    ASSERT_TRUE(who);
    EXPECT_NE(who->text.find("Nora"), std::string::npos) << who->text;
}

TEST_F(OverflowChat, AnAnswerGoesOnWhileOldTurnsGo) {
    start(Overflow::DropTurns, 160);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(say("My name is Ada.", 20));
    const int32_t told = length();
    ASSERT_LT(told, 130) << "so that the story begins before anything is forgotten";
    const auto answer = say(kStory, 90);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_GT(answer->forgotten.turns, 0);
    EXPECT_EQ(answer->receipt.prompt, answer->receipt.reused + answer->timings.prompt_tokens);
    EXPECT_GE(answer->receipt.reused, told) << "it was forgotten in the middle of the answer";
    EXPECT_NE(answer->stop, StopReason::Context) << answer->full;
    EXPECT_GT(answer->tokens.size(), 60U);
    EXPECT_EQ(chat_->messages().back().content, answer->text);
    EXPECT_LE(length(), 160);
    expect_consistent();
    const int32_t before = length();
    const auto next = say("What is my name?", 5);
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_GE(next->receipt.reused, before - next->forgotten.tokens);
}

TEST_F(OverflowChat, WholeTurnsCannotMakeRoomForOneLongAnswer) {
    start(Overflow::DropTurns);
    const auto answer = say("My name is Ada.", 400, true);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->stop, StopReason::Context);
    EXPECT_NE(answer->full.find("256"), std::string::npos) << answer->full;
}

// Room can be made for ever; a model that never ends its answer is stopped all the same.
TEST_F(OverflowChat, AnAnswerWithoutALimitEndsWithAsManyTokensAsTheContextHolds) {
    for (const Overflow overflow : {Overflow::DropTurns, Overflow::Shift, Overflow::Slide}) {
        start(overflow, 80);
        const auto answer = say(kStory, -1, true);
        ASSERT_TRUE(answer) << answer.error().message;
        EXPECT_LE(answer->tokens.size(), 160U);
        if (overflow == Overflow::DropTurns) continue;
        EXPECT_EQ(answer->stop, StopReason::MaxTokens);
        EXPECT_GE(answer->tokens.size(), 80U);
        const auto longer = say(kStory, 200, true);
        ASSERT_TRUE(longer) << longer.error().message;
        EXPECT_EQ(longer->tokens.size(), 200U) << "a limit of its own counts";
    }
}

TEST_F(OverflowChat, ShiftAndSlideWriteLongerThanTheContext) {
    for (const Overflow overflow : {Overflow::Shift, Overflow::Slide}) {
        start(overflow, 80);
        const auto answer = say(kStory, 90);
        ASSERT_TRUE(answer) << answer.error().message;
        EXPECT_NE(answer->stop, StopReason::Context) << answer->full;
        EXPECT_GT(answer->receipt.prompt + static_cast<int32_t>(answer->tokens.size()), 80);
        EXPECT_GE(answer->forgotten.tokens, 10);
        EXPECT_EQ(answer->forgotten.turns, 0);
        // The message remembers the end of the answer, as the rows do.
        EXPECT_TRUE(answer->text.ends_with(chat_->messages().back().content));
        EXPECT_LT(chat_->messages().back().content.size(), answer->text.size());
        EXPECT_NE(held().find(kStory), std::string::npos) << "the message that is being answered never goes";
        expect_consistent();
        const int32_t before = length();
        const auto next = say("What is my name?", 5);
        ASSERT_TRUE(next) << next.error().message;
        EXPECT_GE(next->receipt.reused, before - next->forgotten.tokens);
        EXPECT_GT(next->receipt.reused, 30);
        // And for ever, if nobody ends it.
        const auto endless = say(kStory, 500, true);
        ASSERT_TRUE(endless) << endless.error().message;
        EXPECT_EQ(endless->tokens.size(), 500U);
        EXPECT_GE(endless->forgotten.tokens, 500 - 80);
        EXPECT_LE(length(), 80);
    }
}

TEST_F(OverflowChat, SlideLetsGoABlockAtATimeAndShiftAnEighth) {
    int32_t most[2] = {};
    for (const Overflow overflow : {Overflow::Shift, Overflow::Slide}) {
        start(overflow, 512);
        for (int turn = 0; turn < 60; ++turn) {
            const auto answer = say(fmt::format("My number is {}.", turn), 12, true);
            ASSERT_TRUE(answer) << answer.error().message;
            int32_t& m = most[overflow == Overflow::Shift ? 0 : 1];
            m = std::max(m, answer->forgotten.tokens);
        }
    }
    EXPECT_GE(most[0], 64);
    EXPECT_LT(most[1], 64 + 40);
    EXPECT_GT(most[1], 0);
}

TEST_F(OverflowChat, StopRefusesAndForgetsNothing) {
    start(Overflow::Stop);
    Result<Answer> answer;
    for (int i = 0; i < 100 && answer; ++i) answer = say("My name is Ada.");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind, ErrorKind::Full);
    EXPECT_EQ(answer.error().message.find("forgot"), std::string::npos);
}

TEST_F(OverflowChat, AMessageThatNeverFitsIsRefusedAndCostsNothing) {
    for (const Overflow overflow : {Overflow::DropTurns, Overflow::Shift, Overflow::Slide}) {
        start(overflow);
        ASSERT_TRUE(say("My name is Ada."));
        ASSERT_TRUE(say("I live in Oslo."));
        const std::vector<Message> before = chat_->messages();
        std::string text;
        while (text.size() < 4000) text += "My name is Ada. ";
        const auto refused = say(text);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().kind, ErrorKind::Full);
        EXPECT_NE(refused.error().message.find("256"), std::string::npos) << refused.error().message;
        EXPECT_NE(refused.error().message.find("shorten"), std::string::npos) << refused.error().message;
        EXPECT_EQ(chat_->messages(), before);
        EXPECT_EQ(chat_->forgotten(), Forgotten{});
        const auto next = say("What is my name?");
        ASSERT_TRUE(next);
        EXPECT_EQ(next->text, "Your name is Ada.");
    }
}

// What had to go for a message that is then not read comes back with everything else that was said.
TEST_F(OverflowChat, ATurnThatIsCancelledWhileItIsReadForgetsNothing) {
    for (const Overflow overflow : {Overflow::DropTurns, Overflow::Shift, Overflow::Slide}) {
        start(overflow);
        while (length() < 200) ASSERT_TRUE(say("My name is Ada."));
        const std::vector<Message> before = chat_->messages();
        std::string text;
        while (text.size() < 500) text += "I live in Oslo. ";
        const Cancel cancel{true};
        const auto said = chat_->say(text, {}, {}, &cancel);
        ASSERT_FALSE(said);
        EXPECT_EQ(said.error().kind, ErrorKind::Cancelled);
        EXPECT_EQ(chat_->messages(), before);
        EXPECT_EQ(chat_->forgotten(), Forgotten{});
        // What is saved now is the whole chat.
        auto again = Conversation::make(*engine_, {.system = "", .template_text = {}, .thinking = {}, .overflow = overflow});
        ASSERT_TRUE(again);
        ASSERT_TRUE((*again)->resume(chat_->state()));
        EXPECT_EQ((*again)->messages(), before);
        again->reset();
        ASSERT_TRUE(say(text));
        expect_consistent();
        const auto answered = chat_->messages();
        EXPECT_FALSE(chat_->again({}, {}, &cancel));
        EXPECT_EQ(chat_->messages(), answered);
    }
}

// A pool smaller than the context is full first, and old turns make room there too.
TEST_F(OverflowChat, ASmallPoolMakesTurnsGoAsASmallContextDoes) {
    start(Overflow::DropTurns, 1024, 256);
    int32_t forgotten = 0;
    for (int turn = 0; turn < 25; ++turn) {
        const auto answer = say("The code for the red door is 4821.");
        ASSERT_TRUE(answer) << answer.error().message;
        forgotten += answer->forgotten.turns;
    }
    EXPECT_GT(forgotten, 0);
    expect_consistent();
}

// Rows that another sequence holds too free nothing when they go, so their turns stay and full is the answer.
TEST_F(OverflowChat, TurnsThatAnotherSequenceHoldsDoNotGoForNothing) {
    for (const Overflow overflow : {Overflow::DropTurns, Overflow::Shift, Overflow::Slide}) {
        start(overflow, 1024, 256);
        while (length() < 150) ASSERT_TRUE(say("The code for the red door is 4821.", 20));
        auto fork = chat_->fork();
        ASSERT_TRUE(fork) << fork.error().message;
        const size_t before = (*fork)->messages().size();
        GenerateOptions options;
        options.max_tokens = 300;
        options.ignore_end = true;
        const auto answer = (*fork)->say("My name is Ada.", options);
        ASSERT_TRUE(answer) << answer.error().message;
        EXPECT_EQ(answer->forgotten.turns, 0) << name(overflow);
        EXPECT_EQ((*fork)->messages().size(), before + 2);
        EXPECT_EQ((*fork)->messages().front(), chat_->messages().front());
        if (overflow == Overflow::DropTurns) {
            EXPECT_EQ(answer->stop, StopReason::Context);
            EXPECT_NE(answer->full.find("1 other sequence holds room too"), std::string::npos) << answer->full;
        }
        // Nor for a prompt that there is no room for.
        std::string text;
        while (text.size() < 1000) text += "I live in Oslo. ";
        (*fork)->undo();
        const auto refused = (*fork)->say(text, options);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().kind, ErrorKind::Full);
        EXPECT_GE(engine_->cache().length((*fork)->seq()), 150) << "the rows that both hold";
        // Once the other one is gone its turns make room.
        chat_.reset();
        const auto alone = (*fork)->say("My name is Ada.", options);
        ASSERT_TRUE(alone) << alone.error().message;
        EXPECT_GT(alone->forgotten.tokens, 0);
        EXPECT_EQ(kv::verify(engine_->cache()), "");
    }
}

TEST_F(OverflowChat, OnlyWhatIsPureIsKeptForOthers) {
    start(Overflow::DropTurns);
    Answer answer;
    ASSERT_GT(fill(answer), 0);
    const int32_t pure = engine_->cache().pure(chat_->seq());
    ASSERT_LT(pure, length());
    EXPECT_EQ(engine_->keep(chat_->seq()), pure);
}

// A client that sends the whole conversation each time sends what was forgotten too; it is not read again.
TEST_F(OverflowChat, AWholeConversationSentAgainRunsOnlyWhatIsNew) {
    start(Overflow::DropTurns);
    std::vector<Message> all{{"system", kSystem}};
    bool forgot = false;
    for (int turn = 0; turn < 20; ++turn) {
        all.push_back({"user", fmt::format("The code for the red door is {}.", 1000 + turn)});
        const int32_t before = length();
        GenerateOptions options;
        options.max_tokens = 30;
        const auto answer = chat_->reply(all, options);
        ASSERT_TRUE(answer) << answer.error().message;
        if (forgot) {
            EXPECT_GE(answer->receipt.reused, before - answer->forgotten.tokens) << "turn " << turn;
        }
        all.push_back({"assistant", answer->text});
        forgot = forgot || answer->forgotten.turns > 0;
        expect_consistent();
    }
    EXPECT_TRUE(forgot);
}

// The same where messages and answers have lost their beginning.
TEST_F(OverflowChat, AWholeConversationSentAgainRunsOnlyWhatIsNewBehindShiftsToo) {
    for (const Overflow overflow : {Overflow::Shift, Overflow::Slide}) {
        start(overflow, 80);
        std::vector<Message> all{{"system", kSystem}};
        int32_t within = 0;
        for (int turn = 0; turn < 14; ++turn) {
            all.push_back({"user", turn % 3 == 1 ? kStory : fmt::format("My number is {}.", turn)});
            const int32_t before = length();
            GenerateOptions options;
            options.max_tokens = 90;  // a story is longer than the context
            const auto answer = chat_->reply(all, options);
            ASSERT_TRUE(answer) << answer.error().message;
            EXPECT_GE(answer->receipt.reused, before - answer->forgotten.tokens) << name(overflow) << ", turn " << turn;
            EXPECT_LT(answer->timings.prompt_tokens, 60) << name(overflow) << ", turn " << turn;
            all.push_back({"assistant", answer->text});
            for (const Message& message : chat_->messages()) within += std::count(all.begin(), all.end(), message) == 0 ? 1 : 0;
            ASSERT_EQ(kv::verify(engine_->cache()), "");
        }
        EXPECT_GT(within, 0) << "some messages are shorter than they were said";
        EXPECT_TRUE(chat_->undo());
        all.resize(all.size() - 2);
        all.push_back({"user", "What is my name?"});
        GenerateOptions options;
        options.max_tokens = 5;
        const auto answer = chat_->reply(all, options);
        ASSERT_TRUE(answer) << answer.error().message;
        EXPECT_LT(answer->timings.prompt_tokens, 60);
    }
}

// A model whose layers have windows: a gap that cannot be closed ends an answer, which keeps the rows that it stands on.
TEST_F(OverflowChat, AWindowThatCannotCloseTheGapEndsTheAnswer) {
    start_with(tiny::windowed_chat(), Overflow::DropTurns, 72);
    ASSERT_FALSE(engine_->cache().spec().groups[0].keep == kv::Keep::all());
    // The turn that would go reaches into the window behind a full context.
    const std::string first = "My name is Ada.";
    ASSERT_TRUE(say(first, 46 - static_cast<int64_t>(chat_->encode_with(first)->size()), true));
    ASSERT_EQ(length(), 45);
    const std::vector<Message> before = chat_->messages();
    const auto answer = say("I live in Oslo.", 100, true);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->stop, StopReason::Context);
    EXPECT_LT(answer->tokens.size(), 72U);
    EXPECT_EQ(answer->forgotten, Forgotten{});
    EXPECT_EQ(length(), 72);
    ASSERT_EQ(chat_->messages().size(), before.size() + 2);
    EXPECT_EQ(chat_->messages().front(), before.front());
    // Between turns they go, and what is behind them is read anew.
    const auto next = say("My name is Bo.", 4, true);
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_GT(next->forgotten.turns, 0);
    EXPECT_EQ(next->receipt.prompt, next->receipt.reused + next->timings.prompt_tokens);
}

TEST_F(OverflowChat, WhatIsLeftSurvivesInItsState) {
    for (const Overflow overflow : {Overflow::DropTurns, Overflow::Shift, Overflow::Slide}) {
        start(overflow);
        Answer answer;
        ASSERT_GT(fill(answer), 0);
        const std::string state = chat_->state();
        auto copy = chat_->fork();
        ASSERT_TRUE(copy);
        auto again = Conversation::make_on(*engine_, {.system = "", .template_text = {}, .thinking = {}, .overflow = overflow}, (*copy)->seq());
        ASSERT_TRUE(again);
        const auto resumed = (*again)->resume(state);
        ASSERT_TRUE(resumed) << resumed.error().message;
        EXPECT_EQ((*again)->messages(), chat_->messages());
        GenerateOptions options;
        options.max_tokens = 10;
        const auto one = chat_->say("What is the code for the red door?", options);
        const auto two = (*again)->say("What is the code for the red door?", options);
        ASSERT_TRUE(one && two);
        EXPECT_EQ(one->tokens, two->tokens);
        EXPECT_EQ(one->receipt.reused, two->receipt.reused);
    }
}

TEST_F(OverflowChat, UndoAndAgainWorkBehindWhatWasForgotten) {
    start(Overflow::DropTurns);
    Answer answer;
    ASSERT_GT(fill(answer), 0);
    const size_t messages = chat_->messages().size();
    const auto again = chat_->again({});
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(chat_->messages().size(), messages);
    EXPECT_TRUE(chat_->undo());
    ASSERT_TRUE(say("My name is Ada."));
    expect_consistent();
    chat_->clear();
    const auto fresh = say("I live in Oslo.");
    ASSERT_TRUE(fresh);
    EXPECT_TRUE(fresh->receipt.pure) << "a new conversation is not coloured";
}

// A template that writes something that depends on all messages: the prompt is not the old one without a stretch.
TEST_F(OverflowChat, ATemplateThatCountsMessagesIsReadAnew) {
    start(Overflow::Stop);
    auto made = Conversation::make(*engine_, {.system = kSystem,
                                              .template_text = "{{ messages | length }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>"
                                                               "{% endfor %}<|assistant|>",
                                              .thinking = {},
                                              .overflow = Overflow::DropTurns});
    ASSERT_TRUE(made) << made.error().message;
    int32_t turns = 0;
    for (int i = 0; i < 20; ++i) {
        GenerateOptions options;
        options.max_tokens = 20;
        const auto answer = (*made)->say("My name is Ada.", options);
        ASSERT_TRUE(answer) << answer.error().message;
        turns += answer->forgotten.turns;
        EXPECT_EQ(kv::verify(engine_->cache()), "");
    }
    EXPECT_GT(turns, 0);
}

// A turn whose absence would make the prompt longer stays.
TEST_F(OverflowChat, ATurnThatFreesNothingIsNotLost) {
    std::string words;
    while (words.size() < 400) words += "My name is Ada. ";
    std::string padding = words;
    for (int i = 0; i < 40; ++i) padding += " and";
    start_with(tiny::shipped(), Overflow::DropTurns, 768, 0,
               "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if messages | length == 2 %}" + padding +
                   "{% endif %}{{ messages | length }}<|assistant|>");
    ASSERT_TRUE(say(words, 10, true));
    const size_t one = chat_->encode_with("")->size();
    ASSERT_TRUE(say(words, 10, true));
    const size_t turn = chat_->encode_with("")->size() - one;
    // So long that it fits without the first turn, but not with an eighth of the context to spare.
    std::string text = "I live in Oslo.";
    while (chat_->encode_with(text)->size() < 768 + turn - 48) text += " I live in Oslo.";
    const auto answer = say(text, 4, true);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->forgotten.turns, 1);
    ASSERT_EQ(chat_->messages().size(), 4U);
    EXPECT_EQ(chat_->messages().front().content, words);
    EXPECT_EQ(held().find(" and and"), std::string::npos);
}

TEST(Overflow, IsSpelledExactly) {
    for (const Overflow overflow : {Overflow::Stop, Overflow::DropTurns, Overflow::Shift, Overflow::Slide})
        EXPECT_EQ(*parse_overflow(std::string(name(overflow)), "x"), overflow);
    for (const char* wrong : {"", "Stop", "drop_turns", "truncate"}) {
        const auto refused = parse_overflow(wrong, "--overflow");
        ASSERT_FALSE(refused);
        EXPECT_NE(refused.error().message.find("drop-turns"), std::string::npos);
    }
    EXPECT_EQ(explain(Forgotten{3, 412}), "forgot 3 turns, 412 tokens");
    EXPECT_EQ(explain(Forgotten{1, 1}), "forgot 1 turn, 1 token");
}

}  // namespace
}  // namespace cellar
