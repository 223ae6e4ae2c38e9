#include "apps/flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include <algorithm>

namespace cellar::apps {
namespace {

// The flags of a talk, read from a line.
struct Line {
    explicit Line(const std::string& text) {
        add_talk_flags(&app, talk, sampling, "what happens");
        app.parse(text);
    }
    CLI::App app;
    TalkArgs talk;
    SamplingFlags sampling;
};

TEST(TalkFlags, FillWhatTheyAreFor) {
    const Line line("m.gguf --system Hi --template t.jinja -n 5 --thinking hide --overflow shift");
    EXPECT_EQ(line.talk.model, "m.gguf");
    EXPECT_EQ(line.talk.system, "Hi");
    EXPECT_EQ(line.talk.template_file, "t.jinja");
    EXPECT_EQ(line.talk.max_tokens, "5");
    EXPECT_EQ(line.talk.thinking, "hide");
    EXPECT_EQ(line.talk.overflow, "shift");
    EXPECT_EQ(line.talk.engine, EngineSettings{});
    EXPECT_THROW(Line(""), CLI::RequiredError) << "there is no model to talk to";
}

TEST(EngineFlags, FillWhatTheyAreFor) {
    const Line line(
        "m --ctx 1 --threads 2 --cache-type f32 --cache-type-k f16 --cache-type-v bf16 --kv-budget 50% --cpu-target SSE4 --no-pack "
        "--exact-activations --check-finite --verbose");
    EngineSettings expected;
    expected.context = "1";
    expected.threads = "2";
    expected.cache_type = "f32";
    expected.cache_type_k = "f16";
    expected.cache_type_v = "bf16";
    expected.kv_budget = "50%";
    expected.cpu_target = "SSE4";
    expected.no_pack = expected.exact_activations = expected.check_finite = expected.verbose = true;
    EXPECT_EQ(line.talk.engine, expected);
}

TEST(SamplingFlags, EverySettingHasOne) {
    std::string text = "m";
    for (std::string name : sampling_names()) {
        std::replace(name.begin(), name.end(), '_', '-');
        text += " --" + name + " 1";
    }
    const Line line(text);
    SamplingSettings settings;
    ASSERT_TRUE(line.sampling.apply(settings));
    EXPECT_TRUE(settings.flags_given);
    EXPECT_TRUE(settings.seed_given);
    for (const std::string& name : sampling_names()) EXPECT_EQ(sampling_value(settings, name), "1") << name;
}

TEST(SamplingFlags, NoneGivenIsKnown) {
    const Line line("m --ctx 5");
    SamplingSettings settings;
    ASSERT_TRUE(line.sampling.apply(settings));
    EXPECT_FALSE(settings.flags_given);
}

TEST(SamplingFlags, AWrongValueIsNamed) {
    const Line line("m --temp hot");
    SamplingSettings settings;
    const auto applied = line.sampling.apply(settings);
    ASSERT_FALSE(applied);
    EXPECT_NE(applied.error().message.find("temperature is 'hot'"), std::string::npos) << applied.error().message;
}

TEST(Equals, BelongToTheirFlag) {
    TalkArgs talk;
    SamplingFlags sampling;
    std::string prompt;
    CLI::App app;
    add_talk_flags(&app, talk, sampling, "what happens");
    app.add_option("-p,--prompt", prompt);
    using Arguments = std::vector<std::string>;
    const auto expect = [&](const Arguments& given, const Arguments& expected) {
        const auto taken = settle_equals(app, given);
        ASSERT_TRUE(taken) << taken.error().message;
        EXPECT_EQ(*taken, expected);
    };
    expect({"m", "--cache-type=", "-p", "x"}, {"m", "--cache-type", "", "-p", "x"});
    expect({"m", "--system=", "--ctx="}, {"m", "--system", "", "--ctx", ""});
    expect({"m", "--ctx=5", "--ctx", "5", "--prompt=a="}, {"m", "--ctx=5", "--ctx", "5", "--prompt=a="});
    expect({"m", "-p", "-p=x", "-q=x"}, {"m", "-p", "-p=x", "-q=x"});
    // What only looks like a flag.
    expect({"m", "-p", "--ctx=", "--ctx="}, {"m", "-p", "--ctx=", "--ctx", ""});
    expect({"m", "--prompt", "--", "--ctx="}, {"m", "--prompt", "--", "--ctx", ""});
    expect({"--no-pack", "--ctx=", "--", "--ctx="}, {"--no-pack", "--ctx", "", "--", "--ctx="});
    expect({"--nonsense=", "="}, {"--nonsense=", "="});
    const auto expect_refused = [&](const char* given, const char* message) {
        const auto refused = settle_equals(app, {"m", given});
        ASSERT_FALSE(refused) << given;
        EXPECT_EQ(refused.error().message, message);
    };
    expect_refused("--verbose=", "--verbose takes no value, so no '=' either");
    expect_refused("--verbose=false", "--verbose takes no value, so no '=' either");
    expect_refused("-p=x", "-p=x: behind a flag of one letter the value is an argument of its own: -p x");
    expect_refused("-n=", "-n=: behind a flag of one letter the value is an argument of its own: -n ");
}

TEST(WholeNumbers, AreTakenOrNamed) {
    int value = 0;
    CLI::App app;
    add_whole_number(&app, "--sessions", value, "how many");
    app.parse("--sessions 7");
    EXPECT_EQ(value, 7);
    const auto refusal = [&](const std::string& text) -> std::string {
        try {
            app.parse("--sessions " + text);
        } catch (const CLI::ParseError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(refusal("1.5"), "--sessions is '1.5', which is no whole number");
    EXPECT_EQ(refusal("4294967296"), "--sessions is 4294967296, but must lie in [-2147483648, 2147483647]");
    EXPECT_EQ(value, 7);
}

}  // namespace
}  // namespace cellar::apps
