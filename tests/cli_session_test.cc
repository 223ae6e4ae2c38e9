// Sessions as a user of the program meets them: saved, taken up, moved, damaged, full, looked into.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "engine/session_directory.h"
#include "support/process.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using process::cellar;
using process::Outcome;

const std::string kModel = tiny::shipped_path();

class CliSession : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = fs::path(CELLAR_BINARY_DIR) / ("cli-session-" + std::to_string(getpid()));
        fs::remove_all(folder_);
        fs::create_directory(folder_);
        file_ = folder_ / "chat.session";
    }
    void TearDown() override { fs::remove_all(folder_); }
    Outcome chat(const std::string& input, std::vector<std::string> flags = {}) const {
        std::vector<std::string> arguments{"chat", kModel, "--session", file_};
        arguments.insert(arguments.end(), flags.begin(), flags.end());
        return cellar(arguments, input);
    }
    std::string bytes() const { return *read_file(file_, size_t{1} << 28); }
    static void expect(const Outcome& outcome, const std::string& words) {
        EXPECT_NE(outcome.err.find(words), std::string::npos) << "'" << words << "' is not in: " << outcome.err;
    }
    static size_t count(const std::string& text, const std::string& words) {
        size_t n = 0;
        for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; ++at) ++n;
        return n;
    }

    fs::path folder_;
    std::string file_;
};

TEST_F(CliSession, ASaveThatFailsCostsTheExitCodeAndIsSaidOnce) {
    const Outcome outcome = cellar({"chat", kModel, "--session", "/dev/full/chat.session"}, "My name is Ada.\n");
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "") << "a place that cannot be is refused before the first turn";
    // The place of the file is taken while the chat runs; the shell writes the second message only then.
    ASSERT_EQ(chat("My name is Ada.\n").code, 0);
    const std::string script = "{ echo 'I live in Oslo.'; sleep 1; mv '" + file_ + "' '" + file_ + ".moved'; echo precious > '" + file_ +
                               "'; echo 'What is my name?'; echo 'Where do I live?'; } | '" CELLAR_BINARY_DIR "/cellar' chat '" + kModel +
                               "' --session '" + file_ + "'";
    const Outcome taken = process::run({"/bin/sh", "-c", script});
    EXPECT_EQ(taken.code, 1) << taken.err;
    EXPECT_EQ(count(taken.err, "not saved"), 1U) << taken.err;
    expect(taken, "another file has taken its place");
    EXPECT_EQ(taken.out, "Oslo is a fine place to live.\nYour name is Ada.\nYou live in Oslo.\n");
    EXPECT_EQ(bytes(), "precious\n");
}

TEST_F(CliSession, ANameThatNoSaveCouldUseIsRefusedBeforeTheFirstTurn) {
    file_ = folder_ / std::string(240, 'n');
    const Outcome outcome = chat("My name is Ada.\n");
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    expect(outcome, "bytes at most, and this has 240");
    file_ = folder_ / std::string(229, 'n');
    EXPECT_EQ(chat("My name is Ada.\n").code, 0);
    EXPECT_EQ(chat("What is my name?\n").out, "Your name is Ada.\n");
}

TEST_F(CliSession, OnlyWhatWasNotSavedCostsTheExitCode) {
    EXPECT_EQ(chat("/regen\n/goto 99\n/drop nope\n/nonsense\n").code, 0);
    const Outcome outcome = chat("My name is Ada.\n/save /no/such/folder/x\n");
    EXPECT_EQ(outcome.code, 1);
    expect(outcome, "there is no folder");
}

TEST_F(CliSession, WhatIsNoFileTakesNoSession) {
    ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
    for (const std::vector<std::string>& flags : {std::vector<std::string>{}, {"--session-new"}, {"--session-prefix"}}) {
        const Outcome outcome = chat("My name is Ada.\n", flags);
        EXPECT_EQ(outcome.code, 1);
        expect(outcome, "no regular file");
        EXPECT_EQ(count(outcome.err, "--session-new"), 0U) << "it would not help: " << outcome.err;
    }
}

TEST_F(CliSession, APrefixIsNotAdvisedWhereItWouldNotHelp) {
    ASSERT_EQ(chat("My name is Ada.\n").code, 0);
    std::string damaged = bytes();
    for (size_t i = 1000; i < 1100; ++i) damaged[i] = 'x';
    std::ofstream(file_, std::ios::binary) << damaged;
    expect(chat("What is my name?\n"), "--session-prefix goes on with what is whole");
    std::ofstream(file_, std::ios::binary) << "something else";
    const Outcome outcome = chat("What is my name?\n");
    EXPECT_EQ(count(outcome.err, "--session-prefix"), 0U) << outcome.err;
    expect(outcome, "--session-new");
}

