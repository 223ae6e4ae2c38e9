// What the program says about its command line, its output and its files when something is wrong with them.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "model/gguf_writer.h"
#include "ops/ops.h"
#include "support/process.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

using nlohmann::json;
using process::cellar;
using process::Outcome;
using process::temporary;

const std::string kModel = tiny::shipped_path();

// The program with its stdout led elsewhere by a shell.
Outcome shell(const std::string& arguments, const std::string& redirection, const std::string& input = {}) {
    return process::run({"/bin/sh", "-c", "'" CELLAR_BINARY_DIR "/cellar' " + arguments + " " + redirection}, input);
}

TEST(Output, AFullDiskIsAnErrorOfEveryCommand) {
    const std::string text = temporary("text.txt", "My name is Ada. I live in Oslo.");
    const std::string input = temporary("case.json", R"({"messages": [{"role": "user", "content": "Hello"}]})");
    for (const std::string& arguments :
         {std::string("--version"), std::string("--help"), std::string("config"), "inspect " + kModel, "inspect --json " + kModel,
          "tokenize " + kModel + " -p Hello", "run " + kModel + " -p Hello", "run --json " + kModel + " -p Hello", "run --dump-graph text " + kModel,
          "template " + kModel + " --input " + input, "bench --prompt 8 --gen 2 --reps 1 " + kModel, "perplexity " + kModel + " -f " + text}) {
        SCOPED_TRACE(arguments);
        const Outcome outcome = shell(arguments, "> /dev/full");
        EXPECT_EQ(outcome.code, 1);
        EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
        EXPECT_NE(outcome.err.find("cellar: stdout: cannot be written: No space left on device"), std::string::npos) << outcome.err;
    }
    const Outcome chat = shell("chat " + kModel, "> /dev/full", "My name is Ada.\nWhat is my name?\n");
    EXPECT_EQ(chat.code, 1) << chat.err;
    EXPECT_NE(chat.err.find("No space left on device"), std::string::npos) << chat.err;
}

TEST(Output, NobodyReadingItIsNoError) {
    for (const std::string& arguments : {"run " + kModel + " --ignore-eos -n 400 -p Hello", "inspect --keys --tensors " + kModel}) {
        SCOPED_TRACE(arguments);
        const Outcome outcome =
            process::run({"/bin/bash", "-c", "set -o pipefail; '" CELLAR_BINARY_DIR "/cellar' " + arguments + " | head -c 1 > /dev/null"});
        EXPECT_EQ(outcome.code, 0) << outcome.err;
    }
}

// What is said beside the answer may be lost; the answer and the exit code are not.
TEST(Output, AStderrThatCannotBeWrittenChangesNothing) {
    for (const std::string& closed : {std::string("2> /dev/full"), std::string("2>&-")}) {
        SCOPED_TRACE(closed);
        EXPECT_EQ(shell("run " + kModel + " -p 'My name is Ada.'", closed).out, "Hello, Ada.\n");
        EXPECT_EQ(shell("run " + kModel + " -p 'My name is Ada.'", closed).code, 0);
        const Outcome chat = shell("chat " + kModel, closed, "My name is Ada.\n/help\n/stats\n/cells\n/set\n/undo\n/nonsense\n");
        EXPECT_EQ(chat.code, 0);
        EXPECT_EQ(chat.out, "Hello, Ada.\n");
        EXPECT_EQ(shell("run no-such-file.gguf -p x", closed).code, 1);
        EXPECT_EQ(shell("run " + kModel + " -n few", closed).code, 2);
    }
}

TEST(Output, TheContextIsCountedByWhatItHolds) {
    const Outcome full = cellar({"run", kModel, "--ctx", "16", "--raw", "--ignore-eos", "-p", "My name is Ada."});
    EXPECT_EQ(full.code, 3);
    EXPECT_NE(full.err.find("context 16 of 16"), std::string::npos) << full.err;
}

