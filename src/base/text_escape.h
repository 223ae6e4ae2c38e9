#pragma once
// Makes foreign text safe to show: a terminal obeys control characters, and a reader is misled by those that reorder text.
#include <cstddef>
#include <string>
#include <string_view>

namespace cellar {

enum class EscapeKeep {
    Nothing,       // one line in, one line out
    LinesAndTabs,  // '\n' and '\t' pass
};

// Shows as escapes: C0 controls and DEL as \xHH (with \n, \t, \r by name), and byte by byte as \xHH: C1 controls, line separators, what
// sets the direction of text, and what is no well-formed UTF-8. All else passes unchanged, the backslash too.
[[nodiscard]] std::string escape_for_terminal(std::string_view text, EscapeKeep keep = EscapeKeep::Nothing);

// The same for the character at the front of `text` alone. Returns how many bytes it took. Requires: text is not empty.
size_t append_escaped(std::string_view text, EscapeKeep keep, std::string& out);

// Length in bytes of the well-formed UTF-8 character at the front of `text`, and its code point; {0, 0} where there is none.
struct Utf8Front {
    int length = 0;
    char32_t code = 0;
};
[[nodiscard]] Utf8Front utf8_front(std::string_view text);

}  // namespace cellar