TEST_F(CliSession, TheModelIsNotMovedAway) {
    fs::copy_file(kModel, file_);
    for (const std::vector<std::string>& flags : {std::vector<std::string>{}, {"--session-new"}}) {
        std::vector<std::string> arguments{"chat", file_, "--session", file_};
        arguments.insert(arguments.end(), flags.begin(), flags.end());
        const Outcome outcome = cellar(arguments, "My name is Ada.\n");
        EXPECT_EQ(outcome.code, 1);
        expect(outcome, "it is the model");
    }
    EXPECT_EQ(fs::file_size(file_), fs::file_size(kModel));
}

TEST_F(CliSession, BeginningAnewSaysWhereTheOldFileIs) {
    ASSERT_EQ(chat("My name is Ada.\n").code, 0);
    const std::string before = bytes();
    const Outcome outcome = chat("I live in Oslo.\n", {"--session-new"});
    EXPECT_EQ(outcome.code, 0);
    expect(outcome, "what was there is kept as " + file_ + ".old");
    EXPECT_EQ(*read_file(file_ + ".old", size_t{1} << 28), before);
    EXPECT_EQ(chat("I live in Oslo.\n").err.find("what was there"), std::string::npos);
}

// A message that goes to a closed stderr does not go into the session file, which would have its number.
TEST_F(CliSession, ClosedStreamsDoNotGetIntoTheFile) {
    for (const std::string& closed : {std::string("2>&-"), std::string("2>&- >&-"), std::string("<&- 2>&- >&-")}) {
        const std::string input = closed.starts_with("<") ? "" : "printf 'My name is Ada.\n/stats\n' | ";
        process::run({"/bin/sh", "-c", input + "'" CELLAR_BINARY_DIR "/cellar' chat '" + kModel + "' --session '" + file_ + "' " + closed});
        if (!fs::exists(file_)) continue;
        EXPECT_EQ(cellar({"session", file_}).code, 0);
        EXPECT_EQ(bytes().find("cellar:"), std::string::npos);
    }
    ASSERT_TRUE(fs::exists(file_));
}

TEST_F(CliSession, AFileThatIsDeletedMeanwhileIsWrittenAnew) {
    const std::string script = "{ echo 'My name is Ada.'; sleep 1; rm '" + file_ +
                               "'; echo 'I live in Oslo.'; } | '" CELLAR_BINARY_DIR "/cellar' chat '" + kModel + "' --session '" + file_ + "'";
    const Outcome outcome = process::run({"/bin/sh", "-c", script});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    expect(outcome, "deleted or moved away");
    EXPECT_EQ(chat("What is my name?\n").out, "Your name is Ada.\n");
}

TEST_F(CliSession, BranchesCanBeDropped) {
    const Outcome first = chat("My name is Ada.\n/fork other\n/drop other\n/drop\n/drop nobody\n/switch main\n/drop other\n/switch\n/switch other\n");
    EXPECT_EQ(first.code, 0) << first.err;
    for (const char* words : {"this is branch 'other'; /switch to another one first", "/drop wants the name", "no branch 'nobody'",
                              "branch 'other' is gone", "branches: main (here)\n", "no branch 'other'"})
        expect(first, words);
    const Outcome second = chat("/switch\n/fork other\n");
    expect(second, "branches: main (here)\n");
    expect(second, "this is branch 'other' now");
}

TEST_F(CliSession, TheMostBranchesAreSaid) {
    std::string input = "My name is Ada.\n";
    for (int i = 0; i < 33; ++i) input += "/fork b" + std::to_string(i) + "\n";
    const Outcome outcome = chat(input + "/drop b3\n/fork more\nWhat is my name?\n/help\n");
    expect(outcome, "32 branches are open, which is the most a chat can have; /drop NAME lets one go");
    expect(outcome, "this is branch 'more' now");
    expect(outcome, "shares everything so far; up to 32 at a time\n");
    EXPECT_EQ(outcome.out, "Hello, Ada.\nYour name is Ada.\n");
}

