#include "base/text_escape.h"

#include <iterator>

#include <fmt/format.h>

namespace cellar {
namespace {

bool misleads(char32_t code) {
    return (code >= 0x80 && code <= 0x9f) ||                     // C1 controls
           code == 0x61c || code == 0x200e || code == 0x200f ||  // direction marks
           (code >= 0x2028 && code <= 0x202e) ||                 // line and paragraph separator, embeddings and overrides
           (code >= 0x2066 && code <= 0x2069) ||                 // isolates
           (code >= 0xfff9 && code <= 0xfffb);                   // interlinear annotation
}

void append_hex(std::string& out, char byte) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(byte));
}

void append_ascii(std::string& out, char c, EscapeKeep keep) {
    const auto code = static_cast<unsigned char>(c);
    const bool kept = keep == EscapeKeep::LinesAndTabs && (c == '\n' || c == '\t');
    if (kept || (code >= 0x20 && code != 0x7f)) {
        out += c;
    } else if (c == '\n') {
        out += "\\n";
    } else if (c == '\t') {
        out += "\\t";
    } else if (c == '\r') {
        out += "\\r";
    } else {
        append_hex(out, c);
    }
}

}  // namespace

Utf8Front utf8_front(std::string_view text) {
    if (text.empty()) return {};
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return {1, lead};
    int length = 0;
    if (lead >= 0xc2 && lead <= 0xdf) length = 2;
    if (lead >= 0xe0 && lead <= 0xef) length = 3;
    if (lead >= 0xf0 && lead <= 0xf4) length = 4;
    if (length == 0 || text.size() < static_cast<size_t>(length)) return {};
    char32_t code = lead & (0x7f >> length);
    for (int i = 1; i < length; ++i) {
        if ((byte(static_cast<size_t>(i)) & 0xc0) != 0x80) return {};
        code = code << 6 | (byte(static_cast<size_t>(i)) & 0x3f);
    }
    // Too long an encoding, a surrogate, or beyond the last code point.
    if ((length == 3 && code < 0x800) || (length == 4 && code < 0x10000) || (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff) return {};
    return {length, code};
}

size_t append_escaped(std::string_view text, EscapeKeep keep, std::string& out) {
    const Utf8Front front = utf8_front(text);
    const std::string_view character = text.substr(0, front.length == 0 ? 1 : static_cast<size_t>(front.length));
    if (front.length == 1) {
        append_ascii(out, text[0], keep);
    } else if (front.length == 0 || misleads(front.code)) {
        for (const char byte : character) append_hex(out, byte);
    } else {
        out += character;
    }
    return character.size();
}

std::string escape_for_terminal(std::string_view text, EscapeKeep keep) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) text.remove_prefix(append_escaped(text, keep, out));
    return out;
}

}  // namespace cellar
