// Hostile templates: endless loops, giant values, deep nesting, numbers out of range. Each ends with one line, soon.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "text/template/testing.h"

namespace cellar::jinja {
namespace {

std::string times(std::string_view part, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += part;
    return out;
}

const std::string variables = R"({"m": {"a": 1}, "l": [1, 2], "big": ")" + std::string(900'000, 'a') + R"(", "big2": ")" + std::string(899'999, 'a') +
                              R"(b", "wide": ")" + times("é", 450'000) + "\"}";

RenderOptions strict() {
    RenderOptions options;
    options.limits.time = std::chrono::seconds(15);
    options.limits.value_bytes = 1 << 20;
    options.limits.output_bytes = 1 << 20;
    options.limits.memory_bytes = 8 << 20;
    return options;
}

// Expects an error with this in it, on one line, within a few times the limit of time (sanitizers and busy machines are slow).
void expect_refused(const std::string& source, std::string_view reason, const RenderOptions& options = strict()) {
    SCOPED_TRACE(source.substr(0, 200));
    const auto begin = std::chrono::steady_clock::now();
    const std::string message = rendered(source, variables, options);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    EXPECT_TRUE(message.starts_with("! template ")) << message.substr(0, 200);
    EXPECT_NE(message.find(reason), std::string::npos) << message.substr(0, 300);
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_LT(message.size(), 2500u);
}

TEST(TemplateLimits, LoopsEndByStepsOrTime) {
    const std::string nested = times("{% for x in range(99999) %}", 4) + times("{% endfor %}", 4);
    RenderOptions hasty = strict();
    hasty.limits.time = std::chrono::milliseconds(100);
    hasty.limits.memory_bytes = 64 << 20;  // so that time is what runs out first, on a fast machine too
    RenderOptions few = strict();
    few.limits.steps = 10'000;
    expect_refused(nested, "the limit of 100 ms", hasty);
    expect_refused(nested, "the limit of 10000 steps", few);
    // Builtins pay for what they walk, so that no single call of one is free.
    few.limits.steps = 2'000;
    for (const char* source : {"{% for c in big %}{% endfor %}",
                               "{{ range(9999)|list }}",
                               "{{ range(9999)|map('string')|join }}",
                               "{{ big.find('b') }}",
                               "{{ big.rfind('b') }}",
                               "{{ [1]|batch(10 ** 15, 'x')|list }}",
                               "{{ [1]|slice(10 ** 15)|list }}",
                               "{{ big.split('a') }}",
                               "{{ big|length }}",
                               "{{ wide[1] }}",
                               "{{ wide[1:] }}",
                               "{{ big == big2 }}",
                               "{{ big < big2 }}",
                               "{{ big|upper }}",
                               "{{ big|title }}",
                               "{{ big|wordcount }}",
                               "{{ big.isalpha() }}",
                               "{{ big|e }}",
                               "{{ {big: 1} }}",
                               "{{ big|reverse }}",
                               "{{ big[::2] }}",
                               "{{ big|trim }}",
                               "{{ big|striptags }}",
                               "{{ big|int }}",
                               "{{ big in big2 }}",
                               "{{ big.count('a') }}",
                               "{{ big|replace('a', 'b') }}",
                               "{{ big.splitlines() }}",
                               "{{ big.startswith(big2) }}",
                               "{{ big is lower }}",
                               "{{ 'x' * 500000 }}",
                               "{{ [1] * 50000 }}",
                               "{{ big ~ big }}",
                               "{{ big + big }}",
                               "{{ big|tojson }}",
                               "{{ [big] }}",
                               "{{ big|indent }}",
                               "{{ '%s' % big }}",
                               "{{ '{}'.format(big) }}",
                               "{{ big|from_json }}"})
        expect_refused(source, "the limit of 2000 steps", few);
    // Searching must not take the product of both lengths, nor comparing what is equal for long.
    for (const char* source : {"{% set a = 'a' * 400000 %}{% set b = 'a' * 200000 ~ 'b' %}{% for x in range(99999) %}{{ b in a }}{% endfor %}",
                               "{% set a = 'a' * 400000 %}{% set b = 'b' ~ 'a' * 200000 %}{% for x in range(99999) %}{{ a.rfind(b) }}{% endfor %}",
                               "{% set a = 'x' * 400000 %}{% set b = 'x' * 400000 %}{{ ([a, b] * 20000)|sort|length }}"})
        expect_refused(source, "the limit of 100 ms", hasty);
    EXPECT_EQ(rendered("{{ range(9)|batch(-1)|list|length }}"), "1");
}

TEST(TemplateLimits, ValuesStaySmall) {
    for (const char* source : {"{{ 'a' * 10**9 }}",
                               "{{ [0] * 10**9 }}",
                               "{{ 'a' * 9223372036854775807 }}",
                               "{{ 'ab' * 9223372036854775807 }}",
                               "{{ (1, 2) * 9223372036854775807 }}",
                               "{{ ('a' * 4000).replace('', 'b' * 4000) }}",
                               "{{ ('a' * 4000).replace('a', 'b' * 4000) }}",
                               "{{ ('b' * 4000).join('a' * 4000) }}",
                               "{{ ('a' * 4000)|join('b' * 4000) }}",
                               "{{ '%999999999d' % 1 }}",
                               "{{ '%*d' % (999999999, 1) }}",
                               "{{ '%.999999999d' % 1 }}",
                               "{{ '{:999999999}'.format(1) }}",
                               "{{ '{:{w}}'.format(1, w=999999999) }}",
                               "{{ 'a'.center(10**12) }}",
                               "{{ 'a'.ljust(10**12) }}",
                               "{{ 'a'.zfill(10**12) }}",
                               "{{ '1'|center(10**12) }}",
                               "{{ ('\\n' * 4000)|indent(4000, blank=true) }}",
                               "{{ 'a'|indent(10**12, true) }}",
                               "{{ '\\t'.expandtabs(10**12) }}",
                               "{{ m|tojson(indent=10**12) }}",
                               "{{ (['a' * 1000] * 2000)|tojson }}",
                               "{{ (['a' * 1000] * 2000)|string }}",
                               "{{ ([['a'] * 100] * 1000)|tojson(indent=100) }}",
                               "{{ l|tojson(separators=('x' * 600000, ':')) ~ l|tojson(separators=('x' * 600000, ':')) }}",
                               "{{ ('a,' * 200000).split(',') }}",
                               "{{ ('a' * 400000)|list }}",
                               "{{ ('&' * 400000)|e }}",
                               "{{ ('\\x01' * 400000)|tojson }}"})
        expect_refused(source, "limit of 1048576");
    expect_refused("{% set ns = namespace(a='a') %}{% for i in range(99) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}", "limit of 1048576 bytes");
    expect_refused("{% set ns = namespace(a='a') %}{% for i in range(99) %}{% set ns.a = ns.a + ns.a %}{% endfor %}", "limit of 1048576 bytes");
    expect_refused("{% set ns = namespace(a=[1]) %}{% for i in range(99) %}{% set ns.a = ns.a + ns.a %}{% endfor %}", "limit of 1048576 bytes");
    expect_refused("{% set ns = namespace(a='a') %}{% for i in range(99) %}{% set ns.a = '%s%s' % (ns.a, ns.a) %}{% endfor %}",
                   "limit of 1048576 bytes");
    expect_refused("{% set ns = namespace(a='a') %}{% for i in range(99) %}{% set ns.a %}{{ ns.a }}{{ ns.a }}{% endset %}{% endfor %}",
                   "limit of 1048576 bytes");
    expect_refused("{{ '%.2000f' % 1.5 }}", "limit of 1000");
    expect_refused("{{ '{:.2000f}'.format(1.5) }}", "limit of 1000");
    expect_refused("{{ 1.5|round(10**12) ~ nope.x }}", "undefined");
}

TEST(TemplateLimits, OutputAndMemoryHaveLimitsOfTheirOwn) {
    expect_refused("{% set a = 'a' * 100000 %}{% for i in range(99) %}{{ a }}{% endfor %}", "the output is over the limit of 1048576 bytes");
    expect_refused("{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = ns.l + ['a' * 400000] %}{% endfor %}",
                   "8388608 bytes of memory");
    expect_refused("{% macro f(n) %}{{ 'a' * 400000 }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "8388608 bytes of memory");
    expect_refused(
        "{{ dict(range(9998)|map('string')|batch(2))|length }}{% for i in range(99) %}{% set x = range(9999)|list %}{% endfor %}{{ nope.x }}",
        "undefined");
    expect_refused("{{ range(100001) }}", "over the limit of 100000");
    expect_refused("{{ range(-9223372036854775807, 9223372036854775807) }}", "over the limit of 100000");
    EXPECT_EQ(rendered("{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807)|list }}"), "[-9223372036854775807, 0]");
}

TEST(TemplateLimits, NestingIsBounded) {
    const int deep = 60'000;
    const char* brackets[][2] = {{"(", ")"}, {"[", "]"},   {"{1:", "}"},         {"x[", "]"},         {"f(", ")"},
                                 {"-", ""},  {"not ", ""}, {"1 if x else ", ""}, {"'a' is in [", "]"}};
    for (const auto& [open, close] : brackets)
        expect_refused("{{ " + times(open, deep) + "1" + times(close, deep) + " }}", "nested deeper than the limit of 200");
    const char* chains[] = {".a", "|upper", "[0]", "()"};
    for (const char* link : chains) expect_refused("{{ x" + times(link, deep) + " }}", "nested deeper than the limit of 200");
    const char* blocks[][2] = {{"{% if 1 %}", "{% endif %}"},   {"{% for x in l %}", "{% endfor %}"}, {"{% macro f() %}", "{% endmacro %}"},
                               {"{% set x %}", "{% endset %}"}, {"{% with %}", "{% endwith %}"},      {"{% filter upper %}", "{% endfilter %}"}};
    for (const auto& [open, close] : blocks) expect_refused(times(open, 20'000) + times(close, 20'000), "nested deeper than the limit of 200");
    expect_refused("{% for " + times("(", deep) + "x" + times(")", deep) + " in l %}{% endfor %}", "nested deeper than the limit of 200");
    expect_refused("{% set " + times("(", deep) + "x" + times(")", deep) + " = 1 %}", "nested deeper than the limit of 200");
    // Long is not deep.
    EXPECT_EQ(rendered("{{ 1" + times(" + 1", 10'000) + " }}"), "10001");
    EXPECT_EQ(rendered("{{ ''" + times(" ~ 'a'", 10'000) + " }}"), std::string(10'000, 'a'));
    EXPECT_EQ(rendered("{% if 0 %}" + times("{% elif 0 %}", 10'000) + "{% else %}x{% endif %}"), "x");
    EXPECT_EQ(rendered("{{ true" + times(" and true", 10'000) + " }}"), "True");
    EXPECT_EQ(rendered("{{ 1" + times(" < 2 > 1", 10'000) + " }}"), "True");
}

TEST(TemplateLimits, RecursionIsBounded) {
    expect_refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested deeper than the limit of 500");
    expect_refused("{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}", "nested deeper than the limit of 500");
    expect_refused("{% macro f() %}{% call f() %}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}", "nested deeper than the limit of 500");
    expect_refused("{% for x in l recursive %}{{ loop(l) }}{% endfor %}", "nested deeper than the limit of 500");
    expect_refused("{% macro f(x=f()) %}{% endmacro %}{{ f() }}", "nested deeper than the limit of 500");
    const std::string tower = "{% set ns = namespace(x=[]) %}{% for i in range(20000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    expect_refused(tower + "{{ ns.x }}", "nested deeper than the limit of 100");
    expect_refused(tower + "{{ ns.x|tojson }}", "nested deeper than the limit of 100");
    expect_refused(tower + "{% set y = ns.x %}{% set ns.x = [] %}{% for i in range(20000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x == y }}",
                   "nested deeper than the limit of 100");
    expect_refused("{% set ns = namespace(x=()) %}{% for i in range(20000) %}{% set ns.x = (ns.x,) %}{% endfor %}{{ {ns.x: 1} }}",
                   "nested deeper than the limit of 100");
    EXPECT_EQ(rendered(tower + "{{ ns.x|length }}"), "1");  // and its end uses no stack
}

TEST(TemplateLimits, ValuesThatHoldThemselvesAreFreed) {
    expect_refused("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", "nested deeper than the limit of 100");
    expect_refused("{% set ns = namespace() %}{% set ns.me = [ns, {'k': ns}] %}{{ ns.me|string }}", "nested deeper than the limit of 100");
    EXPECT_EQ(rendered("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me.me == ns }}"), "True");
    EXPECT_EQ(rendered("{% set ns = namespace() %}{% macro f() %}{{ ns.f is callable }}{% endmacro %}{% set ns.f = f %}{{ ns.f() }}"), "True");
    EXPECT_EQ(rendered("{% set ns = namespace() %}{% for x in [1, 2] %}{% set ns.loop = loop %}{% endfor %}{{ ns.loop.index }}{{ ns.loop.last }}"),
              "2True");
}

TEST(TemplateLimits, NumbersOutOfRangeAreErrors) {
    for (const char* source : {"{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 1.5 % 0 }}", "{{ 0 ** -1 }}", "{{ 10 ** 10 ** 10 }}",
                               "{{ 1e308 ** 2 }}", "{{ 2 ** 1e9 }}", "{{ 'abc'[::0] }}", "{{ l[::0] }}", "{{ range(5)[::0] }}",
                               "{{ range(1, 2, 0) }}", "{{ 99999999999999999999 }}", "{{ 0x8000000000000000 }}", "{{ (1e308 * 10)|int }}",
                               "{{ l|slice(0)|list }}", "{{ 5 is divisibleby 0 }}", "{{ '{:c}'.format(1114112) }}", "{{ '%c' % 55296 }}"})
        EXPECT_TRUE(rendered(source, R"({"l": [1]})").starts_with("! template line 1: ")) << source << rendered(source, R"({"l": [1]})");
    EXPECT_EQ(rendered("{{ 'abc'[-9223372036854775807:9223372036854775807:9223372036854775807] }}"), "a");
    EXPECT_EQ(rendered("{{ 'abc'[9223372036854775807::-9223372036854775807] }}{{ range(5)[::-9223372036854775807]|list }}"), "c[4]");
    EXPECT_EQ(rendered("{{ 'abc'[99999999999] is defined }}{{ [1][-99999999999] is defined }}"), "FalseFalse");
    EXPECT_EQ(rendered("{{ 1e400 }}{{ 5|round(400) }}{{ 5.5|round(-400) }}"), "inf50.0");
}

TEST(TemplateLimits, ParsingTakesTimeInProportionToTheSource) {
    // Long chains of branches with a name each, many parameters, many names: what invites a product of two lengths.
    std::string branches = "{% if 0 %}", variables_of_one = "", parameters = "{% macro f(a", ifs;
    for (int i = 0; i < 20'000; ++i) {
        const std::string n = std::to_string(i);
        branches += "{% elif 0 %}{% set v" + n + " = 1 %}";
        variables_of_one += "{% set v" + n + " = 1 %}";
        parameters += ", p" + n;
        ifs += "{% if 0 %}{% endif %}";
    }
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(Template::parse(branches + "{% endif %}"));
    EXPECT_TRUE(Template::parse(variables_of_one + ifs));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    expect_refused(parameters + ") %}{% endmacro %}", "more than 255 parameters");
}

TEST(TemplateLimits, TheSourceIsBounded) {
    expect_refused(std::string(max_source_bytes + 1, 'x'), "the limit is 1048576");
    EXPECT_EQ(rendered(std::string(max_source_bytes, 'x')).size(), max_source_bytes);
    expect_refused("a\n\xff", "line 2: the template is not UTF-8 at byte 2");
    expect_refused("\xed\xa0\x80", "not UTF-8");
    expect_refused("{{ '\\ud800' }}", "no character");
}

}  // namespace
}  // namespace cellar::jinja
