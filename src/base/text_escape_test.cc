#include "base/text_escape.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace cellar {
namespace {

std::string encode(char32_t code) {
    std::string out;
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xc0 | code >> 6);
        out += static_cast<char>(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        out += static_cast<char>(0xe0 | code >> 12);
        out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (code & 0x3f));
    } else {
        out += static_cast<char>(0xf0 | code >> 18);
        out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
        out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (code & 0x3f));
    }
    return out;
}

TEST(TextEscape, PlainTextPasses) {
    const std::string text = "Grüße, 世界 \xf0\x9f\x98\x80 back\\slash \"quotes\" ~";
    EXPECT_EQ(escape_for_terminal(text), text);
    EXPECT_EQ(escape_for_terminal(""), "");
}

TEST(TextEscape, ControlsAreShown) {
    EXPECT_EQ(escape_for_terminal("\x1b[31mred\x07"), "\\x1b[31mred\\x07");
    EXPECT_EQ(escape_for_terminal("a\nb\tc\r"), "a\\nb\\tc\\r");
    EXPECT_EQ(escape_for_terminal("a\nb\tc\r", EscapeKeep::LinesAndTabs), "a\nb\tc\\r");
    EXPECT_EQ(escape_for_terminal(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
    EXPECT_EQ(escape_for_terminal("\xc2\x9b"
                                  "31m"),
              "\\xc2\\x9b31m");
    EXPECT_EQ(escape_for_terminal("\xe2\x80\xaegpj.exe\xe2\x81\xa6"), "\\xe2\\x80\\xaegpj.exe\\xe2\\x81\\xa6");
}

TEST(TextEscape, BytesThatAreNoTextAreShown) {
    EXPECT_EQ(escape_for_terminal("\xff"), "\\xff");
    EXPECT_EQ(escape_for_terminal("\xe4\xb8"), "\\xe4\\xb8");
    EXPECT_EQ(escape_for_terminal("\xc0\x9b"), "\\xc0\\x9b");
    EXPECT_EQ(escape_for_terminal("\xed\xa0\x80"), "\\xed\\xa0\\x80");
    EXPECT_EQ(escape_for_terminal("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
    EXPECT_EQ(escape_for_terminal("\xe4xyz"), "\\xe4xyz");
}

TEST(TextEscape, EveryCodePointIsReadBack) {
    for (char32_t code = 0; code <= 0x110010; ++code) {
        const Utf8Front front = utf8_front(encode(code));
        const bool valid = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        ASSERT_EQ(front.length, valid ? static_cast<int>(encode(code).size()) : 0) << static_cast<uint32_t>(code);
        ASSERT_EQ(front.code, valid ? code : 0);
    }
}

// Whatever comes in, nothing that a terminal obeys goes out, and the result is stable.
RC_GTEST_PROP(TextEscapeProperty, NothingActiveComesOut, ()) {
    std::string text;
    for (const int pick : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 0x110000 + 600))) {
        if (pick < 0x110000) {
            text += encode(static_cast<char32_t>(pick % 4 == 0 ? pick % 0x3000 : pick));
        } else {
            text += static_cast<char>(pick);
        }
    }
    const bool lines = *rc::gen::arbitrary<bool>();
    const EscapeKeep keep = lines ? EscapeKeep::LinesAndTabs : EscapeKeep::Nothing;
    const std::string out = escape_for_terminal(text, keep);
    RC_ASSERT(escape_for_terminal(out, keep) == out);
    for (const char c : out) {
        const auto byte = static_cast<unsigned char>(c);
        RC_ASSERT((byte >= 0x20 && byte != 0x7f) || (lines && (c == '\n' || c == '\t')));
    }
    RC_ASSERT(out.find("\xe2\x80\xae") == std::string::npos);
}

}  // namespace
}  // namespace cellar
