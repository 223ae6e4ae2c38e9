// What is different at a terminal: a line editor, Ctrl-C, thinking that is dim, lines that move, and no control characters but the program's own.
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/process.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

using process::cellar;
using process::cellar_at_terminal;
using process::Outcome;
using process::temporary;

const std::string kModel = tiny::shipped_path();
constexpr const char* kDim = "\033[2m";
constexpr const char* kPlain = "\033[0m";
constexpr const char* kCtrlC = "\003";

bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

std::string without(std::string text, const std::string& words) {
    for (size_t at = 0; (at = text.find(words, at)) != std::string::npos;) text.erase(at, words.size());
    return text;
}

TEST(Terminal, NothingOfATextCommandsIt) {
    const std::string file = temporary("colours.jinja", "red \033[31mtext\007\n\ttabs stay");
    const std::string input = temporary("case.json", R"({"messages": []})");
    const Outcome shown = cellar_at_terminal({"template", "--file", file, "--input", input});
    EXPECT_EQ(shown.code, 0);
    EXPECT_FALSE(contains(shown.out, "\033") || contains(shown.out, "\007")) << shown.out;
    EXPECT_TRUE(contains(shown.out, "[31mtext") && contains(shown.out, "\n\ttabs stay")) << shown.out;
    EXPECT_EQ(cellar({"template", "--file", file, "--input", input}).out, "red \033[31mtext\007\n\ttabs stay") << "into a pipe every byte goes";
    const Outcome refused = cellar_at_terminal({"inspect", "no-\033[31m-file"});
    EXPECT_EQ(refused.code, 1);
    EXPECT_FALSE(contains(refused.out, "\033")) << refused.out;
}

TEST(Terminal, APromptIsNotWaitedFor) {
    const Outcome outcome = cellar_at_terminal({"run", kModel});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(contains(outcome.out, "there is no prompt: give one with -p TEXT or -f FILE")) << outcome.out;
}

TEST(Terminal, LinesThatMoveAreGoneAtTheEnd) {
    std::string prompt;
    for (int i = 0; i < 120; ++i) prompt += "My name is Ada. ";
    const Outcome outcome = cellar_at_terminal({"run", kModel, "--raw", "--ctx", "2048", "-n", "2", "-p", prompt});
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    for (const char* moving : {"loading ", "reading 512 of "}) {
        const size_t at = outcome.out.find(moving);
        ASSERT_NE(at, std::string::npos) << moving << " is not in: " << outcome.out;
        EXPECT_EQ(outcome.out.substr(at - 8, 8), std::string("\r\033[K") + kDim) << moving;
        const size_t end = outcome.out.find(kPlain, at);
        ASSERT_NE(end, std::string::npos) << outcome.out;
        EXPECT_LT(end, outcome.out.find('\n', at)) << moving << " stays on its line";
        EXPECT_EQ(outcome.out.substr(end + 4, 4), "\r\033[K") << "what comes next clears the line";
    }
}

// What the model thinks here is its answer: the prompt ends within the thinking.
TEST(Terminal, ThinkingIsDimOrShownOrHidden) {
    const std::string thinks = temporary("thinks.jinja", "<|user|>{{ messages[-1].content }}<|end|><|assistant|><think>");
    const auto answer = [&](const char* thinking) {
        return cellar_at_terminal({"run", kModel, "--template", thinks, "-n", "6", "--ignore-eos", "--thinking", thinking, "-p", "My name is Ada."});
    };
    const std::string piped =
        cellar({"run", kModel, "--template", thinks, "-n", "6", "--ignore-eos", "--thinking", "show", "-p", "My name is Ada."}).out;
    ASSERT_GT(piped.size(), 6U) << "the test needs an answer of several pieces";
    const Outcome shown = answer("show");
    EXPECT_EQ(shown.code, 0) << shown.out;
    EXPECT_TRUE(contains(shown.out, piped)) << shown.out;
    const Outcome dim = answer("dim");
    EXPECT_FALSE(contains(dim.out, piped)) << dim.out;
    EXPECT_TRUE(contains(without(without(dim.out, kDim), kPlain), piped)) << dim.out;
    const Outcome hidden = answer("hide");
    EXPECT_FALSE(contains(without(without(hidden.out, kDim), kPlain), piped)) << hidden.out;
    EXPECT_EQ(cellar({"run", kModel, "--template", thinks, "-n", "6", "--ignore-eos", "-p", "My name is Ada."}).out, piped) << "no colours in a pipe";
}

