// Parses any text as a chat template and renders it for a small chat under small limits: it must end in time with a text or with one line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/template/template.h"

namespace {

constexpr std::string_view variables = R"({
    "messages": [
        {"role": "system", "content": "Be brief.\n"},
        {"role": "user", "content": "Gr\u00fc\u00dfe, \ud83c\udf89 <b>you</b> & 'me'"},
        {"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a": 1, "b": [2.5, true]}}}]}
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 7, "big": 18446744073709551615
})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    const auto parsed = cellar::jinja::Template::parse(source);
    if (!parsed) {
        if (parsed.error().message.find('\n') != std::string::npos) std::abort();
        return 0;
    }
    cellar::jinja::RenderOptions options;
    options.limits.steps = 20'000;
    options.limits.time = std::chrono::milliseconds(500);
    options.limits.value_bytes = 64 * 1024;
    options.limits.output_bytes = 64 * 1024;
    options.limits.memory_bytes = 1 << 20;
    options.now = *cellar::jinja::parse_time("2026-01-31");
    const auto text = parsed->render_text(variables, options);
    if (text && text->size() > options.limits.output_bytes) std::abort();
    if (!text && text.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
}
