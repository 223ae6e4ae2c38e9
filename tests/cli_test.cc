// The program as a user meets it: answers, exit codes, and one line that says what is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "model/gguf_writer.h"
#include "support/golden_recipe.h"
#include "support/process.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

using nlohmann::json;
using process::cellar;
using process::Outcome;
using process::temporary;

const std::string kModel = tiny::shipped_path();

// A refusal is one line on stderr and nothing on stdout.
void expect_refusal(const Outcome& outcome, int code, const std::string& word) {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("cellar: ")) << outcome.err;
    EXPECT_NE(outcome.err.find(word), std::string::npos) << "'" << word << "' is not in: " << outcome.err;
}

TEST(Run, AnswersAPromptFromEverywhere) {
    EXPECT_EQ(cellar({"run", kModel, "-p", "My name is Ada."}).out, "Hello, Ada.\n");
    EXPECT_EQ(cellar({"run", kModel}, "My name is Ada.").out, "Hello, Ada.\n");
    EXPECT_EQ(cellar({"run", kModel, "-f", temporary("prompt.txt", "My name is Ada.")}).out, "Hello, Ada.\n");
    EXPECT_EQ(cellar({"run", kModel, "-f", "-"}, "My name is Ada.").out, "Hello, Ada.\n");
    EXPECT_EQ(cellar({"run", kModel, "--no-pack", "-p", "My name is Ada."}).out, "Hello, Ada.\n");
}

TEST(Run, SaysOnStderrWhatItTook) {
    const Outcome outcome = cellar({"run", kModel, "-p", "My name is Ada."});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_NE(outcome.err.find("tokens/s"), std::string::npos);
    EXPECT_NE(outcome.err.find("cache"), std::string::npos);
    EXPECT_NE(outcome.err.find("of 2048"), std::string::npos);
    EXPECT_EQ(outcome.err.find('\033'), std::string::npos) << "no colours and no progress into a pipe";
}

TEST(Run, JsonHoldsTextTokensTimingsAndReceipt) {
    const Outcome outcome = cellar({"run", kModel, "--json", "-p", "My name is Ada."});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json answer = json::parse(outcome.out);
    EXPECT_EQ(answer["text"], "Hello, Ada.");
    EXPECT_EQ(answer["stop"], "end");
    EXPECT_EQ(answer["tokens"].size(), answer["timings"]["generated_tokens"]);
    EXPECT_EQ(answer["receipt"]["reused"], 0);
    EXPECT_GT(answer["timings"]["prompt_tokens_per_second"], 0.0);
    EXPECT_GT(answer["cache_bytes"], 0);
}

TEST(Run, StopsWhereItIsTold) {
    EXPECT_EQ(cellar({"run", kModel, "-p", "My name is Ada.", "--stop", ", A"}).out, "Hello\n");
    EXPECT_EQ(json::parse(cellar({"run", kModel, "--json", "-p", "My name is Ada.", "-n", "2"}).out)["tokens"].size(), 2U);
    const json answer = json::parse(cellar({"run", kModel, "--json", "-p", "My name is Ada.", "--ignore-eos", "-n", "40"}).out);
    EXPECT_EQ(answer["tokens"].size(), 40U);
    EXPECT_EQ(answer["stop"], "length");
}

TEST(Run, TheSameSeedGivesTheSameText) {
    const std::vector<std::string> base{"run", kModel,    "-p", "Tell me a story about a fox and a bear.", "--temperature", "1.2", "--top-k",
                                        "0",   "--top-p", "1"};
    const auto with_seed = [&](const std::string& seed) {
        std::vector<std::string> arguments = base;
        arguments.insert(arguments.end(), {"--seed", seed});
        return cellar(arguments).out;
    };
    EXPECT_EQ(with_seed("7"), with_seed("7"));
    EXPECT_NE(with_seed("7"), with_seed("8"));
}

