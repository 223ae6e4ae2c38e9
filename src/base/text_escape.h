#pragma once
// Makes foreign text safe to show: a terminal obeys control characters, and a reader is misled by those that reorder text.
#include <string>
#include <string_view>

namespace cellar {

enum class EscapeKeep {
    Nothing,       // one line in, one line out
    LinesAndTabs,  // '\n' and '\t' pass
};

// Shows as escapes: C0 controls and DEL as \xHH (with \n, \t, \r by name), C1 controls, line separators and what sets the direction of
// text as \u{HHHH}, and each byte that is not part of well-formed UTF-8 as \xHH. All else passes unchanged, the backslash too.
[[nodiscard]] std::string escape_for_terminal(std::string_view text, EscapeKeep keep = EscapeKeep::Nothing);

// Length in bytes of the well-formed UTF-8 character at the front of `text`, and its code point; {0, 0} where there is none.
struct Utf8Front {
    int length = 0;
    char32_t code = 0;
};
[[nodiscard]] Utf8Front utf8_front(std::string_view text);

}  // namespace cellar