TEST(Usage, EveryWrongFlagHasTheSameExitCode) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> usage{
        {{"run", kModel, "-p", "x", "-n", "few"}, "'few'"},
        {{"run", kModel, "-p", "x", "-n", "-2"}, "-n"},
        {{"run", kModel, "-p", "x", "--ctx", "0"}, "--ctx"},
        {{"chat", kModel, "--ctx", "99999999999"}, "--ctx"},
        {{"run", kModel, "-p", "x", "--threads", "two"}, "--threads"},
        {{"run", kModel, "-p", "x", "--cache-type", "Q8_0"}, "--cache-type"},
        {{"run", kModel, "-p", "x", "--cpu-target", "AVX9"}, "AVX9"},
        {{"run", kModel, "-p", "x", "--thinking", "loud"}, "loud"},
        {{"run", kModel, "-p", "x", "-f", "y"}, "not with both"},
        {{"run", kModel, "--raw", "-p", "x", "--system", "y"}, "--system"},
        {{"run", kModel, "--dump-graph", "png"}, "png"},
        {{"chat", kModel, "--overflow", "forget"}, "drop-turns"},
        {{"chat", kModel, "--session-new"}, "--session FILE"},
        {{"chat", kModel, "--session-prefix"}, "--session FILE"},
        {{"chat", kModel, "--session", "x", "--session-new", "--session-prefix"}, "anew"},
        {{"bench", kModel, "--reps", "0"}, "--reps"},
        {{"bench", kModel, "--prompt", "0", "--gen", "0"}, "nothing to measure"},
        {{"bench", kModel, "--json", "--profile"}, "--profile"},
        {{"perplexity", kModel, "-f", "x", "--window", "1"}, "--window"},
        {{"logits", kModel, "--tokens", "x", "--out", "y", "--last", "-1"}, "--last"},
        {{"tokenize", kModel, "-p", "x", "-f", "y"}, "not with both"},
        {{"template", "--input", "x"}, "MODEL"},
        {{"inspect", kModel, "--sessions", "0"}, "--sessions"},
        {{"session", "x", "--prune", "--export-text"}, "--export-text"},
        {{"session", "x", "--branch", "y"}, "--branch"},
        {{"session", "x", "--json", "--export-text"}, "--json"},
        {{"session", "x", "--json", "--prune"}, "--json"},
        {{"session", "x", "--json", "--drop", "y"}, "--json"},
        {{"run", kModel, "-p", "x", "--overflow", "drop-turns"}, "stop, shift, slide"},
        {{"config", "--threads", "0"}, "--threads"},
        // Values that a script forgot to set.
        {{"run", ""}, "model is empty"},
        {{"chat", kModel, "--session", ""}, "--session is empty"},
        {{"run", kModel, "-p", "x", "--template", ""}, "--template is empty"},
        {{"run", kModel, "-p", "x", "--ctx", ""}, "--ctx is empty"},
        {{"run", kModel, "-p", "x", "--cache-type", ""}, "--cache-type is empty"},
        {{"run", kModel, "-p", "x", "-n", ""}, "is empty"},
        {{"run", kModel, "-f", ""}, "is empty"},
        {{"run", kModel, "-p", "x", "--stop", ""}, "--stop is empty"},
        {{"logits", kModel, "--tokens", "", "--out", "x"}, "--tokens is empty"},
        {{"run", kModel, "--cache-type=", "-p", "x"}, "--cache-type is empty"},
        {{"run", kModel, "--temp=", "-p", "x"}, "--temperature is empty"},
        {{"chat", kModel, "--session="}, "--session is empty"},
        {{"session", "x", "--drop=", "--prune"}, "--drop is empty"},
        {{"run", kModel, "-p", "x", "--json="}, "--json takes no value"},
    };
    for (const auto& [arguments, word] : usage) {
        SCOPED_TRACE(arguments.back());
        const Outcome outcome = cellar(arguments);
        EXPECT_EQ(outcome.code, 2) << outcome.err;
        EXPECT_EQ(outcome.out, "");
        EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
        EXPECT_NE(outcome.err.find(word), std::string::npos) << "'" << word << "' is not in: " << outcome.err;
    }
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, std::string>>{{"CELLAR_THREADS", "-2"}, {"CELLAR_CACHE_TYPE", "fp8"}, {"CELLAR_CTX", "x"}}) {
        const Outcome outcome = cellar({"config"}, "", {{name, value}});
        EXPECT_EQ(outcome.code, 2);
        EXPECT_NE(outcome.err.find(name), std::string::npos) << outcome.err;
    }
    // An empty text is a text, and an empty variable is none.
    EXPECT_EQ(cellar({"run", kModel, "-p", ""}).code, 1);
    EXPECT_EQ(cellar({"run", kModel, "-p", "My name is Ada.", "--system", ""}).out, "Hello, Ada.\n");
    EXPECT_EQ(cellar({"run", kModel, "--system=", "-p", "My name is Ada."}).out, "Hello, Ada.\n");
    EXPECT_EQ(cellar({"tokenize", kModel, "--ids", "--no-bos", "-p", "--ctx="}).code, 0) << "a text may look like a flag";
    EXPECT_EQ(cellar({"config"}, "", {{"CELLAR_CTX", ""}}).code, 0);
}

