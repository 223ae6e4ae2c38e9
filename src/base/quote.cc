#include "base/quote.h"

#include "base/text_escape.h"

namespace cellar {
namespace {

std::string escape(std::string_view text, size_t max_bytes, bool quotes) {
    std::string out;
    for (size_t used = 0; !text.empty();) {
        std::string shown;
        const size_t length = append_escaped(text, EscapeKeep::Nothing, shown);
        used += length;
        if (used > max_bytes) return out + "...";
        if (quotes && (text[0] == '\'' || text[0] == '\\')) out += '\\';
        out += shown;
        text.remove_prefix(length);
    }
    return out;
}

}  // namespace

std::string quoted(std::string_view text, size_t max_bytes) {
    return "'" + escape(text, max_bytes, true) + "'";
}

std::string escaped(std::string_view text, size_t max_bytes) {
    return escape(text, max_bytes, false);
}

}  // namespace cellar
