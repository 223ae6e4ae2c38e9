#pragma once
// From a conversation to a prompt: the variables that every chat template knows, built without a JSON library in sight.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/template/template.h"

namespace cellar::jinja {

struct Message {
    std::string role;  // "system", "user", "assistant", "tool"
    std::string content;
    std::string fields;  // more fields of the message as a JSON object, such as {"tool_calls": [...]}; empty: none
};

struct Chat {
    std::vector<Message> messages;
    bool add_generation_prompt = true;
    std::string bos_token, eos_token;
    std::string tools;                                           // a JSON array; empty: none, and the template finds the variable undefined
    std::vector<std::pair<std::string, std::string>> variables;  // more of them, each with its value as JSON: {"enable_thinking", "false"}
};

// The variables of the chat. Errors name the message or the variable whose JSON is broken.
Result<nlohmann::ordered_json> chat_variables(const Chat& chat);

Result<std::string> render_chat(const Template& text, const Chat& chat, const RenderOptions& options = {});

}  // namespace cellar::jinja
