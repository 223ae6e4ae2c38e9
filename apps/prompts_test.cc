// Where prompts come from, and what the flags of a talk mean.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/commands.h"

namespace cellar::apps {
namespace {

// A file with this text, for as long as a test needs it.
class TextFile {
  public:
    explicit TextFile(const std::string& text) : path(std::string(CELLAR_BINARY_DIR) + "/prompts-" + std::to_string(getpid())) {
        std::ofstream(path, std::ios::binary) << text;
    }
    ~TextFile() { std::filesystem::remove(path); }
    TextFile(const TextFile&) = delete;
    TextFile& operator=(const TextFile&) = delete;
    const std::string path;
};

TEST(Prompt, IsTheTextOrTheFileByteByByte) {
    const std::string bytes("two\r\nlines\0\xff", 12);
    const TextFile file(bytes);
    EXPECT_EQ(*read_prompt("text", std::nullopt), "text");
    EXPECT_EQ(*read_prompt("", std::nullopt), "") << "an empty text was given";
    EXPECT_EQ(*read_prompt(std::nullopt, file.path), bytes);
    const auto missing = read_prompt(std::nullopt, file.path + "-no");
    ASSERT_FALSE(missing);
    EXPECT_NE(missing.error().message.find(file.path + "-no"), std::string::npos) << missing.error().message;
}

TEST(MaxTokens, IsANumberOrNoLimit) {
    EXPECT_EQ(*parse_max_tokens(""), -1);
    EXPECT_EQ(*parse_max_tokens("-1"), -1);
    EXPECT_EQ(*parse_max_tokens("0"), 0);
    EXPECT_EQ(*parse_max_tokens("12"), 12);
    for (const char* text : {"-2", "few", "1.5"}) {
        const auto refused = parse_max_tokens(text);
        ASSERT_FALSE(refused) << text;
        EXPECT_NE(refused.error().message.find("-n is "), std::string::npos) << refused.error().message;
    }
}

TEST(ThinkingFlag, KnowsThreeWords) {
    EXPECT_EQ(*parse_thinking("dim"), Thinking::Dim);
    EXPECT_EQ(*parse_thinking("show"), Thinking::Show);
    EXPECT_EQ(*parse_thinking("hide"), Thinking::Hide);
    for (const char* text : {"", "Dim", "loud"}) EXPECT_FALSE(parse_thinking(text)) << text;
}

TEST(ConversationOptionsOf, TakeTheTemplateFromItsFileAndItsName) {
    TalkArgs args;
    args.system = "You are Nora.";
    EXPECT_EQ(conversation_options(args)->system, "You are Nora.");
    EXPECT_FALSE(conversation_options(args)->template_text);
    const TextFile file("{{ messages }}");
    args.template_file = file.path;
    EXPECT_EQ(conversation_options(args)->template_text, "{{ messages }}");
    EXPECT_EQ(conversation_options(args)->template_name, "--template " + file.path);
    args.template_file = file.path + "-no";
    EXPECT_FALSE(conversation_options(args));
}

}  // namespace
}  // namespace cellar::apps