TEST_F(CliSession, AFullContextNamesWhatMakesRoom) {
    std::string text;
    for (int i = 0; i < 30; ++i) text += "My name is Ada. ";
    const Outcome outcome = chat("/fork other\n" + text + "\n", {"--ctx", "64", "--overflow", "stop"});
    EXPECT_EQ(outcome.code, 3);
    for (const char* words : {"the context holds 64", "/undo", "/clear", "/drop"}) expect(outcome, words);
}

TEST_F(CliSession, SaveSaysWhatIsUpToDate) {
    const Outcome outcome = chat("My name is Ada.\n/save\n");
    expect(outcome, "chat.session is up to date");
    EXPECT_EQ(outcome.err.find(" 0 tokens"), std::string::npos) << outcome.err;
}

TEST_F(CliSession, LoadGoesOnFromAnotherFile) {
    const std::string other = folder_ / "other.session";
    ASSERT_EQ(cellar({"chat", kModel, "--session", other}, "My name is Eva.\n/fork second\nI live in Rome.\n").code, 0);
    const Outcome outcome = chat("My name is Ada.\n/load " + other + "\nWhat is my name?\nWhere do I live?\n/load " + file_ + "\nWhat is my name?\n");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "Hello, Ada.\nYour name is Eva.\nYou live in Rome.\nYour name is Ada.\n") << outcome.err;
    // Nothing that is not saved is let go, and nothing is taken that is not there.
    const Outcome refused = cellar({"chat", kModel}, "My name is Ada.\n/load " + file_ + "\n/load\n/clear\n/load " + other + "-no\n/load " + kModel +
                                                         "\nMy name is Bo.\nWhat is my name?\n");
    for (const char* words : {"stands in no file", "/load wants a file name", "no such file", "no session file"}) expect(refused, words);
    EXPECT_NE(refused.out.find("Your name is Bo."), std::string::npos) << refused.out;
    EXPECT_FALSE(fs::exists(other + "-no"));
}

// A file whose chat is longer than the context cannot be taken up; the chat before goes on, whatever it stands in.
TEST_F(CliSession, ALoadThatFailsGoesBack) {
    const std::string longer = folder_ / "longer.session";
    std::string input;
    for (int i = 0; i < 12; ++i) input += "Tell me a story about a fox and a bear.\n";
    ASSERT_EQ(cellar({"chat", kModel, "--session", longer}, input).code, 0);
    const std::string then = "/load " + longer + "\nMy name is Ada.\n/load " + longer + "\nWhat is my name?\n";
    // Nothing is saved before the first /load; with a file, the second one finds a turn there.
    const Outcome saved = chat(then, {"--ctx", "200"});
    EXPECT_EQ(saved.code, 0) << saved.err;
    EXPECT_EQ(count(saved.err, "--session-prefix"), 2U) << saved.err;
    EXPECT_EQ(saved.out, "Hello, Ada.\nYour name is Ada.\n") << saved.err;
    const Outcome unsaved = cellar({"chat", kModel, "--ctx", "200"}, then);
    EXPECT_EQ(unsaved.code, 0) << unsaved.err;
    expect(unsaved, "--session-prefix");
    expect(unsaved, "stands in no file");
    EXPECT_EQ(unsaved.out, "Hello, Ada.\nYour name is Ada.\n") << unsaved.err;
}

// What was good when it was opened is damaged before it is needed again: there is no chat left to go on with.
TEST_F(CliSession, ALoadThatCannotGoBackLeaves) {
    const std::string longer = folder_ / "longer.session";
    std::string input;
    for (int i = 0; i < 12; ++i) input += "Tell me a story about a fox and a bear.\n";
    ASSERT_EQ(cellar({"chat", kModel, "--session", longer}, input).code, 0);
    ASSERT_EQ(chat("My name is Ada.\n").code, 0);
    uint64_t piece = 0;
    {
        const auto file = SessionFile::open(file_);
        ASSERT_TRUE(file);
        for (const auto& [id, section] : (*file)->sections())
            if (section.kind == SectionKind::Piece) piece = section.offset + kSectionHeaderBytes;
    }
    const std::string script = "{ echo /stats; sleep 2; printf 'damaged!' | dd of='" + file_ + "' bs=1 seek=" + std::to_string(piece) +
                               " conv=notrunc 2> /dev/null; echo '/load " + longer +
                               "'; echo 'What is my name?'; } | '" CELLAR_BINARY_DIR "/cellar' chat '" + kModel + "' --ctx 200 --session '" + file_ +
                               "'";
    const Outcome outcome = process::run({"/bin/sh", "-c", script});
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    expect(outcome, "--session-prefix");
    expect(outcome, "nor can the chat before be taken up again");
}

