// What comes from outside: JSON with bounds, and the variables of a chat.
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/template/chat.h"
#include "text/template/json_input.h"
#include "text/template/testing.h"

namespace cellar::jinja {
namespace {

std::string nested(int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
}

TEST(TemplateInput, JsonIsBoundedWhileItIsRead) {
    EXPECT_TRUE(parse_json_bounded(nested(64)));
    EXPECT_EQ(parse_json_bounded(nested(65)).error().message, "JSON is nested deeper than the limit of 64");
    EXPECT_EQ(parse_json_bounded(std::string(1'000'000, '[')).error().message, "JSON is nested deeper than the limit of 64");
    std::string objects;
    for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
    EXPECT_FALSE(parse_json_bounded(objects));
    EXPECT_TRUE(parse_json_bounded("[[1]]", 2));
    EXPECT_FALSE(parse_json_bounded("[[[1]]]", 2));
    EXPECT_EQ(parse_json_bounded(R"({"b": 1, "a": {"d": 2, "c": 3}})")->dump(), R"({"b":1,"a":{"d":2,"c":3}})");
    for (const char* broken : {"", "{", "[1,", "{\"a\" 1}", "\"\xff\"", "\"\\ud800\"", "nul", "[1] 2", "{\"a\": 1e}"}) {
        const auto json = parse_json_bounded(broken);
        ASSERT_FALSE(json) << broken;
        EXPECT_TRUE(json.error().message.starts_with("JSON: ")) << json.error().message;
    }
}

TEST(TemplateInput, VariablesAreChecked) {
    const auto parsed = Template::parse("{{ a }}");
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->render(nlohmann::ordered_json::array()).error().message, "template variables: expected an object, found array");
    EXPECT_EQ(parsed->render({{"a", "x\xff"}}).error().message, "template variables: a string of the input is not UTF-8 at byte 1");
    nlohmann::ordered_json deep = 1;
    for (int i = 0; i < 70; ++i) deep = nlohmann::ordered_json::array({deep});
    EXPECT_EQ(parsed->render({{"a", deep}}).error().message, "template variables: the input is nested deeper than the limit of 64");
    // A variable that the template does not speak of costs nothing and is not looked at.
    EXPECT_EQ(*parsed->render({{"a", 1}, {"b", deep}}), "1");
    RenderOptions small;
    small.limits.value_bytes = 100;
    EXPECT_NE(parsed->render({{"a", std::string(101, 'x')}}, small).error().message.find("limit of 100 bytes"), std::string::npos);
    EXPECT_EQ(*parsed->render({{"a", std::numeric_limits<double>::infinity()}}), "inf");
}

TEST(TemplateInput, AChatBecomesVariables) {
    const auto parsed = Template::parse(
        "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}[{{ c.name }}]{% endfor %}{% endfor %}"
        "{% if tools is defined %}{{ tools|length }}{% endif %}{% if add_generation_prompt %}>{% endif %}{{ thinking }}{{ eos_token }}");
    ASSERT_TRUE(parsed);
    Chat chat;
    chat.messages = {
        {"system", "be \"brief\"", ""}, {"assistant", "", R"({"tool_calls": [{"name": "f"}]})"}, {"user", "Grüße", R"({"content": ["other"]})"}};
    chat.bos_token = "<s>";
    chat.eos_token = "</s>";
    EXPECT_EQ(*render_chat(*parsed, chat), "<s><system>be \"brief\"<assistant>[f]<user>['other']></s>");
    chat.tools = R"([{"type": "function"}])";
    chat.add_generation_prompt = false;
    chat.variables = {{"thinking", "false"}};
    EXPECT_EQ(*render_chat(*parsed, chat), "<s><system>be \"brief\"<assistant>[f]<user>['other']1False</s>");
    EXPECT_EQ(chat_variables(chat)->begin().key(), "messages");

    Chat broken = chat;
    broken.messages[1].fields = "[1]";
    EXPECT_EQ(render_chat(*parsed, broken).error().message, "chat message 1: its fields must be a JSON object, found array");
    broken = chat;
    broken.messages[2].fields = "{";
    EXPECT_TRUE(render_chat(*parsed, broken).error().message.starts_with("chat message 2: its fields are broken: JSON: "));
    broken = chat;
    broken.tools = "{}";
    EXPECT_EQ(render_chat(*parsed, broken).error().message, "chat tools must be a JSON array, found object");
    broken = chat;
    broken.variables = {{"x", "tru"}};
    EXPECT_TRUE(render_chat(*parsed, broken).error().message.starts_with("chat variable 'x': JSON: "));
}

}  // namespace
}  // namespace cellar::jinja