TEST(Run, AFullContextEndsTheAnswerWithItsOwnCode) {
    const Outcome outcome = cellar({"run", kModel, "--ctx", "40", "--ignore-eos", "-p", "My name is Ada."});
    EXPECT_EQ(outcome.code, 3);
    EXPECT_TRUE(outcome.out.starts_with("Hello, Ada.")) << outcome.out;
    EXPECT_NE(outcome.err.find("context of 40"), std::string::npos) << outcome.err;
}

TEST(Run, APromptThatDoesNotFitIsRefusedWithBothNumbers) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "My name is Ada. ";
    const Outcome outcome = cellar({"run", kModel, "--ctx", "64", "-p", text});
    expect_refusal(outcome, 1, "the context holds 64");
}

TEST(Run, RawContinuesTheText) {
    const Outcome outcome = cellar({"run", kModel, "--raw", "--special", "-n", "6", "-p", "<|user|>My name is Ada.<|end|><|assistant|>"});
    EXPECT_TRUE(outcome.out.starts_with("Hello, Ada")) << outcome.out;
}

TEST(Run, PrintsTheGraph) {
    EXPECT_NE(cellar({"run", kModel, "--dump-graph", "text"}).out.find("blk.5.attention"), std::string::npos);
    EXPECT_TRUE(cellar({"run", kModel, "--dump-graph", "dot"}).out.starts_with("digraph"));
}

TEST(Chat, TalksThroughAPipe) {
    const Outcome outcome =
        cellar({"chat", kModel},
               "My name is Ada.\nI live in Oslo.\nWhat is my name?\n/undo\n/undo\nWhere do I live?\n/clear\nWhat is my name?\n/exit\nnot read\n");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("Your name is Ada.\n"), std::string::npos) << outcome.out;
    EXPECT_EQ(outcome.out.find("You live in Oslo"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("You have not told me your name.\n"), std::string::npos) << outcome.out;
}

TEST(Chat, CommandsAnswerOnStderr) {
    const Outcome outcome = cellar({"chat", kModel, "--system", "You are Nora."},
                                   "/help\nWhat is your name?\n/stats\n/set\n/set temperature 0.5\n/set temperature hot\n/set colour red\n/system "
                                   "You are Wim.\nWhat is your name?\n"
                                   "/nonsense\n\"\"\"\nMy name\nis Ada.\n\"\"\"\nMy name \\\nis Ada.\n/regen\n");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("My name is Nora."), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("My name is Wim."), std::string::npos) << outcome.out;
    for (const char* words : {"/regen", "blocks in use", "when it is full: drop-turns", "tokens of prefixes", "repetition_penalty", "'hot'",
                              "no setting 'colour'", "no command '/nonsense'"})
        EXPECT_NE(outcome.err.find(words), std::string::npos) << words << " is not in: " << outcome.err;
}

TEST(Chat, GoesOnFromASessionFile) {
    const std::string session = std::string(CELLAR_BINARY_DIR) + "/cli-chat.session";
    std::filesystem::remove(session);
    const Outcome first = cellar({"chat", kModel, "--session", session},
                                 "My name is Ada.\n/fork other\nI live in Oslo.\n/switch main\nThe code for the red door is 4821.\n");
    ASSERT_EQ(first.code, 0) << first.err;
    // The program is gone; another one takes up where it stopped, and reads nothing anew.
    const Outcome second = cellar({"chat", kModel, "--session", session},
                                  "What is my name?\nWhat is the code for the red door?\n/stats\n/switch other\nWhere do I live?\n/switch\n");
    ASSERT_EQ(second.code, 0) << second.err;
    EXPECT_EQ(second.out, "Your name is Ada.\nThe code for the red door is 4821.\nYou live in Oslo.\n") << second.err;
    EXPECT_NE(second.err.find("nothing was read anew"), std::string::npos);
    EXPECT_NE(second.err.find("main"), std::string::npos);
    const Outcome packed = cellar({"chat", kModel, "--session", session, "--cache-type", "q8_0"}, "Where do I live?\n");
    EXPECT_NE(packed.err.find("another format"), std::string::npos) << packed.err;
    EXPECT_EQ(packed.out, "You live in Oslo.\n");
    // What is no session file is left alone.
    const std::string other = temporary("no.session", "precious");
    const Outcome refused = cellar({"chat", kModel, "--session", other}, "My name is Ada.\n");
    EXPECT_EQ(refused.code, 1);
    EXPECT_NE(refused.err.find("no session file"), std::string::npos) << refused.err;
    EXPECT_EQ(*read_file(other, 100), "precious");
    EXPECT_EQ(cellar({"chat", kModel, "--session", other, "--session-new"}, "My name is Ada.\n").code, 0);
    EXPECT_NE(*read_file(other, size_t{1} << 24), "precious");
    EXPECT_EQ(*read_file(other + ".old", 100), "precious");
    std::filesystem::remove(session);
}