TEST_F(CliSession, GotoTakesBackTurns) {
    const Outcome outcome =
        chat("My name is Ada.\nI live in Oslo.\nMy name is Bo.\n/goto\n/goto 7\n/goto x\n/goto 2\nWhat is my name?\n/goto 0\nWhat is my name?\n");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    for (const char* words : {"   1  My name is Ada.\n", "   3  My name is Bo.\n", "must lie in [0, 3]", "'x'", "behind turn 2 of 3"})
        expect(outcome, words);
    EXPECT_NE(outcome.out.find("Your name is Ada.\n"), std::string::npos) << outcome.out;
    EXPECT_TRUE(outcome.out.ends_with("You have not told me your name.\n")) << outcome.out;
}

TEST_F(CliSession, CellsAreShown) {
    const Outcome outcome = chat("My name is Ada.\n/fork other\nI live in Oslo.\nThe code for the red door is 4821.\n/cells\n");
    expect(outcome, "blocks of 32 tokens");
    expect(outcome, "a main ");
    expect(outcome, "b other ");
    expect(outcome, "* several branches");
    EXPECT_EQ(outcome.err.find('\033'), std::string::npos);
}

TEST_F(CliSession, RestoredBranchesShareTheirCells) {
    std::string input;
    for (int i = 0; i < 6; ++i) input += "The code for the red door is 482" + std::to_string(i) + ".\n";
    ASSERT_EQ(chat(input + "/fork other\nMy name is Ada.\n/switch main\nMy name is Bo.\n").code, 0);
    const Outcome outcome = chat("/switch other\nWhat is my name?\n/switch main\nWhat is my name?\n");
    expect(outcome, "tokens are shared with open branches");
    EXPECT_EQ(outcome.out, "Your name is Ada.\nYour name is Bo.\n");
}

TEST_F(CliSession, SamplingSettingsComeBackUnlessFlagsSayOtherwise) {
    ASSERT_EQ(chat("My name is Ada.\n/set temperature 0.25\n/set seed 7\n").code, 0);
    const auto setting = [&](const Outcome& outcome, const std::string& name) {
        const size_t at = outcome.err.find("\n" + name + " ");
        return at == std::string::npos ? std::string() : outcome.err.substr(at + 21, outcome.err.find('\n', at + 1) - at - 21);
    };
    const Outcome again = chat("/set\n");
    EXPECT_EQ(setting(again, "temperature"), "0.25") << again.err;
    EXPECT_EQ(setting(again, "seed"), "7");
    EXPECT_EQ(setting(chat("/set\n", {"--top-k", "3"}), "temperature"), "0");
    const Outcome loaded = cellar({"chat", kModel}, "/load " + file_ + "\n/set\n");
    EXPECT_EQ(setting(loaded, "temperature"), "0.25") << loaded.err;
}

TEST_F(CliSession, LinesMayEndAsOnOtherSystems) {
    const Outcome outcome = chat("My name is Ada.\r\n\"\"\"\r\nWhat is\r\nmy name?\r\n\"\"\"\r\n/exit\r\nnot read\r\n");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(count(outcome.out, "\n"), 2U) << outcome.out;
    EXPECT_EQ(outcome.err.find("no command"), std::string::npos) << outcome.err;
}

TEST_F(CliSession, ADamagedLastSaveIsSaidAndKept) {
    ASSERT_EQ(chat("My name is Ada.\n").code, 0);
    const size_t before = bytes().size();
    ASSERT_EQ(chat("I live in Oslo.\n").code, 0);
    std::string damaged = bytes();
    damaged[before + 60] ^= 1;
    std::ofstream(file_, std::ios::binary) << damaged;
    const Outcome outcome = chat("What is my name?\nWhere do I live?\n");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    expect(outcome, "damaged");
    EXPECT_TRUE(outcome.out.starts_with("Your name is Ada.\n")) << outcome.out;
    EXPECT_EQ(*read_file(file_ + ".damaged", size_t{1} << 28), damaged);
}

