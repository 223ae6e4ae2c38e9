#include "text/utf8.h"

#include <gtest/gtest.h>

namespace cellar::text {
namespace {

TEST(Utf8, EveryCodePointThereAndBack) {
    for (uint32_t point = 0; point < 0x110000; ++point) {
        std::string text;
        append_utf8(point, text);
        if (point >= 0xD800 && point <= 0xDFFF) {
            ASSERT_EQ(utf8_character(text), 0u) << point;
            continue;
        }
        ASSERT_EQ(utf8_character(text), text.size()) << point;
        ASSERT_EQ(utf8_code_point(text), point);
        for (size_t n = 1; n < text.size(); ++n) {
            ASSERT_EQ(utf8_character(std::string_view(text).substr(0, n)), 0u);
            ASSERT_TRUE(utf8_unfinished(std::string_view(text).substr(0, n)));
        }
        ASSERT_FALSE(utf8_unfinished(text));
    }
}

TEST(Utf8, RefusesWhatIsNotWellFormed) {
    for (const std::string_view bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                                       "\xF5\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x82(", "\xF0\x9F\x98("}) {
        EXPECT_EQ(utf8_character(bad), 0u);
        EXPECT_FALSE(utf8_unfinished(bad));
        EXPECT_FALSE(is_utf8(bad));
    }
    EXPECT_EQ(utf8_character(""), 0u);
    EXPECT_FALSE(utf8_unfinished(""));
    EXPECT_TRUE(is_utf8(""));
    EXPECT_TRUE(is_utf8("a\u00E9\u20AC\U0001F600"));
}

}  // namespace
}  // namespace cellar::text