TEST(Usage, ATargetThatIsNotThereIsAnsweredWithThoseThatAre) {
    for (const auto& [name, outcome] : {std::pair{"--cpu-target", cellar({"config", "--cpu-target", "AVX9"})},
                                        std::pair{"CELLAR_CPU_TARGET", cellar({"config"}, "", {{"CELLAR_CPU_TARGET", "AVX9"}})}}) {
        EXPECT_EQ(outcome.code, 2);
        EXPECT_EQ(outcome.err,
                  fmt::format("cellar: {} is 'AVX9', which this machine or this build does not have; it has {}\n", name, ops::cpu_targets()));
    }
}

TEST(Blame, GoesToWhatIsWrong) {
    const std::string broken = temporary("broken.jinja", "{% if x %}");
    const Outcome parsed = cellar({"run", kModel, "-p", "x", "--template", broken});
    EXPECT_EQ(parsed.code, 1);
    EXPECT_NE(parsed.err.find("--template " + broken), std::string::npos) << parsed.err;
    EXPECT_EQ(parsed.err.find(kModel), std::string::npos) << parsed.err;
    const Outcome rendered = cellar({"run", kModel, "-p", "x", "--template", temporary("raises.jinja", "{{ raise_exception('no') }}")});
    EXPECT_NE(rendered.err.find("raises.jinja"), std::string::npos) << rendered.err;
    const Outcome prompt = cellar({"run", kModel, "-p", "caf\xe9"});
    EXPECT_EQ(prompt.code, 1);
    EXPECT_NE(prompt.err.find("user's message is not UTF-8 at byte 3"), std::string::npos) << prompt.err;
    const Outcome system = cellar({"run", kModel, "-p", "x", "--system", "\xff"});
    EXPECT_NE(system.err.find("system text is not UTF-8"), std::string::npos) << system.err;
}

TEST(Blame, AnInputThatCannotBeReadIsNoEmptyOne) {
    for (const std::string& arguments :
         {"run " + kModel, "run " + kModel + " -f -", "tokenize " + kModel + " -f -", "perplexity " + kModel + " -f -"}) {
        SCOPED_TRACE(arguments);
        const Outcome folder = shell(arguments, "< /");
        EXPECT_EQ(folder.code, 1);
        EXPECT_EQ(folder.err, "cellar: stdin: is a folder, not a file\n");
        const Outcome closed = shell(arguments, "<&-");
        EXPECT_EQ(closed.code, 1);
        EXPECT_EQ(closed.err, "cellar: stdin: cannot read it: Bad file descriptor\n");
    }
}

TEST(Blame, AChatThatCannotBeReadIsNotAtItsEnd) {
    for (const char* input : {"< /", "<&-"}) {
        SCOPED_TRACE(input);
        const Outcome chat = shell("chat " + kModel, input);
        EXPECT_EQ(chat.code, 1);
        EXPECT_NE(chat.err.find("cellar: stdin: cannot read it: "), std::string::npos) << chat.err;
    }
}