TEST_F(CliSession, AnAnswerIsRightOnOtherTargets) {
    ASSERT_EQ(chat("My name is Ada.\nThe code for the red door is 4821.\n").code, 0);
    for (const char* target : {"AVX2", "SSE4", "SSSE3", "SSE2", "EMU128", "SCALAR"}) {
        SCOPED_TRACE(target);
        const Outcome outcome = chat("What is the code for the red door?\nWhat is my name?\n", {"--cpu-target", target});
        if (outcome.code == 2) {
            expect(outcome, "this machine or this build does not have");
            EXPECT_TRUE(std::string(target) != "AVX2" || !__builtin_cpu_supports("avx2"));
            continue;
        }
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        EXPECT_EQ(outcome.out, "The code for the red door is 4821.\nYour name is Ada.\n") << outcome.err;
    }
}

TEST_F(CliSession, APrefixOfATooLongSessionIsTakenOnRequest) {
    std::string input;
    for (int i = 0; i < 12; ++i) input += "Tell me a story about a fox and a bear.\n";
    ASSERT_EQ(chat(input + "The code for the red door is 4821.\n").code, 0);
    const Outcome refused = chat("What is the code for the red door?\n", {"--ctx", "200"});
    EXPECT_EQ(refused.code, 1);
    expect(refused, "--session-prefix");
    const Outcome taken = chat("What is the code for the red door?\n", {"--ctx", "200", "--session-prefix"});
    EXPECT_EQ(taken.code, 0) << taken.err;
    expect(taken, "200 of ");
    expect(taken, "forgot ");
    EXPECT_EQ(taken.out, "The code for the red door is 4821.\n");
    // What the small context has no room for is not lost.
    expect(taken, "is kept as " + file_ + ".damaged");
    EXPECT_EQ(cellar({"chat", kModel, "--session", file_ + ".damaged"}, "What is the code for the red door?\n").out,
              "The code for the red door is 4821.\n");
}

TEST_F(CliSession, WhatWasClearedIsNotInTheFile) {
    ASSERT_EQ(chat("The code for the red door is 4821.\n/clear\n").code, 0);
    ASSERT_EQ(cellar({"session", file_, "--prune"}).code, 0);
    EXPECT_EQ(bytes().find("4821"), std::string::npos);
    EXPECT_EQ(cellar({"session", file_, "--export-text"}).out.find("4821"), std::string::npos);
}

TEST_F(CliSession, WhatWasRefusedIsNotInTheFile) {
    ASSERT_EQ(chat("My name is Ada.\n", {"--ctx", "64", "--overflow", "stop"}).code, 0);
    std::string secret = "The code for the red door is 4821.";
    for (int i = 0; i < 4; ++i) secret += " " + secret;
    expect(chat(secret + "\n", {"--ctx", "64", "--overflow", "stop"}), "the context holds 64");
    ASSERT_EQ(cellar({"session", file_, "--prune"}).code, 0);
    EXPECT_EQ(bytes().find("4821"), std::string::npos);
}

TEST_F(CliSession, WhatWasTakenBackIsNotInTheFile) {
    ASSERT_EQ(chat("My name is Ada.\n").code, 0);
    const json before = json::parse(cellar({"session", file_, "--json"}).out);
    const Outcome outcome = chat("The code for the red door is 4821.\nTell me a story about a fox and a bear.\n/undo\n/undo\n");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json after = json::parse(cellar({"session", file_, "--json"}).out);
    // The last token of an answer is read with the next message.
    EXPECT_LE(after["branches"][0]["tokens"].get<int>(), before["branches"][0]["tokens"].get<int>() + 1);
    EXPECT_EQ(cellar({"session", file_, "--prune"}).code, 0);
    EXPECT_EQ(bytes().find("4821"), std::string::npos);
    // A context that holds what is left takes it.
    const Outcome small = chat("What is my name?\n", {"--ctx", "100"});
    EXPECT_EQ(small.code, 0) << small.err;
    EXPECT_EQ(small.out, "Your name is Ada.\n");
    expect(small, "nothing was read anew");
}

