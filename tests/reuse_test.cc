// What one conversation has read, another one need not read again; and the answer does not depend on it.
#include <gtest/gtest.h>

#include "engine/conversation.h"
#include "kv/verify.h"
#include "support/engine_case.h"
#include "support/numbers.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

void verify(const Engine& engine) {
    EXPECT_EQ(kv::verify(engine.cache()), "");
    EXPECT_EQ(kv::verify(engine.index()), "");
}

GenerateOptions tokens(int64_t count) {
    GenerateOptions out;
    out.max_tokens = count;
    out.ignore_end = true;
    return out;
}

struct Case {
    const char* recipe;
    kv::RowFormat k;
    kv::RowFormat v;
};

class Reuse : public testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        options_ = tiny::options();
        options_.formats = {GetParam().k, GetParam().v};
        options_.context = 512;
        model_ = tiny::model(GetParam().recipe);
        engine_ = tiny::engine(model_, options_);
        ids_ = tiny::tokens(*model_, 400);
        keeps_all_ = engine_->cache().spec().groups[0].keep == kv::Keep::all() && !engine_->index().needs_marks();
    }
    Answer generate(Engine& engine, SeqId seq, std::span<const int32_t> prompt, int64_t count = 6) {
        auto answer = cellar::generate(engine, seq, prompt, tokens(count));
        EXPECT_TRUE(answer) << answer.error().message;
        verify(engine);
        return answer ? *answer : Answer{};
    }
    SeqId open() { return *engine_->cache().open(); }

    EngineOptions options_;
    std::shared_ptr<const model::Model> model_;
    std::unique_ptr<Engine> engine_;
    std::vector<int32_t> ids_;
    bool keeps_all_ = false;
};

// The next logits behind a kept prefix are those of a fresh run, wherever the prefix ends.
TEST_P(Reuse, WarmEqualsCold) {
    const std::span<const int32_t> all(ids_);
    const SeqId first = open();
    generate(*engine_, first, all.first(300));
    engine_->cache().close(first);
    for (const size_t common : {1, 31, 32, 33, 100, 299}) {
        std::vector<int32_t> prompt(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(common));
        const std::vector<int32_t> other = tiny::tokens(*model_, 40, common + 7);
        prompt.insert(prompt.end(), other.begin(), other.end());
        const SeqId warm = open();
        const Answer answer = generate(*engine_, warm, prompt);
        if (keeps_all_) {
            EXPECT_GE(answer.receipt.reused, static_cast<int32_t>(common));
        }
        EXPECT_TRUE(answer.receipt.pure);
        auto fresh = tiny::engine(model_, options_);
        const SeqId cold = *fresh->cache().open();
        EXPECT_EQ(generate(*fresh, cold, prompt).tokens, answer.tokens);
        const std::vector<int32_t> last{answer.tokens.back()};
        const auto warm_logits = engine_->append(warm, last);
        ASSERT_TRUE(warm_logits);
        const std::vector<float> kept(warm_logits->begin(), warm_logits->end());
        const auto cold_logits = fresh->append(cold, last);
        ASSERT_TRUE(cold_logits);
        EXPECT_TRUE(same_bits(kept, *cold_logits)) << common << " tokens in common";
        engine_->cache().close(warm);
    }
}

// In every kind of model: one token before the end of a prompt is a place that the same prompt can go on from.
TEST_P(Reuse, TheSamePromptAgainRunsOneToken) {
    const std::span<const int32_t> prompt = std::span<const int32_t>(ids_).first(200);
    const SeqId first = open();
    const Answer cold = generate(*engine_, first, prompt);
    EXPECT_EQ(cold.receipt.source, Receipt::Source::Nothing);
    EXPECT_EQ(cold.receipt.reason, Receipt::Reason::Nothing);
    const Answer warm = generate(*engine_, open(), prompt);
    EXPECT_EQ(warm.receipt.reused, 199);
    EXPECT_EQ(warm.receipt.source, Receipt::Source::Kept);
    EXPECT_EQ(warm.receipt.reason, Receipt::Reason::All);
    EXPECT_EQ(warm.tokens, cold.tokens);
    EXPECT_GT(warm.receipt.seconds_saved, 0.0);
}