TEST(Terminal, AChatIsTyped) {
    const Outcome outcome = cellar_at_terminal({"chat", kModel}, {{"/help lists the commands", ""},
                                                                  {"> ", "My name is Ada.\r"},
                                                                  {"Hello, Ada.", ""},
                                                                  {"> ", "My name is \\\r"},
                                                                  {". ", "Uma.\r"},
                                                                  {"Hello, Uma.", ""},
                                                                  {"> ", "\"\"\"\r"},
                                                                  {". ", "/exit\r"},
                                                                  {". ", "\"\"\"\r"},
                                                                  {"> ", "/cells\r"},
                                                                  {"\033[", ""},
                                                                  {"> ", "/exit\r"}});
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_FALSE(contains(outcome.out, "no command")) << outcome.out;
}

TEST(Terminal, BackspaceTakesAWholeCharacter) {
    const Outcome outcome = cellar_at_terminal({"chat", kModel}, {{"> ",
                                                                   "My name is Ad\xC3\xA9\x7F"
                                                                   "a.\r"},
                                                                  {"Hello, Ada.", ""},
                                                                  {"> ", "/exit\r"}});
    EXPECT_EQ(outcome.code, 0) << outcome.out;
}

TEST(Terminal, EveryCharacterThatIsTypedArrives) {
    const std::string session = CELLAR_BINARY_DIR "/cli_terminal_test-typed.session";
    for (const char* locale : {"C", "C.UTF-8", "no_SUCH.locale"}) {
        const Outcome outcome = cellar_at_terminal({"chat", kModel, "--session", session, "--session-new"},
                                                   {{"> ", "caf\xC3\xA9 \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\xA6\x8A\r"}, {"\n", ""}, {"> ", "/exit\r"}},
                                                   {{"LC_ALL", locale}});
        EXPECT_EQ(outcome.code, 0) << outcome.out;
        EXPECT_TRUE(contains(cellar({"session", session, "--export-text"}).out, "user: caf\xC3\xA9 \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\xA6\x8A\n"))
            << locale;
    }
}

TEST(Terminal, CtrlCTakesBackALineAndTwiceLeaves) {
    const Outcome stays = cellar_at_terminal({"chat", kModel}, {{"> ", "My name is"},
                                                                {"My name is", kCtrlC},
                                                                {"Ctrl-C again, or /exit, leaves", ""},
                                                                {"> ", "My name is Bo.\r"},
                                                                {"Hello, Bo.", ""},
                                                                {"> ", kCtrlC},
                                                                {"Ctrl-C again, or /exit, leaves", ""},
                                                                {"> ", kCtrlC}});
    EXPECT_EQ(stays.code, 0) << stays.out;
}

TEST(Terminal, CtrlCLeavesOnlyWhereNothingWasTypedSinceTheLast) {
    const Outcome stays = cellar_at_terminal({"chat", kModel}, {{"> ", kCtrlC},
                                                                {"Ctrl-C again, or /exit, leaves", ""},
                                                                {"> ", "My name is"},
                                                                {"My name is", kCtrlC},
                                                                {"Ctrl-C again, or /exit, leaves", ""},
                                                                {"> ", "\"\"\"\r"},
                                                                {". ", "My\r"},
                                                                {". ", kCtrlC},
                                                                {"Ctrl-C again, or /exit, leaves", ""},
                                                                {"> ", "My name is Bo.\r"},
                                                                {"Hello, Bo.", ""},
                                                                {"> ", "/exit\r"}});
    EXPECT_EQ(stays.code, 0) << stays.out;
}

TEST(Terminal, CtrlCEndsAnAnswerAndNotTheChat) {
    std::string system;
    for (int i = 0; i < 2000; ++i) system += "You are Nora. ";
    const Outcome chat = cellar_at_terminal(
        {"chat", kModel, "--ctx", "20000", "--system", system},
        {{"> ", "My name is Ada.\r"}, {"reading 512 of ", kCtrlC}, {"cellar: ", ""}, {"> ", "/system You are Nora.\r"}, {"> ", "/exit\r"}});
    EXPECT_EQ(chat.code, 0) << chat.out;
    // Alone, what was stopped has an exit code of its own.
    const Outcome run = cellar_at_terminal({"run", kModel, "--ctx", "100000", "--ignore-eos", "-p", "My name is Ada."}, {{"Hello", kCtrlC}});
    EXPECT_EQ(run.code, 130) << run.out;
    EXPECT_TRUE(contains(run.out, "tokens/s")) << "what there is of it is summed up: " << run.out;
}

}  // namespace
}  // namespace cellar