TEST_F(CliSession, TheFileSaysWhatIsInIt) {
    ASSERT_EQ(chat("My name is Ada.\nI live in Oslo.\n/fork other\nThe code for the red door is 4821.\n", {"--system", "You are Nora."}).code, 0);
    for (const std::vector<std::string>& arguments : {std::vector<std::string>{"session", file_}, {"inspect", file_}}) {
        const Outcome outcome = cellar(arguments);
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        for (const char* words : {"llama", "f16", "other ", "6 messages", "main ", "4 messages", "shared with other"})
            EXPECT_NE(outcome.out.find(words), std::string::npos) << words << " is not in: " << outcome.out;
    }
    const json found = json::parse(cellar({"session", file_, "--json"}).out);
    ASSERT_EQ(found["branches"].size(), 2U);
    EXPECT_EQ(found["branches"][0]["name"], "other");
    EXPECT_EQ(found["branches"][0]["messages"], 6);
    EXPECT_EQ(found["branches"][0]["pure"], found["branches"][0]["tokens"]);
    EXPECT_EQ(cellar({"session", file_, "--export-text", "--branch", "main"}).out,
              "system: You are Nora.\n\nuser: My name is Ada.\n\nassistant: Hello, Ada.\n\nuser: I live in Oslo.\n\nassistant: Oslo is a fine "
              "place to live.\n");
    EXPECT_NE(cellar({"session", file_, "--export-text"}).out.find("user: The code for the red door is 4821.\n"), std::string::npos);
    EXPECT_EQ(cellar({"session", file_, "--export-text", "--branch", "nobody"}).code, 1);
    EXPECT_EQ(cellar({"session", file_ + "-no"}).code, 1);
    EXPECT_FALSE(fs::exists(file_ + "-no"));
    EXPECT_EQ(cellar({"session", kModel}).code, 1);
    // Flags that only a model can answer.
    for (const std::vector<std::string>& flags :
         {std::vector<std::string>{"--keys"}, {"--tensors"}, {"--sessions", "2"}, {"--ctx", "64"}, {"--cache-type", "q8_0"}}) {
        std::vector<std::string> arguments{"inspect", file_};
        arguments.insert(arguments.end(), flags.begin(), flags.end());
        const Outcome outcome = cellar(arguments);
        EXPECT_EQ(outcome.code, 2) << flags.front();
        EXPECT_EQ(outcome.out, "") << flags.front();
        expect(outcome, "it is a session file");
    }
    EXPECT_EQ(cellar({"inspect", file_, "--json", "--verbose"}).code, 0);
}

TEST_F(CliSession, AFileCanBePruned) {
    ASSERT_EQ(chat("My name is Ada.\n/fork other\nI live in Oslo.\n").code, 0);
    const size_t before = bytes().size();
    const Outcome pruned = cellar({"session", file_, "--prune"});
    EXPECT_EQ(pruned.code, 0) << pruned.err;
    EXPECT_LT(bytes().size(), before);
    EXPECT_EQ(json::parse(cellar({"session", file_, "--json"}).out)["dead_bytes"], 0);
    EXPECT_EQ(cellar({"session", file_, "--drop", "nobody"}).code, 1);
    EXPECT_EQ(cellar({"session", file_, "--drop", "other"}).code, 0);
    EXPECT_EQ(json::parse(cellar({"session", file_, "--json"}).out)["branches"].size(), 1U);
    EXPECT_EQ(chat("What is my name?\nWhere do I live?\n").out.substr(0, 18), "Your name is Ada.\n");
}

// A file that somebody works with is left alone, and so is its reader.
TEST_F(CliSession, ASessionInUseIsRefusedByName) {
    ASSERT_EQ(chat("My name is Ada.\n").code, 0);
    const auto held = SessionFile::open(file_);
    ASSERT_TRUE(held);
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"chat", kModel, "--session", file_}, {"session", file_}, {"session", file_, "--prune"}}) {
        const Outcome outcome = cellar(arguments, "What is my name?\n");
        EXPECT_EQ(outcome.code, 1);
        expect(outcome, "another process has this session open");
    }
}

// Who only looks gets in nobody's way who only looks, and is refused no file that can be read.
TEST_F(CliSession, LookingAtASessionNeedsNoRightToChangeIt) {
    ASSERT_EQ(chat("My name is Ada.\n").code, 0);
    const auto reader = SessionFile::open(file_, Reading::Whole, Access::Read);
    ASSERT_TRUE(reader);
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"session", file_}, {"session", file_, "--json"}, {"session", file_, "--export-text"}, {"inspect", file_}})
        EXPECT_EQ(cellar(arguments).code, 0) << arguments[0];
    EXPECT_EQ(cellar({"session", file_, "--prune"}).code, 1);
    EXPECT_EQ(cellar({"session", file_ + "-none"}).code, 1);
}

}  // namespace
}  // namespace cellar
