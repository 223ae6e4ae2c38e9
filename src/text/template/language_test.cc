// What the reference cannot tell: names of errors and lines, what is refused on purpose, integers at the edge, time, and what is ours.
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "text/template/testing.h"

namespace cellar::jinja {
namespace {

TEST(TemplateLanguage, ErrorsNameTheLineOfTheInnermostExpression) {
    EXPECT_EQ(rendered("a\nb\n{{ nope.x }}"), "! template line 3: 'nope' is undefined");
    EXPECT_EQ(rendered("{% macro f(x) %}\n{{ x.y.z }}\n{% endmacro %}\n{{ f({}) }}"), "! template line 2: 'dict object' has no attribute 'y'");
    // After a call has returned, the line is that of the caller again.
    EXPECT_EQ(rendered("{% macro f() %}\n\n{{ 1 }}{% endmacro %}\n{{ f() +\n 1 }}"),
              "! template line 4: can only concatenate str (not \"int\") to str");
    EXPECT_EQ(rendered("{% for x in [1]\n %}\n{{ x }}{% endfor %}\n{% for y in 5 %}{% endfor %}"), "! template line 4: 'int' object is not iterable");
    EXPECT_EQ(rendered("\n\n{% set a, b = [1] %}"), "! template line 3: not enough values to unpack (expected 2, got 1)");
}

TEST(TemplateLanguage, WhatATemplateRaisesComesThroughOnOneLine) {
    EXPECT_EQ(rendered("\n{{ raise_exception('Roles must alternate!') }}"), "! template line 2: Roles must alternate!");
    EXPECT_EQ(rendered("{{ raise_exception('a\\nb\\x1b[0m') }}"), "! template line 1: a\\nb\\x1b[0m");
    const std::string big = rendered("{{ raise_exception('x' * 100000) }}");
    EXPECT_LT(big.size(), 3000u);
}

TEST(TemplateLanguage, OtherTemplatesAreRefusedByName) {
    for (const std::string tag : {"include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'", "block x"}) {
        const std::string message = rendered("\n{% " + tag + " %}");
        EXPECT_NE(message.find("line 2: '" + tag.substr(0, tag.find(' ')) + "' is not supported"), std::string::npos) << message;
    }
}

TEST(TemplateLanguage, NothingLeadsOutOfTheSandbox) {
    const char* attempts[] = {"{{ ''.__class__.__mro__ }}",
                              "{{ ''['__class__']['__mro__'] }}",
                              "{{ (''|attr('__class__'))['x'] }}",
                              "{{ messages.__class__() }}",
                              "{{ '{0.__class__.__mro__}'.format(1) }}",
                              "{{ [1]|map(attribute='__class__.x')|list }}",
                              "{{ range.__globals__.x }}",
                              "{{ loop.__init__.x }}",
                              "{{ messages.append(1) }}",
                              "{{ messages.pop() }}",
                              "{{ messages.clear() }}",
                              "{{ {'a': 1}.update({'b': 2}) }}",
                              "{{ {'a': 1}.pop('a') }}",
                              "{{ open('/etc/passwd') }}",
                              "{{ self.x.y }}",
                              "{{ config.x }}"};
    for (const char* attempt : attempts) EXPECT_TRUE(rendered(attempt, R"({"messages": [1]})").starts_with("! template line 1: ")) << attempt;
    // Keys of a dict are only data.
    EXPECT_EQ(rendered("{{ m._x }}{{ m['_y'] }}", R"({"m": {"_x": 1, "_y": 2}})"), "12");
}

TEST(TemplateLanguage, IntegersHave64Bits) {
    EXPECT_EQ(rendered("{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }}"), "9223372036854775807 -9223372036854775808");
    for (const char* source : {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}", "{{ 2 ** 63 }}", "{{ 3037000500 * 3037000500 }}",
                               "{{ (-9223372036854775807 - 1) // -1 }}", "{{ -(-9223372036854775807 - 1) }}", "{{ (-9223372036854775807 - 1)|abs }}",
                               "{{ 9223372036854775808 }}", "{{ '9223372036854775808'|int }}", "{{ 1e19|int }}", "{{ [9223372036854775807, 1]|sum }}",
                               "{{ 9223372036854775807|round(-1) }}", "{{ '%d' % 1e30 }}"})
        EXPECT_NE(rendered(source).find("64 bits"), std::string::npos) << source << rendered(source);
    EXPECT_EQ(rendered("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
    // What JSON holds beyond that is kept exactly, but not computed with.
    const char* big = R"({"n": 18446744073709551615})";
    EXPECT_EQ(rendered("{{ n }} {{ n|tojson }} {{ n > 5 }} {{ n == 18446744073709551615.0 }} {{ n is integer }} {{ '%d' % n }}", big),
              "18446744073709551615 18446744073709551615 True False True 18446744073709551615");
    EXPECT_TRUE(rendered("{{ n + 1 }}", big).starts_with("! ")) << rendered("{{ n + 1 }}", big);
}

TEST(TemplateLanguage, KeysKeepTheirOrder) {
    EXPECT_EQ(rendered("{{ m|tojson }}{{ m }}{{ m|list }}", R"({"m": {"z": 1, "a": {"y": [], "b": null}, "m": 2.5}})"),
              "{\"z\": 1, \"a\": {\"y\": [], \"b\": null}, \"m\": 2.5}{'z': 1, 'a': {'y': [], 'b': None}, 'm': 2.5}['z', 'a', 'm']");
    // More keys than fit without an index; the last of two equal keys wins at the place of the first.
    std::string json = R"({"m": {)", list;
    for (int i = 0; i < 100; ++i)
        json += "\"k" + std::to_string(i * 7 % 100) + "\": " + std::to_string(i) + ", ", list += "k" + std::to_string(i * 7 % 100) + " ";
    EXPECT_EQ(rendered("{% for k in m %}{{ k }} {% endfor %}", json + "\"k0\": -1}}"), list);
    EXPECT_EQ(rendered("{{ m.k0 }}{{ m.k93 }}{{ m.k100 is defined }}", json + "\"k0\": -1}}"), "-199False");
}

TEST(TemplateLanguage, TheTimeIsTheCallers) {
    EXPECT_EQ(rendered("{{ strftime_now('%d %B %Y, %A %H:%M:%S, day %j') }}"), "31 January 2026, Saturday 09:05:07, day 031");
    EXPECT_EQ(rendered("{{ strftime_now('%Y') }}", R"({"now": "1999-12-31"})"), "1999");
    EXPECT_TRUE(rendered("{{ strftime_now('%Y') }}", R"({"now": "soon"})").starts_with("! 'soon' is no time"));
    for (const char* bad : {"", "2026", "2026-02-31", "2026-01-31x", "2026-13-01"}) EXPECT_FALSE(parse_time(bad)) << bad;
    EXPECT_TRUE(rendered("{{ strftime_now('%999999999d') }}").starts_with("! "));
    EXPECT_TRUE(rendered("{{ strftime_now('%c' * 1000) }}").starts_with("! "));
    EXPECT_TRUE(rendered("{{ strftime_now(5) }}").starts_with("! "));
    // Without a time it is that of this moment.
    const auto now = Template::parse("{{ strftime_now('%Y') }}")->render_text("{}");
    ASSERT_TRUE(now);
    EXPECT_GE(std::stoi(*now), 2024);
}

TEST(TemplateLanguage, JsonTextBecomesAValue) {
    EXPECT_EQ(rendered("{% set a = s|from_json %}{{ a.x[1] }}{{ a|tojson }}", R"({"s": "{\"x\": [1, \"\u00fc\"]}"})"), "ü{\"x\": [1, \"ü\"]}");
    EXPECT_TRUE(rendered("{{ '{'|from_json }}").starts_with("! template line 1: JSON: "));
    EXPECT_NE(rendered("{{ ('[' * 1000)|from_json }}").find("nested deeper than the limit of 64"), std::string::npos);
}

TEST(TemplateLanguage, UnknownFiltersAndTestsAreErrorsWhereTheyAreReached) {
    EXPECT_EQ(rendered("{{ 1|nosuch }}"), "! template line 1: No filter named 'nosuch'.");
    EXPECT_EQ(rendered("{{ 1 is nosuch }}"), "! template line 1: No test named 'nosuch'.");
    EXPECT_EQ(rendered("{% if false %}{{ 1|nosuch }}{{ 1 is nosuch }}{% endif %}ok"), "ok");
}

TEST(TemplateLanguage, GeneratorsPrintWithoutAnAddress) {
    EXPECT_EQ(rendered("{{ [1]|map('string') }}"), "<generator object>");
    EXPECT_EQ(rendered("{{ 'a'.upper }}"), rendered("{{ 'b'.upper }}"));
}

TEST(TemplateLanguage, MoreIsReadThanTheReferenceReads) {
    EXPECT_EQ(rendered("{{ 1 if x is defined if true else 2 }}"), "");
    EXPECT_EQ(rendered("{{ {'a': 1}.get('b', default=2) }}{{ 'abc'.startswith(prefix='a') }}"), "2True");
}

TEST(TemplateLanguage, ParseOptionsRuleWhitespace) {
    auto text = [](std::string_view source, ParseOptions options) { return *Template::parse(source, options)->render_text("{}"); };
    const std::string_view source = "  {% if true %}\n  a\n  {% endif %}\n";
    EXPECT_EQ(text(source, {}), "  a\n");
    EXPECT_EQ(text(source, {.trim_blocks = false}), "\n  a\n");
    EXPECT_EQ(text(source, {.lstrip_blocks = false}), "    a\n  ");
    EXPECT_EQ(text("a\n", {.keep_trailing_newline = true}), "a\n");
    EXPECT_EQ(text("a\n\n", {}), "a\n");
}

TEST(TemplateLanguage, VariablesOfTheTemplateCanBeAskedFor) {
    const auto parsed = Template::parse("{% for m in messages %}{{ m.content }}{% endfor %}{{ 'tools' }}");
    ASSERT_TRUE(parsed);
    EXPECT_TRUE(parsed->mentions("messages"));
    EXPECT_FALSE(parsed->mentions("tools"));
}

TEST(TemplateLanguage, ManyThreadsMayRenderOneTemplate) {
    const auto parsed = Template::parse("{% macro f(x) %}[{{ x }}]{% endmacro %}{% for i in range(n) %}{{ f(i) }}{% endfor %}{{ 'const' * 2 }}");
    ASSERT_TRUE(parsed);
    std::vector<std::thread> threads;
    std::vector<std::string> results(4);
    for (std::size_t t = 0; t < results.size(); ++t)
        threads.emplace_back([&, t] {
            for (int round = 0; round < 20; ++round) results[t] = *parsed->render_text("{\"n\": " + std::to_string(100 + t) + "}");
        });
    for (auto& thread : threads) thread.join();
    for (std::size_t t = 0; t < results.size(); ++t)
        EXPECT_TRUE(results[t].ends_with("[" + std::to_string(99 + t) + "]constconst")) << results[t].substr(results[t].size() - 40);
}

}  // namespace
}  // namespace cellar::jinja
