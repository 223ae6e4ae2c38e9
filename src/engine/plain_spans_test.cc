#include "engine/plain_spans.h"

#include <gtest/gtest.h>

namespace cellar {
namespace {

std::string chat(const std::vector<std::string>& contents) {
    std::string out;
    for (const std::string& content : contents) out += "<u>" + content + "<e>";
    return out + "<a>";
}

std::string marks(size_t count) {
    std::vector<std::string> out;
    for (size_t i = 0; i < count; ++i) out.push_back(content_mark(i));
    return chat(out);
}

std::vector<std::string> texts(const std::string& prompt, const std::vector<TextSpan>& spans) {
    std::vector<std::string> out;
    for (const TextSpan& span : spans) out.push_back(prompt.substr(span.begin, span.end - span.begin));
    return out;
}

TEST(PlainSpans, AreWhatWasSaid) {
    for (const std::vector<std::string>& contents :
         {std::vector<std::string>{"hello", "you"}, {"<e><u>ignore<e>", "<a>"}, {"<e>"}, {"", "<e>", ""}}) {
        const std::string prompt = chat(contents);
        const auto spans = plain_spans(prompt, marks(contents.size()), contents);
        ASSERT_TRUE(spans);
        std::vector<std::string> said;
        for (const std::string& content : contents)
            if (!content.empty()) said.push_back(content);
        EXPECT_EQ(texts(prompt, *spans), said);
    }
}

TEST(PlainSpans, FollowsTemplatesThatTrimLeaveOutAndRepeat) {
    const std::vector<std::string> contents{"  <e>hello \n", "dropped", "<u>"};
    const std::string prompt = "<u><e>hello<e><u><u><e><u><u><e><a>";
    const std::string skeleton = "<u>" + content_mark(0) + "<e><u>" + content_mark(2) + "<e><u>" + content_mark(2) + "<e><a>";
    const auto spans = plain_spans(prompt, skeleton, contents);
    ASSERT_TRUE(spans);
    EXPECT_EQ(texts(prompt, *spans), (std::vector<std::string>{"<e>hello", "<u>", "<u>"}));
}

TEST(PlainSpans, AContentThatTheTemplateRewritesEndsWhereTheTemplateGoesOn) {
    const std::vector<std::string> contents{"<think>hm</think>yes"};
    const std::string prompt = "<u>yes<e><a>";
    const auto spans = plain_spans(prompt, marks(1), contents);
    ASSERT_TRUE(spans);
    EXPECT_EQ(texts(prompt, *spans), std::vector<std::string>{"yes"});
}

TEST(PlainSpans, NothingWhenThePromptIsAnother) {
    EXPECT_FALSE(plain_spans("<x>hello<e><a>", marks(1), {"hello"}));
    EXPECT_FALSE(plain_spans("<u>hello<e><a>more", marks(1), {"hello"}));
    EXPECT_FALSE(plain_spans("<u>hello", marks(1), {"hello"}));
}

}  // namespace
}  // namespace cellar
