// 1,500 small templates with what the reference makes of them (testdata/make_reference.py): operators, filters, tests, methods, statements,
// whitespace, and random compositions of all.
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/template/template.h"

namespace cellar::jinja {
namespace {

TEST(TemplateReference, EveryCaseIsEqual) {
    std::ifstream file(std::string(CELLAR_SOURCE_DIR) + "/src/text/template/testdata/reference.json");
    ASSERT_TRUE(file) << "reference.json is missing";
    const auto data = nlohmann::ordered_json::parse(file);
    int texts = 0, errors = 0, undefined = 0, same_words = 0;
    for (const auto& entry : data["cases"]) {
        const auto source = entry[0].get<std::string>();
        SCOPED_TRACE(source);
        RenderOptions options;
        options.now = *parse_time("2026-01-31");
        const auto parsed = Template::parse(source);
        const auto text = parsed ? parsed->render(data["variables"], options) : tl::unexpected(parsed.error());
        if (entry[1].contains("text")) {
            EXPECT_TRUE(text) << (text ? "" : text.error().message);
            if (text) {
                EXPECT_EQ(*text, entry[1]["text"].get<std::string>());
            }
            ++texts;
        } else {
            EXPECT_FALSE(text) << "expected " << entry[1]["error"] << ", rendered: " << text.value_or("");
            ++errors;
            if (!text) {
                EXPECT_TRUE(text.error().message.starts_with("template line ")) << text.error().message;
                // Errors of undefined values are the ones that authors of templates see most: they read as in the reference.
                const auto expected = entry[1]["error"].get<std::string>();
                const std::string prefix = "UndefinedError: ";
                if (expected.starts_with(prefix)) {
                    ++undefined;
                    if (text.error().message.find(expected.substr(prefix.size())) != std::string::npos) ++same_words;
                }
            }
        }
    }
    EXPECT_GT(texts, 1000);
    EXPECT_GT(errors, 200);
    EXPECT_GT(undefined, 25);
    EXPECT_GE(same_words * 10, undefined * 8) << same_words << " of " << undefined;
}

}  // namespace
}  // namespace cellar::jinja