TEST(Chat, ForgetsOldTurnsAndSaysSo) {
    std::string input;
    for (int i = 0; i < 14; ++i) input += "The code for the red door is 4821.\n";
    const std::vector<std::string> base{"chat", kModel, "--system", "You are Nora.", "--ctx", "256", "-n", "20"};
    const auto with = [&](const std::string& overflow) {
        std::vector<std::string> arguments = base;
        if (!overflow.empty()) arguments.insert(arguments.end(), {"--overflow", overflow});
        return cellar(arguments, input + "What is your name?\n");
    };
    for (const char* overflow : {"", "drop-turns", "shift", "slide"}) {
        const Outcome outcome = with(overflow);
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        EXPECT_NE(outcome.err.find("forgot "), std::string::npos) << overflow << ": " << outcome.err;
        EXPECT_NE(outcome.out.find("Nora"), std::string::npos) << overflow << ": " << outcome.out;
    }
    const Outcome stopped = with("stop");
    EXPECT_EQ(stopped.code, 3);
    EXPECT_EQ(stopped.err.find("forgot"), std::string::npos);
    EXPECT_NE(stopped.err.find("256"), std::string::npos) << stopped.err;
    expect_refusal(cellar({"chat", kModel, "--overflow", "forget"}), 2, "drop-turns");
}

TEST(Chat, WhatWasForgottenStaysForgottenInItsFile) {
    for (const char* overflow : {"drop-turns", "shift", "slide"}) {
        const std::string session = std::string(CELLAR_BINARY_DIR) + "/cli-forgets.session";
        std::filesystem::remove(session);
        std::string input = "My name is Ada.\n";
        for (int i = 0; i < 14; ++i) input += "The code for the red door is 4821.\n";
        const std::vector<std::string> arguments{"chat", kModel, "--system",  "You are Nora.", "--ctx",      "256",
                                                 "-n",   "20",   "--session", session,         "--overflow", overflow};
        const Outcome first = cellar(arguments, input);
        ASSERT_EQ(first.code, 0) << first.err;
        ASSERT_NE(first.err.find("forgot "), std::string::npos) << first.err;
        std::vector<std::string> again = arguments;
        again.emplace_back("--verbose");
        const Outcome second = cellar(again, "What is the code for the red door?\n");
        ASSERT_EQ(second.code, 0) << second.err;
        EXPECT_EQ(second.out, "The code for the red door is 4821.\n") << second.err;
        EXPECT_NE(second.err.find("(this sequence, coloured)"), std::string::npos) << second.err;
        EXPECT_NE(second.err.find("the rest is new"), std::string::npos) << "nothing else is read: " << second.err;
        std::filesystem::remove(session);
    }
}

TEST(Run, AnAnswerSlidesPastItsContext) {
    const Outcome outcome =
        cellar({"run", kModel, "--json", "--ctx", "96", "--ignore-eos", "-n", "200", "--overflow", "slide", "-p", "My name is Ada."});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json answer = json::parse(outcome.out);
    EXPECT_EQ(answer["tokens"].size(), 200U);
    EXPECT_GE(answer["forgotten"]["tokens"], 200 - 96);
    EXPECT_NE(outcome.err.find("forgot 0 turns"), std::string::npos) << outcome.err;
}

