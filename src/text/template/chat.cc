#include "text/template/chat.h"

#include <nlohmann/json.hpp>

#include "text/template/json_input.h"

namespace cellar::jinja {

using Json = nlohmann::ordered_json;

Result<Json> chat_variables(const Chat& chat) {
    Json out = Json::object();
    Json& messages = out["messages"] = Json::array();
    for (std::size_t i = 0; i < chat.messages.size(); ++i) {
        const Message& message = chat.messages[i];
        Json fields = {{"role", message.role}, {"content", message.content}};
        if (!message.fields.empty()) {
            const auto more = parse_json_bounded(message.fields);
            if (!more) return fail("chat message {}: its fields are broken: {}", i, more.error().message);
            if (!more->is_object()) return fail("chat message {}: its fields must be a JSON object, found {}", i, more->type_name());
            fields.update(*more);
        }
        messages.push_back(std::move(fields));
    }
    if (!chat.tools.empty()) {
        auto tools = parse_json_bounded(chat.tools);
        if (!tools) return fail("chat tools: {}", tools.error().message);
        if (!tools->is_array()) return fail("chat tools must be a JSON array, found {}", tools->type_name());
        out["tools"] = std::move(*tools);
    }
    out["add_generation_prompt"] = chat.add_generation_prompt;
    out["bos_token"] = chat.bos_token;
    out["eos_token"] = chat.eos_token;
    for (const auto& [name, text] : chat.variables) {
        auto value = parse_json_bounded(text);
        if (!value) return fail("chat variable '{}': {}", name, value.error().message);
        out[name] = std::move(*value);
    }
    return out;
}

Result<std::string> render_chat(const Template& text, const Chat& chat, const RenderOptions& options) {
    CELLAR_TRY(const Json variables, chat_variables(chat));
    return text.render(variables, options);
}

}  // namespace cellar::jinja
