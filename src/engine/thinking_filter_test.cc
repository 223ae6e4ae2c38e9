#include "engine/thinking_filter.h"

#include <gtest/gtest.h>

namespace cellar {
namespace {

// Whatever the pieces, the same text is thought and the same is said, and nothing is lost.
TEST(ThinkingFilter, PartsTheTextWhereverItIsCut) {
    const std::string text = "<think>a <b> c</think>\n\nhello < world <thin <think>again</think> end</think> <thi";
    for (size_t piece = 1; piece <= text.size(); ++piece) {
        ThinkingFilter filter(false);
        std::string thought, said, all;
        const auto take = [&](std::string_view part, bool thinking) {
            (thinking ? thought : said) += part;
            all += part;
        };
        for (size_t at = 0; at < text.size(); at += piece) filter.push(std::string_view(text).substr(at, piece), take);
        filter.finish(take);
        EXPECT_EQ(all, text);
        EXPECT_EQ(thought, "<think>a <b> c</think><think>again</think>");
        EXPECT_EQ(said, "\n\nhello < world <thin  end</think> <thi");
    }
}

TEST(ThinkingFilter, MayBeginInside) {
    ThinkingFilter filter(true);
    std::string said;
    filter.push("so it is</think>yes", [&](std::string_view part, bool thinking) {
        if (!thinking) said += part;
    });
    EXPECT_EQ(said, "yes");
    EXPECT_FALSE(filter.inside());
}

}  // namespace
}  // namespace cellar