TEST(Run, ABudgetHoldsAndIsSaid) {
    const Outcome outcome = cellar({"run", kModel, "--verbose", "-p", "My name is Ada."}, "", {{"CELLAR_KV_BUDGET", "64MiB"}});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("cache budget 64.0 MiB"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("nothing in the cache begins like it"), std::string::npos) << outcome.err;
    expect_refusal(cellar({"run", kModel, "--kv-budget", "10", "-p", "x"}), 1, "10 B");
    expect_refusal(cellar({"run", kModel, "--kv-budget", "2 GiB", "-p", "x"}), 2, "--kv-budget");
    expect_refusal(cellar({"run", kModel, "-p", "x"}, "", {{"CELLAR_KV_BUDGET", "some"}}), 2, "CELLAR_KV_BUDGET");
    EXPECT_NE(cellar({"config", "--kv-budget", "2GiB"}).out.find("2.00 GiB"), std::string::npos);
}

TEST(Config, FlagBeatsEnvironmentBeatsDefault) {
    const auto line = [](const Outcome& outcome, const std::string& name) {
        const size_t at = outcome.out.find(name);
        return at == std::string::npos ? std::string() : outcome.out.substr(at, outcome.out.find('\n', at) - at);
    };
    EXPECT_NE(line(cellar({"config"}), "cache-type-k").find("f16"), std::string::npos);
    const Outcome environment = cellar({"config"}, "", {{"CELLAR_CACHE_TYPE", "q8_0"}, {"CELLAR_CTX", "777"}, {"CELLAR_THREADS", "1"}});
    EXPECT_NE(line(environment, "cache-type-k").find("CELLAR_CACHE_TYPE"), std::string::npos) << environment.out;
    EXPECT_NE(line(environment, "ctx").find("777"), std::string::npos);
    EXPECT_NE(line(environment, "threads").find("CELLAR_THREADS"), std::string::npos);
    const Outcome flag = cellar({"config", "--cache-type", "f32", "--cache-type-v", "bf16", "--ctx", "99"}, "",
                                {{"CELLAR_CACHE_TYPE", "q8_0"}, {"CELLAR_CTX", "777"}});
    EXPECT_NE(line(flag, "cache-type-k").find("f32"), std::string::npos);
    EXPECT_NE(line(flag, "cache-type-v").find("bf16"), std::string::npos);
    EXPECT_NE(line(flag, "ctx").find("99"), std::string::npos);
}

TEST(Tools, LogitsAreThoseOfTheReference) {
    const auto recipe = *golden::read_named("qwen3");
    const std::string model = std::string(CELLAR_BINARY_DIR) + "/cli-qwen3.gguf";
    ASSERT_TRUE(golden::write_gguf(recipe, model));
    std::string ids;
    for (const int32_t id : recipe.tokens) ids += std::to_string(id) + (id % 2 == 0 ? ", " : "\n");
    const std::string out = std::string(CELLAR_BINARY_DIR) + "/cli-logits.bin";
    const std::vector<float> expected = *golden::read_logits(recipe);
    for (const char* way : {"--reference", "--no-pack", "--exact-activations", "--check-finite"}) {
        SCOPED_TRACE(way);
        const Outcome outcome =
            cellar({"logits", model, "--tokens", temporary("ids.txt", ids), "--out", out, "--last", "5", "--cache-type", "f32", way});
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        const std::string bytes = *read_file(out, size_t{1} << 20);
        ASSERT_EQ(bytes.size(), size_t{5} * 128 * sizeof(float));
        std::vector<float> got(5 * 128);
        std::memcpy(got.data(), bytes.data(), bytes.size());
        for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[expected.size() - got.size() + i], 2e-4 * recipe.max_abs_logit);
        std::filesystem::remove(out);
    }
    std::filesystem::remove(model);
}