TEST(Blame, LogitsOverwriteNothingThatIsRead) {
    const std::string model = std::string(CELLAR_BINARY_DIR) + "/cli-output-model.gguf";
    std::filesystem::copy_file(kModel, model, std::filesystem::copy_options::overwrite_existing);
    const std::string ids = temporary("ids.txt", "1 2 3");
    const std::string link = model + "-link";
    std::filesystem::remove(link);
    std::filesystem::create_hard_link(model, link);
    for (const std::string& out : {model, link, ids}) {
        const Outcome outcome = cellar({"logits", model, "--tokens", ids, "--out", out});
        EXPECT_EQ(outcome.code, 1);
        EXPECT_NE(outcome.err.find("would overwrite"), std::string::npos) << outcome.err;
    }
    EXPECT_EQ(std::filesystem::file_size(model), std::filesystem::file_size(kModel));
    EXPECT_EQ(*read_file(ids, 100), "1 2 3");
    std::filesystem::remove(model);
    std::filesystem::remove(link);
}

TEST(Inspect, ANameStaysOnItsLine) {
    const auto file = *gguf::File::open(kModel);
    gguf::Writer out;
    for (const gguf::Key& key : file.keys())
        if (key.name == "general.architecture") out.add("general.architecture", "llama");
    out.add("general.name", "two\nlines\033[31m");
    const std::string path = std::string(CELLAR_BINARY_DIR) + "/cli-output-name.gguf";
    ASSERT_TRUE(out.write(path));
    const Outcome outcome = cellar({"inspect", path, "--keys"});
    EXPECT_EQ(outcome.out.find("two\nlines"), std::string::npos) << outcome.out;
    EXPECT_EQ(outcome.out.find('\033'), std::string::npos) << outcome.out;
    std::filesystem::remove(path);
}

TEST(Inspect, PlansTheMemoryOfSeveralSessionsAndTheLargestContext) {
    const auto plan = [](std::vector<std::string> flags) {
        std::vector<std::string> arguments{"inspect", kModel, "--json", "--kv-budget", "256MiB"};
        arguments.insert(arguments.end(), flags.begin(), flags.end());
        const Outcome outcome = cellar(arguments);
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        return json::parse(outcome.out);
    };
    const json one = plan({"--ctx", "1024"});
    const json three = plan({"--ctx", "1024", "--sessions", "3"});
    EXPECT_EQ(one["sessions"], 1);
    EXPECT_EQ(three["sessions"], 3);
    EXPECT_GT(three["cache_bytes"], 2 * one["cache_bytes"].get<int64_t>());
    EXPECT_TRUE(one["fits"]);
    for (const json& asked : {one, three}) {
        const auto largest = asked["largest_context"].get<int64_t>();
        const std::string sessions = std::to_string(asked["sessions"].get<int>());
        EXPECT_TRUE(plan({"--ctx", std::to_string(largest), "--sessions", sessions})["fits"]) << largest;
        EXPECT_FALSE(plan({"--ctx", std::to_string(largest + 1), "--sessions", sessions})["fits"]) << largest;
    }
    EXPECT_GT(one["largest_context"].get<int64_t>(), 2 * three["largest_context"].get<int64_t>());
    EXPECT_GT(plan({"--ctx", "1024", "--cache-type", "q8_0"})["largest_context"], one["largest_context"]);
    // What is planned is what it comes to.
    const json answer = json::parse(cellar({"run", kModel, "--json", "--raw", "--ignore-eos", "--ctx", "256", "-p", "My name is Ada."}).out);
    EXPECT_EQ(answer["stop"], "context");
    EXPECT_LE(answer["cache_bytes"].get<int64_t>(), plan({"--ctx", "256", "--sessions", "2"})["cache_bytes"].get<int64_t>());
    EXPECT_NE(cellar({"inspect", kModel, "--ctx", "1024", "--sessions", "3"}).out.find("3 sessions of 1024 tokens"), std::string::npos);
}

}  // namespace
}  // namespace cellar
