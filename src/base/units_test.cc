#include "base/units.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/log.h"

namespace cellar {
namespace {

TEST(Units, ReadsAmounts) {
    const auto bytes = [](std::string_view text) { return parse_bytes(text, "--memory", 1000).value(); };
    EXPECT_EQ(bytes("0"), 0u);
    EXPECT_EQ(bytes("4096"), 4096u);
    EXPECT_EQ(bytes("4096B"), 4096u);
    EXPECT_EQ(bytes("8G"), 8ull << 30);
    EXPECT_EQ(bytes("8g"), 8ull << 30);
    EXPECT_EQ(bytes("8GiB"), 8ull << 30);
    EXPECT_EQ(bytes("8GB"), 8000000000u);
    EXPECT_EQ(bytes("512MiB"), 512ull << 20);
    EXPECT_EQ(bytes("3k"), 3072u);
    EXPECT_EQ(bytes("2T"), 2ull << 40);
    EXPECT_EQ(bytes("1.5K"), 1536u);
    EXPECT_EQ(bytes("0.001K"), 1u);
    EXPECT_EQ(bytes("50%"), 500u);
    EXPECT_EQ(bytes("12.5%"), 125u);
    EXPECT_EQ(bytes("100%"), 1000u);
    EXPECT_EQ(bytes("18446744073709551615"), UINT64_MAX);
    EXPECT_EQ(parse_bytes("100%", "--memory", UINT64_MAX).value(), UINT64_MAX);
}

TEST(Units, RefusesAllElse) {
    for (const std::string_view text : {"",
                                        " ",
                                        "8 G",
                                        " 8G",
                                        "8G ",
                                        "+8",
                                        "-8",
                                        "8Gb",
                                        "8GIB",
                                        "8gigs",
                                        "G",
                                        ".5G",
                                        "5.G",
                                        "1.2.3G",
                                        "1,5G",
                                        "0x10",
                                        "1e9",
                                        "nan",
                                        "inf",
                                        "8E",
                                        "8P",
                                        "101%",
                                        "-1%",
                                        "%",
                                        "50%%",
                                        "50% ",
                                        "18446744073709551616",
                                        "99999999T",
                                        "1.00000000000001G",
                                        "8\n",
                                        "½G"}) {
        const Result<uint64_t> result = parse_bytes(text, "--memory", 1000);
        EXPECT_FALSE(result) << text;
        if (!result) {
            EXPECT_TRUE(result.error().message.starts_with("--memory: '")) << result.error().message;
        }
    }
    EXPECT_FALSE(parse_bytes("50%", "--memory"));
}

TEST(Units, Counts) {
    EXPECT_EQ(parse_count("0", "-n").value(), 0u);
    EXPECT_EQ(parse_count("18446744073709551615", "-n").value(), UINT64_MAX);
    for (const std::string_view text : {"", "-1", "+1", "1 ", " 1", "1.0", "0x1", "18446744073709551616", "ten"})
        EXPECT_FALSE(parse_count(text, "-n")) << text;
    EXPECT_EQ(format_count(0), "0");
    EXPECT_EQ(format_count(999), "999");
    EXPECT_EQ(format_count(1000), "1,000");
    EXPECT_EQ(format_count(1234567), "1,234,567");
}

TEST(Units, FormatsAmounts) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1024), "1.00 KiB");
    EXPECT_EQ(format_bytes(12902), "12.6 KiB");
    EXPECT_EQ(format_bytes(10235), "10.0 KiB");
    EXPECT_EQ(format_bytes((1ull << 20) - 1), "1.00 MiB");
    EXPECT_EQ(format_bytes(456ull << 30), "456 GiB");
    EXPECT_EQ(format_bytes(UINT64_MAX), "16.0 EiB");
}

// A whole number with any unit means the product, or is refused when that is too large.
RC_GTEST_PROP(UnitsProperty, WholeNumbersAreExact, (uint32_t number)) {
    const std::vector<std::pair<std::string, uint64_t>> units = {{"", 1}, {"K", 1024}, {"MiB", 1 << 20}, {"GB", 1000000000}};
    const auto unit = *rc::gen::elementOf(units);
    RC_ASSERT(parse_bytes(std::to_string(number) + unit.first, "x").value() == number * unit.second);
}

TEST(Environment, SwitchesAreStrict) {
    const char* name = "CELLAR_TEST_SWITCH";
    for (const char* text : {"1", "true", "on", "yes"}) {
        setenv(name, text, 1);
        EXPECT_EQ(environment_switch(name).value(), std::optional<bool>(true)) << text;
    }
    for (const char* text : {"0", "false", "off", "no"}) {
        setenv(name, text, 1);
        EXPECT_EQ(environment_switch(name).value(), std::optional<bool>(false)) << text;
    }
    for (const char* text : {"2", "TRUE", "On", "y", "enabled", " 1", "1 "}) {
        setenv(name, text, 1);
        const auto result = environment_switch(name);
        ASSERT_FALSE(result) << text;
        EXPECT_NE(result.error().message.find(name), std::string::npos);
    }
    setenv(name, "", 1);
    EXPECT_EQ(environment_switch(name).value(), std::nullopt);
    EXPECT_EQ(environment_text(name), std::nullopt);
    setenv(name, "words", 1);
    EXPECT_EQ(environment_text(name), "words");
    unsetenv(name);
    EXPECT_EQ(environment_switch(name).value(), std::nullopt);
}

TEST(Log, LevelsFilterAndAreParsed) {
    EXPECT_EQ(parse_log_level("debug", "--log").value(), LogLevel::Debug);
    EXPECT_EQ(parse_log_level("silent", "--log").value(), LogLevel::Silent);
    EXPECT_FALSE(parse_log_level("Debug", "--log"));
    const LogLevel before = log_level();
    set_log_level(LogLevel::Warning);
    testing::internal::CaptureStderr();
    log_info("not {}", "this");
    log_warning("{} apples", 3);
    log_error("pears");
    set_log_level(LogLevel::Silent);
    log_error("silence");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "cellar: warning: 3 apples\ncellar: error: pears\n");
    set_log_level(before);
}

}  // namespace
}  // namespace cellar