TEST(Tools, TokenizeKeepsEveryByteOfStdin) {
    EXPECT_EQ(cellar({"tokenize", kModel, "-f", "-", "--ids", "--no-bos"}, "a\n").out,
              cellar({"tokenize", kModel, "-p", "a\n", "--ids", "--no-bos"}).out);
    EXPECT_NE(cellar({"tokenize", kModel, "-f", "-", "--ids"}, "a\n").out, cellar({"tokenize", kModel, "-f", "-", "--ids"}, "a").out);
    EXPECT_TRUE(cellar({"tokenize", kModel, "-p", "Ada", "--ids"}).out.starts_with("1 "));
    EXPECT_NE(cellar({"tokenize", kModel, "-p", "<|end|>", "--special", "--ids", "--no-bos"}).out,
              cellar({"tokenize", kModel, "-p", "<|end|>", "--ids", "--no-bos"}).out);
}

TEST(Tools, TemplatePrintsTheTextExactly) {
    const std::string input =
        temporary("case.json", R"({"messages": [{"role": "user", "content": "Hello"}], "add_generation_prompt": true, "bos_token": "<s>"})");
    EXPECT_EQ(cellar({"template", kModel, "--input", input}).out, "<s><|user|>Hello<|end|><|assistant|>");
    EXPECT_EQ(cellar({"template", "--file", temporary("t.jinja", "{{ messages[0].content }}\n\n"), "--input", input}).out, "Hello\n");
}

TEST(Tools, PerplexitySaysWhatACacheFormatCosts) {
    const std::string text = temporary(
        "text.txt", "My name is Ada. I live in Oslo. The code for the red door is 4821. Once there was a fox called Ada who lived near the river.");
    const json exact = json::parse(cellar({"perplexity", kModel, "-f", text, "--json", "--cache-type", "f32"}).out);
    const json packed = json::parse(cellar({"perplexity", kModel, "-f", text, "--json", "--cache-type", "q8_0"}).out);
    EXPECT_GT(exact["perplexity"], 1.0);
    EXPECT_FALSE(exact.contains("divergence_from_f32_cache"));
    EXPECT_NEAR(packed["perplexity"], exact["perplexity"], 0.05 * static_cast<double>(exact["perplexity"]));
    EXPECT_GT(packed["divergence_from_f32_cache"], 0.0);
    EXPECT_LT(packed["divergence_from_f32_cache"], 0.01);
    const Outcome table = cellar({"perplexity", kModel, "-f", "-", "--window", "8"}, *read_file(text, 1000));
    EXPECT_TRUE(table.out.starts_with("perplexity ")) << table.out;
    EXPECT_NE(table.out.find("in windows of 8\ncache f16/f16 against f32: "), std::string::npos) << table.out;
    expect_refusal(cellar({"perplexity", kModel, "-f", text, "--ctx", "1"}), 1, "at least 2: raise --ctx");
}

