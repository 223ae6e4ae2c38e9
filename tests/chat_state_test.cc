// What a chat is beside its rows: taken over with all of them, with some, or rewound.
#include <gtest/gtest.h>

#include "engine/conversation.h"
#include "kv/verify.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

class ChatState : public testing::Test {
  protected:
    void SetUp() override { engine_ = tiny::engine(tiny::shipped(), tiny::options()); }
    std::unique_ptr<Conversation> start() {
        auto made = Conversation::make(*engine_, {});
        EXPECT_TRUE(made) << made.error().message;
        return *std::move(made);
    }
    Answer say(Conversation& chat, const std::string& text) {
        auto answer = chat.say(text, {});
        EXPECT_TRUE(answer) << answer.error().message;
        EXPECT_EQ(kv::verify(engine_->cache()), "");
        return answer ? *answer : Answer{};
    }

    std::unique_ptr<Engine> engine_;
};

TEST_F(ChatState, OnFewerRowsTheRestIsReadAnew) {
    auto chat = start();
    say(*chat, "My name is Ada.");
    say(*chat, "The code for the red door is 4821.");
    const std::string state = chat->state();
    const int32_t length = engine_->cache().length(chat->seq());
    for (const int32_t held : {0, 1, 7, length - 1, length}) {
        SCOPED_TRACE(held);
        const SeqId seq = *engine_->cache().fork(chat->seq(), held);
        auto other = Conversation::adopt(*engine_, {}, seq);
        ASSERT_TRUE(other);
        ASSERT_TRUE((*other)->resume(state));
        EXPECT_EQ((*other)->messages(), chat->messages());
        EXPECT_EQ(say(**other, "What is my name?").text, "Your name is Ada.");
        EXPECT_EQ(say(**other, "What is the code for the red door?").text, "The code for the red door is 4821.");
    }
}

TEST_F(ChatState, RewindKeepsTheFirstTurns) {
    auto chat = start();
    say(*chat, "My name is Ada.");
    say(*chat, "I live in Oslo.");
    say(*chat, "My name is Bo.");
    EXPECT_EQ(chat->turns(), 3);
    chat->rewind(3);
    EXPECT_EQ(chat->turns(), 3);
    chat->rewind(2);
    EXPECT_EQ(chat->messages().size(), 4U);
    EXPECT_EQ(say(*chat, "What is my name?").text, "Your name is Ada.");
    chat->rewind(0);
    EXPECT_TRUE(chat->messages().empty());
    EXPECT_EQ(say(*chat, "What is my name?").text, "You have not told me your name.");
}

TEST_F(ChatState, AnAdoptedSequenceEndsWithItsChat) {
    const int before = engine_->cache().open_seqs();
    const SeqId seq = *engine_->cache().open();
    { ASSERT_TRUE(Conversation::adopt(*engine_, {}, seq)); }
    EXPECT_EQ(engine_->cache().open_seqs(), before);
    ConversationOptions broken;
    broken.template_text = "{% if x %}";
    broken.template_name = "mine";
    const auto refused = Conversation::adopt(*engine_, broken, *engine_->cache().open());
    ASSERT_FALSE(refused);
    EXPECT_TRUE(refused.error().message.starts_with("mine: ")) << refused.error().message;
    EXPECT_EQ(engine_->cache().open_seqs(), before);
}

TEST_F(ChatState, AForkThatIsDroppedClosesItsSequence) {
    auto chat = start();
    say(*chat, "My name is Ada.");
    const int before = engine_->cache().open_seqs();
    { ASSERT_TRUE(chat->fork()); }
    EXPECT_EQ(engine_->cache().open_seqs(), before);
}

}  // namespace
}  // namespace cellar
