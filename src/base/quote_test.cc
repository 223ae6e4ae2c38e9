#include "base/quote.h"

#include <gtest/gtest.h>

namespace cellar {
namespace {

TEST(Quote, KeepsPlainTextAndWholeCharacters) {
    EXPECT_EQ(quoted(""), "''");
    EXPECT_EQ(quoted("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
    EXPECT_EQ(quoted("h\u00e9 \u4f60 \U0001F600"), "'h\u00e9 \u4f60 \U0001F600'");
}

TEST(Quote, EscapesWhatBreaksALineOrATerminal) {
    EXPECT_EQ(quoted("a\nb\tc\rd"), "'a\\nb\\tc\\rd'");
    EXPECT_EQ(quoted("\x1b[31m"), "'\\x1b[31m'");
    EXPECT_EQ(quoted(std::string_view("\0", 1)), "'\\x00'");
    EXPECT_EQ(quoted("it's \\"), "'it\\'s \\\\'");
    EXPECT_EQ(escaped("it's \\"), "it's \\");
    EXPECT_EQ(quoted("\x7f"), "'\\x7f'");
    EXPECT_EQ(quoted("\xc2\x9b"), "'\\xc2\\x9b'") << "a C1 control";
    EXPECT_EQ(quoted("\u2028"), "'\\xe2\\x80\\xa8'") << "a line separator";
    EXPECT_EQ(quoted("\u202e"), "'\\xe2\\x80\\xae'") << "turns the text around";
}

TEST(Quote, EscapesBytesThatAreNoUtf8) {
    EXPECT_EQ(quoted("\xff"), "'\\xff'");
    EXPECT_EQ(quoted("\xc3"), "'\\xc3'") << "cut";
    EXPECT_EQ(quoted("\xc0\xaf"), "'\\xc0\\xaf'") << "overlong";
    EXPECT_EQ(quoted("\xe0\x80\x80"), "'\\xe0\\x80\\x80'") << "overlong";
    EXPECT_EQ(quoted("\xed\xa0\x80"), "'\\xed\\xa0\\x80'") << "a surrogate";
    EXPECT_EQ(quoted("\xf4\x90\x80\x80"), "'\\xf4\\x90\\x80\\x80'") << "too large";
    EXPECT_EQ(quoted("\xf0\x8f\xbf\xbf"), "'\\xf0\\x8f\\xbf\\xbf'") << "overlong";
}

TEST(Quote, CutsBetweenCharacters) {
    EXPECT_EQ(quoted("abcdef", 6), "'abcdef'");
    EXPECT_EQ(quoted("abcdef", 5), "'abcde...'");
    EXPECT_EQ(quoted("ab\u4f60", 4), "'ab...'");
    EXPECT_EQ(quoted("ab\u4f60", 5), "'ab\u4f60'");
    EXPECT_EQ(quoted("abc", 0), "'...'");
}

}  // namespace
}  // namespace cellar
