// Broken templates: each is refused with its line, what was found and what was expected.
#include <string>

#include <gtest/gtest.h>

#include "text/template/testing.h"

namespace cellar::jinja {
namespace {

TEST(TemplateParseErrors, SayTheLineAndWhatWasExpected) {
    const char* cases[][2] = {
        {"a\n{{ 1", "line 2: the tag is not closed: expected '}}', found the end of the template"},
        {"{% if 1 %}\n\n", "line 1: 'if' is not closed: expected 'endif', found the end of the template"},
        {"\n{% for x in y %}{% if 1 %}{% endif %}", "line 2: 'for' is not closed: expected 'endfor'"},
        {"{% if 1 %}{% else %}{% else %}{% endif %}", "line 1: 'else' closes nothing that is open"},
        {"\n{% endif %}", "line 2: 'endif' closes nothing that is open"},
        {"{% for x in y %}{% endif %}", "line 1: 'endif' closes nothing that is open"},
        {"{% if %}a{% endif %}", "line 1: expected an expression, found '%}'"},
        {"{{ }}", "line 1: expected an expression, found '}}'"},
        {"{% %}", "line 1: expected the name of a tag, found '%}'"},
        {"{% nosuch %}", "line 1: unknown tag 'nosuch': expected if, for"},
        {"{% for x y %}{% endfor %}", "line 1: expected 'in', found 'y'"},
        {"{% for 1 in y %}{% endfor %}", "line 1: expected the name of a variable, found '1'"},
        {"{% for loop in y %}{% endfor %}", "line 1: can't assign to 'loop'"},
        {"{% set none = 1 %}", "line 1: can't assign to 'none'"},
        {"{% set x 1 %}", "line 1: expected '=' or '%}', found '1'"},
        {"{% set x = 1 2 %}", "line 1: expected '%}', found '2'"},
        {"{% set x %}a", "line 1: 'set' is not closed: expected 'endset'"},
        {"{{ 1 2 }}", "line 1: expected '}}', found '2'"},
        {"{{ (1 }}", "line 1: unexpected '}', expected ')'"},
        {"{{ 1) }}", "line 1: unexpected ')'"},
        {"{{ [1, 2 }}", "line 1: unexpected '}', expected ']'"},
        {"{{ {1} }}", "line 1: expected ':', found '}'"},
        {"{{ a. }}", "line 1: expected the name of an attribute behind '.', found '}}'"},
        {"{{ a| }}", "line 1: expected the name of a filter, found '}}'"},
        {"{{ a is }}", "line 1: expected the name of a test, found '}}'"},
        {"{{ a is b is c }}", "line 1: tests cannot be chained"},
        {"{{ a[] }}", "line 1: expected a subscript, found ']'"},
        {"{{ a[1:2:3:4] }}", "line 1: expected ']', found a third ':' in a slice"},
        {"{{ f(a=1, 2) }}", "line 1: expected the name of an argument, found '2'"},
        {"{{ f(**a, **b) }}", "line 1: expected ')', found a second '**'"},
        {"{{ @ }}", "line 1: unexpected character '@' in a tag"},
        {"{{ 'abc }}", "line 1: the string is not closed: expected '"},
        {"{{ '\\x4' }}", "line 1: a string escape has 1 digits, expected 2"},
        {"{{ '\\N{DASH}' }}", "line 1: characters by name"},
        {"{{ 007 }}", "line 1: '007' is no number"},
        {"{{ 1__0 }}", "line 1: '1__0' is no number"},
        {"{{ 0x }}", "line 1: '0x' is no number"},
        {"\n{# a", "line 2: the comment is not closed: expected '#}'"},
        {"{% raw %}a{% endra %}", "line 1: the raw block is not closed: expected {% endraw %}"},
        {"{% macro %}{% endmacro %}", "line 1: expected the name of the macro, found '%}'"},
        {"{% macro f %}{% endmacro %}", "line 1: expected '(', found '%}'"},
        {"{% macro f(a, a) %}{% endmacro %}", "line 1: the parameter 'a' comes twice"},
        {"{% macro f(a=1, b) %}{% endmacro %}", "line 1: a parameter without a default follows one with a default"},
        {"{% call 5 %}{% endcall %}", "line 1: expected a call behind 'call'"},
        {"{% filter %}{% endfilter %}", "line 1: expected the name of a filter, found '%}'"},
        {"{% with a %}{% endwith %}", "line 1: expected '=', found '%}'"},
        {"{% break %}", "line 1: 'break' stands outside of a loop"},
        {"{% for x in y %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}", "line 1: 'continue' stands outside of a loop"},
        {"{% for x in y %}{% else %}{% break %}{% endfor %}", "line 1: 'break' stands outside of a loop"},
        {"{% generation x %}{% endgeneration %}", "line 1: expected '%}', found 'x'"},
    };
    for (const auto& [source, reason] : cases) {
        const auto parsed = Template::parse(source);
        ASSERT_FALSE(parsed) << source;
        EXPECT_NE(parsed.error().message.find(std::string("template ") + reason), std::string::npos) << source << ": " << parsed.error().message;
        EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos);
    }
}

TEST(TemplateParseErrors, EveryPrefixOfATemplateEndsWell) {
    const std::string source =
        "{%- macro f(a, b=[1, {'k': 2}]) -%}\n{% for x in a if x is not none recursive %}{{ loop(x)|upper ~ 'q\\n' }}{% else %}{% raw %}{{{% endraw "
        "%}"
        "{% endfor %}{% endmacro %}{# c #}{% call(y) f(*l, **m) %}{{ y[1:-1] if y else -2 ** 3 }}{% endcall %}{% set ns.a %}{% generation %}é{% "
        "endgeneration %}{% endset %}";
    for (std::size_t size = 0; size <= source.size(); ++size) {
        const auto parsed = Template::parse(std::string_view(source).substr(0, size));
        if (!parsed) {
            EXPECT_TRUE(parsed.error().message.starts_with("template line ")) << parsed.error().message;
        }
    }
    EXPECT_TRUE(Template::parse(source));
    // And with one byte taken out or changed anywhere.
    for (std::size_t at = 0; at < source.size(); ++at) {
        for (const char c : std::string("\0{}%('|-", 8)) {
            std::string changed = source;
            changed[at] = c;
            (void)rendered(changed, R"({"l": [[1]], "m": {}})");
        }
        (void)rendered(source.substr(0, at) + source.substr(at + 1), R"({"l": [[1]], "m": {}})");
    }
}

}  // namespace
}  // namespace cellar::jinja