TEST_P(Reuse, TwoSequencesShareTheCells) {
    if (!keeps_all_) return;
    const std::span<const int32_t> prompt = std::span<const int32_t>(ids_).first(256);
    generate(*engine_, open(), prompt, 1);
    const int64_t before = engine_->cache().stats().groups[0].blocks_used;
    const SeqId second = open();
    generate(*engine_, second, prompt, 1);
    EXPECT_LE(engine_->cache().stats().groups[0].blocks_used, before + 1) << "256 tokens are 8 blocks";
    EXPECT_GE(engine_->cache().stats().groups[0].blocks_shared, 7);
}

// Kept prefixes give way to what is live, and never the other way round.
TEST_P(Reuse, KeptPrefixesMakeRoomForLiveOnes) {
    options_.cells = 640;
    engine_ = tiny::engine(model_, options_);
    for (uint64_t i = 0; i < 12; ++i) {
        const SeqId seq = open();
        const Answer answer = generate(*engine_, seq, tiny::tokens(*model_, 300, i), 20);
        EXPECT_EQ(answer.stop, StopReason::MaxTokens) << answer.full;
        engine_->cache().close(seq);
    }
    EXPECT_GT(engine_->index().stats().tokens, 0);
    const SeqId one = open();
    const SeqId two = open();
    EXPECT_TRUE(engine_->append(one, std::span<const int32_t>(ids_).first(320)));
    const auto full = engine_->append(two, std::span<const int32_t>(ids_).first(350));
    if (keeps_all_) {
        ASSERT_FALSE(full);
        EXPECT_EQ(full.error().kind, ErrorKind::Full);
        EXPECT_EQ(engine_->index().stats().tokens, 0) << "full is the answer only when nothing is left to let go";
        EXPECT_NE(full.error().message.find("1 other sequence"), std::string::npos) << full.error().message;
    }
    verify(*engine_);
}

// A changing text early in a prompt is the usual reason why nothing is reused: the receipt shows where, and both sides of it.
TEST_P(Reuse, TheReceiptShowsTheFirstDifference) {
    if (!keeps_all_) return;
    std::vector<int32_t> prompt = ids_;
    const SeqId seq = open();
    generate(*engine_, seq, prompt);
    prompt[20] = (ids_[20] + 1) % static_cast<int32_t>(model_->config().vocabulary);
    for (const SeqId other : {open(), seq}) {
        const Receipt r = generate(*engine_, other, prompt).receipt;
        if (other == seq) {
            // By now the changed prompt is kept as well.
            EXPECT_EQ(r.reason, Receipt::Reason::All);
            continue;
        }
        EXPECT_EQ(r.reason, Receipt::Reason::Differs);
        EXPECT_EQ(r.first_difference, 20);
        EXPECT_EQ(r.reused, 20);
        const auto slice = [](const std::vector<int32_t>& v, int from) { return std::vector<int32_t>(v.begin() + from, v.begin() + from + 8); };
        EXPECT_EQ(r.before.tokens, slice(ids_, 12));
        EXPECT_EQ(r.cached.tokens, slice(ids_, 20));
        EXPECT_EQ(r.wanted.tokens, slice(prompt, 20));
        EXPECT_NE(explain(r).find("at token 20"), std::string::npos) << explain(r);
    }
}

std::vector<Case> cases() {
    using enum kv::RowFormat;
    return {{"qwen3-hd64", F32, F32}, {"qwen3-hd64", F16, F16}, {"qwen3-hd64", BF16, BF16}, {"qwen3-hd80", Q8_0, Q8_0},
            {"llama", Q8_0, F16},     {"llama-moe", F16, Q8_0}, {"olmo2", F16, F16}};
}

INSTANTIATE_TEST_SUITE_P(Formats, Reuse, testing::ValuesIn(cases()), [](const auto& info) {
    return case_name(info.param.recipe, {info.param.k, info.param.v});
});

