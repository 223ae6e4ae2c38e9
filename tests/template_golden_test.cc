// The chat templates of real models against what the reference renders: every case of every template, byte for byte.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/template/template.h"

namespace cellar::jinja {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const fs::path folder = fs::path(CELLAR_SOURCE_DIR) / "../shared/chat-templates";

std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST(TemplateGolden, EveryCaseOfEveryTemplateIsEqual) {
    if (!fs::exists(folder / "cases.json")) GTEST_SKIP() << "no chat templates at " << folder << ": nothing is compared";
    const Json cases = Json::parse(contents(folder / "cases.json"));
    int templates = 0, texts = 0, errors = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() != ".jinja") continue;
        const std::string name = entry.path().stem().string();
        SCOPED_TRACE(name);
        ++templates;
        const Json expected = Json::parse(contents(folder / (name + ".json")));
        const auto parsed = Template::parse(contents(entry.path()));
        ASSERT_TRUE(parsed) << parsed.error().message;
        RenderOptions options;
        options.now = *parse_time("2026-01-31");
        for (const auto& [case_name, outcome] : expected.items()) {
            SCOPED_TRACE(case_name);
            Json variables = cases.at(case_name);
            variables["bos_token"] = "<s>";
            variables["eos_token"] = "</s>";
            const auto text = parsed->render(variables, options);
            if (outcome.contains("text")) {
                ASSERT_TRUE(text) << text.error().message;
                EXPECT_EQ(*text, outcome["text"].get<std::string>());
                ++texts;
            } else {
                ASSERT_FALSE(text) << "expected the error: " << outcome["error"] << "\nrendered: " << *text;
                ++errors;
                // What a template raises itself must come through word for word.
                const auto said = outcome["error"].get<std::string>();
                if (contents(entry.path()).find("raise_exception('" + said) != std::string::npos) {
                    EXPECT_NE(text.error().message.find(said), std::string::npos) << text.error().message;
                }
                EXPECT_TRUE(text.error().message.starts_with("template line ")) << text.error().message;
                EXPECT_EQ(text.error().message.find('\n'), std::string::npos);
            }
        }
    }
    EXPECT_GE(templates, 50);
    EXPECT_EQ(texts + errors, 7 * templates);
    EXPECT_GE(errors, 15);
}

}  // namespace
}  // namespace cellar::jinja