TEST(Tools, BenchGivesTheNumbersAsJson) {
    const Outcome outcome =
        cellar({"bench", kModel, "--prompt", "32", "--gen", "4", "--depth", "16", "--reps", "1", "--json", "--cache-type", "q8_0"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json result = json::parse(outcome.out);
    EXPECT_GT(result["prompt_tokens_per_second"], 0.0);
    EXPECT_GT(result["generate_tokens_per_second"], 0.0);
    EXPECT_EQ(result["type_k"], "q8_0");
    EXPECT_GT(result["read_bandwidth_before"], 0.0);
    EXPECT_GT(result["share_of_bandwidth"], 0.0);
    // A file may have any name.
    const std::string any_bytes = std::string(CELLAR_BINARY_DIR) + "/cli-\xff.gguf";
    std::filesystem::copy_file(kModel, any_bytes, std::filesystem::copy_options::overwrite_existing);
    const Outcome named = cellar({"bench", any_bytes, "--prompt", "8", "--gen", "0", "--reps", "1", "--json"});
    EXPECT_EQ(named.code, 0) << named.err;
    EXPECT_TRUE(json::parse(named.out)["generate_tokens_per_second"].is_null());
    std::filesystem::remove(any_bytes);
}

TEST(Tools, BenchSaysWhereTheTimeGoes) {
    const Outcome outcome = cellar({"bench", kModel, "--prompt", "8", "--gen", "2", "--reps", "1", "--profile"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    for (const char* words : {"prompt: ", "generate: ", " threads on ", "GB/s"})
        EXPECT_NE(outcome.out.find(words), std::string::npos) << words << " is not in: " << outcome.out;
}

TEST(Tools, InspectSaysWhatItTakes) {
    const Outcome outcome = cellar({"inspect", kModel, "--json", "--ctx", "1024", "--cache-type", "q8_0"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json result = json::parse(outcome.out);
    EXPECT_EQ(result["cache_bytes_per_token"], 6 * 2 * 2 * 68);
    EXPECT_EQ(result["context"], 1024);
    EXPECT_TRUE(result["fits"]);
    EXPECT_NE(cellar({"inspect", kModel, "--tensors", "--keys"}).out.find("blk.5.ffn_down.weight"), std::string::npos);
}

TEST(Version, NamesTheProgram) {
    EXPECT_TRUE(cellar({"--version"}).out.starts_with("cellar "));
}

TEST(Refusals, CommandLines) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> usage{
        {{}, "subcommand"},
        {{"fly"}, "fly"},
        {{"run"}, "model"},
        {{"run", kModel, "--no-such-flag"}, "--no-such-flag"},
        {{"run", kModel, "-p"}, "prompt"},
        {{"run", kModel, "-p", "x", "--temperature", "hot"}, "'hot'"},
        {{"run", kModel, "-p", "x", "--temperature", "-1"}, "temperature"},
        {{"run", kModel, "-p", "x", "--top-k", "1.5"}, "'1.5'"},
        {{"run", kModel, "-p", "x", "--top-p", "2"}, "top_p"},
        {{"run", kModel, "-p", "x", "--seed", "-4"}, "seed"},
        {{"run", kModel, "-p", "x", "--repetition-penalty", "nan"}, "nan"},
        {{"logits", kModel}, "--tokens"},
        {{"bench", kModel, "--reps", "many"}, "many"},
        {{"template"}, "--input"},
        {{"chat"}, "model"},
        {{"run", kModel, "-p", "x", "-f", "y"}, "not with both"},
        {{"run", kModel, "--raw", "-p", "x", "--system", "y"}, "--system"},
        {{"run", kModel, "-p", "x", "-n", "few"}, "'few'"},
        {{"run", kModel, "-p", "x", "--ctx", "0"}, "--ctx"},
        {{"run", kModel, "-p", "x", "--ctx", "99999999999"}, "--ctx"},
        {{"run", kModel, "-p", "x", "--threads", "0"}, "--threads"},
        {{"run", kModel, "-p", "x", "--threads", "two"}, "--threads"},
        {{"run", kModel, "-p", "x", "--cache-type", "Q8_0"}, "--cache-type"},
        {{"run", kModel, "-p", "x", "--cache-type", "q4_0"}, "f32, f16, bf16, q8_0"},
        {{"run", kModel, "-p", "x", "--cache-type-k", "f16 "}, "--cache-type-k"},
        {{"run", kModel, "-p", "x", "--cpu-target", "AVX9"}, "AVX9"},
        {{"run", kModel, "-p", "x", "--thinking", "loud"}, "loud"},
        {{"run", kModel, "--dump-graph", "png"}, "png"},
        {{"template", "--input", "x"}, "MODEL"},
    };
    for (const auto& [arguments, word] : usage) {
        SCOPED_TRACE(arguments.empty() ? "" : arguments.back());
        expect_refusal(cellar(arguments), 2, word);
    }
    const std::string empty = temporary("empty.txt", "");
    const std::vector<std::pair<std::vector<std::string>, std::string>> input{
        {{"run", "/no/such/file.gguf", "-p", "x"}, "/no/such/file.gguf"},
        {{"run", CELLAR_SOURCE_DIR, "-p", "x"}, "folder"},
        {{"run", empty, "-p", "x"}, "empty"},
        {{"run", CELLAR_SOURCE_DIR "/CMakeLists.txt", "-p", "x"}, "GGUF"},
        {{"run", kModel, "-f", "/no/such/prompt"}, "/no/such/prompt"},
        {{"run", kModel, "-p", "x", "--template", "/no/such/template"}, "/no/such/template"},
        {{"logits", kModel, "--tokens", empty, "--out", "/dev/null"}, "no token ids"},
        {{"logits", kModel, "--tokens", temporary("bad-ids.txt", "1 2 x"), "--out", "/dev/null"}, "'x'"},
        {{"logits", kModel, "--tokens", temporary("far-ids.txt", "1 2 1024"), "--out", "/dev/null"}, "outside the vocabulary of 1024"},
        {{"logits", kModel, "--tokens", temporary("ids2.txt", "1 2"), "--out", "/no/such/folder/x"}, "/no/such/folder"},
        {{"logits", kModel, "--tokens", temporary("ids2.txt", "1 2"), "--out", "/dev/null", "--last", "3"}, "--last"},
        {{"tokenize", kModel, "-f", "/no/such/text"}, "/no/such/text"},
        {{"template", kModel, "--input", empty}, "JSON"},
        {{"perplexity", kModel, "-f", empty}, "too few"},
        {{"perplexity", kModel, "-f", "/no/such/text"}, "/no/such/text"},
    };
    for (const auto& [arguments, word] : input) {
        SCOPED_TRACE(arguments.back());
        expect_refusal(cellar(arguments), 1, word);
    }
    expect_refusal(cellar({"run", kModel}, ""), 1, "empty");
    expect_refusal(cellar({"config"}, "", {{"CELLAR_CACHE_TYPE", "fp8"}}), 2, "CELLAR_CACHE_TYPE");
    expect_refusal(cellar({"config"}, "", {{"CELLAR_THREADS", "-2"}}), 2, "CELLAR_THREADS");
}

TEST(Refusals, Templates) {
    const std::string input = temporary("case.json", R"({"messages": [{"role": "user", "content": "Hello"}], "add_generation_prompt": true})");
    const std::vector<std::string> broken{
        "{% for %}",
        "{% if x %}",
        "{{ x",
        "{{ 1 + }}",
        "{% endfor %}",
        "{% nonsense %}",
        "{{ messages[0].content.no_such_method() }}",
        "{{ nothing.attribute }}",
        "{{ raise_exception('no') }}",
        "{{ 1 // 0 }}",
        "{{ 'a' * 1000000000000 }}",
        "{% set ns = namespace(s='a') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
        "{% for i in range(1000000000) %}{% for j in range(1000000000) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ range(10000000000000)|list|length }}",
        "{{ messages.__class__.__mro__ }}",
        "{% include 'file' %}",
        "{% extends 'file' %}",
        "{{ 'a'[::0] }}",
        "{{ '%999999999999d' % 1 }}",
        "{{ 'a' | no_such_filter }}",
        "{{ 1 is no_such_test }}",
        std::string(100000, '(') + std::string(100000, ')'),
        "{{ " + std::string(100000, '[') + std::string(100000, ']') + " }}",
        "{% for m in messages %}{{ m.content|replace('', 'x' * 1000000)|replace('x', 'y' * 1000000) }}{% endfor %}",
    };
    int refused = 0;
    for (const std::string& text : broken) {
        SCOPED_TRACE(text.substr(0, 60));
        const Outcome outcome = cellar({"template", "--file", temporary("broken.jinja", text), "--input", input});
        if (text[0] == '(') {
            EXPECT_EQ(outcome.code, 0) << "text without tags is text";
            continue;
        }
        expect_refusal(outcome, 1, "line");
        ++refused;
    }
    EXPECT_GE(refused, 20);
    std::string deep(200, '[');
    deep += std::string(200, ']');
    expect_refusal(cellar({"template", kModel, "--input", temporary("deep.json", "{\"messages\": " + deep + "}")}), 1, "64");
}

#if !defined(CELLAR_REDUCED_TESTS)  // sanitizers keep memory of their own
// A llama of about 100 MB with the shipped vocabulary.
void write_large_model(const std::string& path) {
    const auto file = *gguf::File::open(kModel);
    constexpr int64_t kWidth = 1024, kFf = 2816, kLayers = 8, kKv = 256, kVocabulary = 1024;
    gguf::Writer out;
    out.add("general.architecture", "llama");
    for (const auto& [key, value] : std::vector<std::pair<const char*, uint32_t>>{{"context_length", 2048},
                                                                                  {"embedding_length", kWidth},
                                                                                  {"block_count", kLayers},
                                                                                  {"feed_forward_length", kFf},
                                                                                  {"attention.head_count", 16},
                                                                                  {"attention.head_count_kv", 4}})
        out.add(std::string("llama.") + key, value);
    out.add("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    out.add("tokenizer.ggml.model", "llama");
    std::vector<std::string> tokens;
    const gguf::StringArray pieces = *file.strings("tokenizer.ggml.tokens");
    for (const std::string_view piece : pieces) tokens.emplace_back(piece);
    out.add_strings("tokenizer.ggml.tokens", tokens);
    out.add_array("tokenizer.ggml.scores", *file.numbers("tokenizer.ggml.scores"));
    const std::vector<int64_t> types = *file.integers("tokenizer.ggml.token_type");
    out.add_array("tokenizer.ggml.token_type", std::vector<int32_t>(types.begin(), types.end()));
    const auto matrix = [&](const std::string& name, int64_t rows, int64_t cols) {
        std::vector<std::byte> data(row_bytes(DType::Q8_0, cols) * static_cast<size_t>(rows));
        for (size_t i = 0; i < data.size(); ++i)
            data[i] = i % 34 == 0 ? std::byte{0} : i % 34 == 1 ? std::byte{0x08} : static_cast<std::byte>(i * 31 % 251);
        out.add_tensor(name, DType::Q8_0, {cols, rows}, std::move(data));
    };
    const auto norm = [&](const std::string& name) { out.add_tensor(name, DType::F32, {kWidth}, std::vector<float>(kWidth, 1.0F)); };
    matrix("token_embd.weight", kVocabulary, kWidth);
    norm("output_norm.weight");
    for (int64_t i = 0; i < kLayers; ++i) {
        const std::string at = "blk." + std::to_string(i) + ".";
        norm(at + "attn_norm.weight");
        norm(at + "ffn_norm.weight");
        matrix(at + "attn_q.weight", kWidth, kWidth);
        matrix(at + "attn_k.weight", kKv, kWidth);
        matrix(at + "attn_v.weight", kKv, kWidth);
        matrix(at + "attn_output.weight", kWidth, kWidth);
        matrix(at + "ffn_gate.weight", kFf, kWidth);
        matrix(at + "ffn_up.weight", kFf, kWidth);
        matrix(at + "ffn_down.weight", kWidth, kFf);
    }
    ASSERT_TRUE(out.write(path));
}

TEST(Memory, PeakIsWeightsAndCacheAndLittleMore) {
    const std::string path = std::string(CELLAR_BINARY_DIR) + "/cli-large.gguf";
    write_large_model(path);
    std::string prompt;
    for (int i = 0; i < 120; ++i) prompt += "My name is Ada. ";
    for (const bool pack : {true, false}) {
        std::vector<std::string> arguments{"run", path, "--raw", "--json", "-n", "8", "--ignore-eos", "-p", prompt};
        if (!pack) arguments.emplace_back("--no-pack");
        const Outcome outcome = cellar(arguments);
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        const double weights = static_cast<double>(std::filesystem::file_size(path));
        const double cache = json::parse(outcome.out)["cache_bytes"];
        const double peak = static_cast<double>(outcome.peak_kilobytes) * 1024;
        EXPECT_LE(peak, 1.1 * (weights + cache) + 64.0 * (1 << 20)) << (pack ? "packed" : "as in the file");
        std::printf("  %-14s peak %.0f MB, weights %.0f MB, cache %.1f MB\n", pack ? "packed" : "as in the file", peak / 1e6, weights / 1e6,
                    cache / 1e6);
    }
    std::filesystem::remove(path);
}
#endif

}  // namespace
}  // namespace cellar