class ReuseInChats : public testing::Test {
  protected:
    void SetUp() override { engine_ = tiny::engine(tiny::shipped(), tiny::options()); }
    std::unique_ptr<Conversation> chat() {
        auto made =
            Conversation::make(*engine_, {.system = "You are Nora. Your answers are short and to the point.", .template_text = {}, .thinking = {}});
        EXPECT_TRUE(made) << made.error().message;
        return *std::move(made);
    }
    Answer say(Conversation& chat, const std::string& text) {
        auto answer = chat.say(text, {});
        EXPECT_TRUE(answer) << answer.error().message;
        verify(*engine_);
        return answer ? *answer : Answer{};
    }
    // Tokens of the prompt up to where the user speaks.
    int32_t system_tokens(const Conversation& chat) {
        const std::string prompt = *chat.render();
        return static_cast<int32_t>(encode_prompt(*engine_->model().tokenizer(), prompt.substr(0, prompt.find("<|user|>"))).size());
    }
    std::unique_ptr<Engine> engine_;
};

TEST_F(ReuseInChats, TheSystemTextIsReadOnceForAllChats) {
    auto first = chat();
    say(*first, "My name is Ada.");
    auto second = chat();
    const Answer answer = say(*second, "I live in Oslo.");
    EXPECT_EQ(answer.receipt.source, Receipt::Source::Kept);
    EXPECT_GE(answer.receipt.reused, system_tokens(*second));
    EXPECT_TRUE(answer.receipt.pure);
    EXPECT_EQ(answer.receipt.reason, Receipt::Reason::Differs);
    EXPECT_NE(explain(answer.receipt).find("kept prefix"), std::string::npos) << explain(answer.receipt);
}

TEST_F(ReuseInChats, ClearKeepsTheSystemTextWarmAndGivesTheRoomBack) {
    auto one = chat();
    say(*one, "My name is Ada.");
    one->clear();
    EXPECT_EQ(engine_->cache().length(one->seq()), 0);
    const Answer answer = say(*one, "What is my name?");
    EXPECT_GE(answer.receipt.reused, system_tokens(*one));
    EXPECT_EQ(answer.text.find("Ada"), std::string::npos) << answer.text;
}

TEST_F(ReuseInChats, AClosedChatIsTakenUpWhereItEnded) {
    auto one = chat();
    const Answer first = say(*one, "My name is Ada.");
    const std::vector<Message> said = one->messages();
    one.reset();
    EXPECT_EQ(engine_->cache().open_seqs(), 0);
    auto again = chat();
    std::vector<Message> messages{{"system", again->system()}, said[0], said[1], {"user", "What is my name?"}};
    auto answer = again->reply(messages, {});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_GE(answer->receipt.reused, first.receipt.prompt);
    EXPECT_EQ(answer->text, "Your name is Ada.");
}

TEST_F(ReuseInChats, AnUndoneTurnSaidAgainIsNotReadAgain) {
    auto one = chat();
    say(*one, "My name is Ada.");
    say(*one, "I live in Oslo.");
    one->undo();
    say(*one, "I like tea.");
    one->undo();
    const Answer answer = say(*one, "I live in Oslo.");
    EXPECT_EQ(answer.receipt.reason, Receipt::Reason::All);
    EXPECT_EQ(answer.receipt.source, Receipt::Source::Kept);
}

TEST_F(ReuseInChats, AForkedChatInAFullPoolCanBeClearedAndGoesOn) {
    EngineOptions options = tiny::options();
    options.context = 256;
    options.cells = 256;
    engine_ = tiny::engine(tiny::shipped(), options);
    auto main = chat();
    for (int i = 0; i < 20; ++i) {
        auto answer = main->say("The code for the red door is 4821.", {});
        if (!answer || answer->stop == StopReason::Context) break;
    }
    auto fork = main->fork();
    ASSERT_TRUE(fork) << fork.error().message;
    // The other branch holds all the room, which is said; once it is cleared there is room.
    const auto full = (*fork)->say("What is the code for the red door? Please say it once more, and then once again.", {});
    ASSERT_TRUE(!full || full->stop == StopReason::Context);
    (*fork)->clear();
    main->clear();
    const auto answer = (*fork)->say("My name is Ada.", {});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->stop, StopReason::EndOfTurn);
    verify(*engine_);
}

}  // namespace
}  // namespace cellar
