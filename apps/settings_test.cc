#include "apps/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace cellar::apps {
namespace {

// A variable of the environment, for as long as a test needs it.
class Variable {
  public:
    Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
    ~Variable() { unsetenv(name_); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

  private:
    const char* name_;
};

template <class T>
void expect_refused(const Result<T>& result, std::initializer_list<const char*> words) {
    ASSERT_FALSE(result);
    for (const char* word : words) EXPECT_NE(result.error().message.find(word), std::string::npos) << word << ": " << result.error().message;
}

TEST(ParseInteger, TakesTheWholeTextAndTheRange) {
    EXPECT_EQ(*parse_integer("17", "--x", 1, 17), 17);
    EXPECT_EQ(*parse_integer("-1", "--x", -1, 5), -1);
    EXPECT_EQ(*parse_integer("9223372036854775807", "--x", 0, INT64_MAX), INT64_MAX);
    for (const char* text : {"", " 1", "1 ", "+1", "1.0", "1e3", "0x10", "one", "1k"}) {
        SCOPED_TRACE(text);
        expect_refused(parse_integer(text, "--x", 0, 5000), {"--x", "no whole number"});
    }
    for (const char* text : {"0", "18", "-5", "99999999999999999999"}) {
        SCOPED_TRACE(text);
        expect_refused(parse_integer(text, "--x", 1, 17), {"--x", text, "[1, 17]"});
    }
}

TEST(ParseNumber, TakesTheWholeTextAndNothingInfinite) {
    EXPECT_EQ(*parse_number("0.25", "/set"), 0.25);
    EXPECT_EQ(*parse_number("-3", "/set"), -3.0);
    EXPECT_EQ(*parse_number("1e-3", "/set"), 1e-3);
    for (const char* text : {"", "0,5", "1 ", "hot", "nan", "inf", "1e999"}) {
        SCOPED_TRACE(text);
        expect_refused(parse_number(text, "/set"), {"/set", "no number"});
    }
}

TEST(EngineOptionsOf, AreTheFlagThenTheVariableThenTheDefault) {
    EngineSettings settings;
    EXPECT_EQ(engine_options(settings)->threads, 0);
    EXPECT_EQ(engine_options(settings)->context, 0);
    EXPECT_EQ(engine_options(settings)->budget_bytes, 0U);
    const Variable threads("CELLAR_THREADS", "3");
    const Variable context("CELLAR_CTX", "777");
    const Variable budget("CELLAR_KV_BUDGET", "64MiB");
    const Variable cache("CELLAR_CACHE_TYPE", "q8_0");
    EXPECT_EQ(engine_options(settings)->threads, 3);
    EXPECT_EQ(engine_options(settings)->context, 777);
    EXPECT_EQ(engine_options(settings)->budget_bytes, size_t{64} << 20);
    EXPECT_EQ(engine_options(settings)->formats.k, kv::RowFormat::Q8_0);
    settings.threads = "2";
    settings.context = "99";
    settings.kv_budget = "1GiB";
    settings.cache_type = "f32";
    settings.cache_type_v = "bf16";
    const auto options = engine_options(settings);
    EXPECT_EQ(options->threads, 2);
    EXPECT_EQ(options->context, 99);
    EXPECT_EQ(options->budget_bytes, size_t{1} << 30);
    EXPECT_EQ(options->formats.k, kv::RowFormat::F32);
    EXPECT_EQ(options->formats.v, kv::RowFormat::BF16);
}

TEST(EngineOptionsOf, RefuseByTheNameOfWhatIsWrong) {
    EngineSettings settings;
    settings.threads = "1025";
    expect_refused(engine_options(settings), {"--threads", "1025", "[1, 1024]"});
    settings.threads = "";
    settings.context = "0";
    expect_refused(engine_options(settings), {"--ctx"});
    settings.context = "";
    settings.cpu_target = "AVX9";
    expect_refused(engine_options(settings), {"--cpu-target", "AVX9", "it has "});
    settings.cpu_target = "";
    const Variable threads("CELLAR_THREADS", "two");
    expect_refused(engine_options(settings), {"CELLAR_THREADS", "'two'"});
    settings.threads = "2";
    EXPECT_TRUE(engine_options(settings)) << "a variable that a flag replaces is not looked at";
}

TEST(SettingsInForce, SayWhereEachCameFrom) {
    const auto named = [](const std::vector<Setting>& settings, const std::string& name) {
        for (const Setting& setting : settings)
            if (setting.name == name) return setting.value + " from " + setting.origin;
        return std::string();
    };
    const Variable cache("CELLAR_CACHE_TYPE", "q8_0");
    EngineSettings settings;
    settings.context = "64";
    settings.cache_type_v = "f32";
    settings.no_pack = true;
    const auto found = settings_in_force(settings);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(named(*found, "ctx"), "64 from --ctx");
    EXPECT_EQ(named(*found, "cache-type-k"), "q8_0 from CELLAR_CACHE_TYPE");
    EXPECT_EQ(named(*found, "cache-type-v"), "f32 from --cache-type-v");
    EXPECT_EQ(named(*found, "weights"), "as in the file from --no-pack");
    EXPECT_EQ(named(*found, "check-finite"), "off from default");
    EXPECT_TRUE(named(*found, "kv-budget").ends_with(" from default"));
}

TEST(LoadOptionsOf, PackUnlessSomebodyNeedsTheFile) {
    EngineSettings settings;
    EngineOptions options;
    options.threads = 3;
    EXPECT_TRUE(load_options(settings, options).pack);
    EXPECT_EQ(load_options(settings, options).threads, 3);
    options.threads = 0;
    EXPECT_EQ(load_options(settings, options).threads, usable_cpus());
    options.reference_kernels = true;
    EXPECT_FALSE(load_options(settings, options).pack);
    options.reference_kernels = false;
    settings.no_pack = true;
    EXPECT_FALSE(load_options(settings, options).pack);
}

TEST(Sampling, EveryNameIsSetAndShown) {
    SamplingSettings settings;
    for (const std::string& name : sampling_names()) {
        SCOPED_TRACE(name);
        const std::string before = sampling_value(settings, name);
        ASSERT_TRUE(set_sampling(settings, name, "1"));
        EXPECT_EQ(sampling_value(settings, name), "1");
        EXPECT_EQ(settings.seed_given, name == "seed");
        ASSERT_TRUE(set_sampling(settings, name, before));
        EXPECT_EQ(sampling_value(settings, name), before);
    }
}

TEST(Sampling, WhatIsRefusedChangesNothing) {
    SamplingSettings settings;
    expect_refused(set_sampling(settings, "temperature", "-1"), {"temperature", "-1"});
    expect_refused(set_sampling(settings, "top_k", "1.5"), {"top_k", "'1.5'"});
    expect_refused(set_sampling(settings, "top_k", "3000000000"), {"top_k", "3000000000"});
    expect_refused(set_sampling(settings, "seed", "-4"), {"seed", "-4"});
    expect_refused(set_sampling(settings, "colour", "red"), {"'colour'", "temperature", "penalty_last_n", "seed"});
    const SamplingSettings untouched;
    for (const std::string& name : sampling_names()) EXPECT_EQ(sampling_value(settings, name), sampling_value(untouched, name));
    EXPECT_FALSE(settings.seed_given);
}

}  // namespace
}  // namespace cellar::apps
