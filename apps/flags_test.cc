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

TEST(EmptyValues, BelongToTheirFlag) {
    TalkArgs talk;
    SamplingFlags sampling;
    std::string prompt;
    CLI::App app;
    add_talk_flags(&app, talk, sampling, "what happens");
    app.add_option("-p,--prompt", prompt);
    using Arguments = std::vector<std::string>;
    const auto expect = [&](const Arguments& given, const Arguments& expected) {
        const auto taken = with_empty_values(app, given);
        ASSERT_TRUE(taken) << taken.error().message;
        EXPECT_EQ(*taken, expected);
    };
    expect({"m", "--cache-type=", "-p", "x"}, {"m", "--cache-type", "", "-p", "x"});
    expect({"m", "--system=", "--ctx="}, {"m", "--system", "", "--ctx", ""});
    expect({"m", "--ctx=5", "--ctx", "5", "-p="}, {"m", "--ctx=5", "--ctx", "5", "-p="});
    // What only looks like a flag.
    expect({"m", "-p", "--ctx=", "--ctx="}, {"m", "-p", "--ctx=", "--ctx", ""});
    expect({"m", "--prompt", "--", "--ctx="}, {"m", "--prompt", "--", "--ctx", ""});
    expect({"--no-pack", "--ctx=", "--", "--ctx="}, {"--no-pack", "--ctx", "", "--", "--ctx="});
    expect({"--nonsense=", "="}, {"--nonsense=", "="});
    const auto refused = with_empty_values(app, {"m", "--verbose="});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "--verbose takes no value, so no '=' either");
}

}  // namespace
}  // namespace cellar::apps
