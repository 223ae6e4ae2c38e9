#include "text/template/unicode.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <utf8proc.h>

namespace cellar::jinja {

Point decode(std::string_view text, std::size_t at) {
    auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[at + i]); };
    const std::uint8_t lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    if (lead < 0xe0) return {static_cast<char32_t>((lead & 0x1f) << 6 | (byte(1) & 0x3f)), 2};
    if (lead < 0xf0) return {static_cast<char32_t>((lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f)), 3};
    return {static_cast<char32_t>((lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f)), 4};
}

void append_point(std::string& out, char32_t code) {
    auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    } else {
        put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    }
}

bool is_scalar(char32_t code) {
    return code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
}

std::optional<std::size_t> invalid_utf8_at(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const auto lead = static_cast<std::uint8_t>(text[at]);
        if (lead < 0x80) {
            ++at;
            continue;
        }
        const std::size_t size = lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
        if (size == 0 || text.size() - at < size) return at;
        for (std::size_t i = 1; i < size; ++i)
            if ((static_cast<std::uint8_t>(text[at + i]) & 0xc0) != 0x80) return at;
        const char32_t code = decode(text, at).code;
        if (!is_scalar(code) || (size == 3 && code < 0x800) || (size == 4 && code < 0x10000)) return at;
        at += size;
    }
    return std::nullopt;
}

std::size_t count_points(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<std::uint8_t>(c) & 0xc0) != 0x80; }));
}

std::size_t offset_of(std::string_view text, std::size_t n) {
    for (std::size_t at = 0; at < text.size(); ++at)
        if ((static_cast<std::uint8_t>(text[at]) & 0xc0) != 0x80 && n-- == 0) return at;
    return text.size();
}

namespace {
utf8proc_category_t category(char32_t code) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}
}  // namespace

bool is_space(char32_t code) {
    if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x1c && code <= 0x1f);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
           code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_line_break(char32_t code) {
    return (code >= '\n' && code <= '\r') || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 || code == 0x2029;
}

bool is_alpha(char32_t code) {
    if (code < 0x80) return (code | 0x20) >= 'a' && (code | 0x20) <= 'z';
    const auto c = category(code);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT || c == UTF8PROC_CATEGORY_LM ||
           c == UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t code) {
    return code < 0x80 ? code >= '0' && code <= '9' : category(code) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t code) {
    // Superscripts, subscripts and the circled digits count as digits though not as decimals.
    return is_decimal(code) || code == 0xb2 || code == 0xb3 || code == 0xb9 || code == 0x2070 || (code >= 0x2074 && code <= 0x2079) ||
           (code >= 0x2080 && code <= 0x2089) || (code >= 0x2460 && code <= 0x2468) || (code >= 0x2474 && code <= 0x247c) ||
           (code >= 0x2488 && code <= 0x2490);
}

bool is_numeric(char32_t code) {
    if (code < 0x80) return is_decimal(code);
    const auto c = category(code);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t code) {
    return code < 0x80 ? code >= 'A' && code <= 'Z' : utf8proc_isupper(static_cast<utf8proc_int32_t>(code)) != 0;
}
bool is_lower(char32_t code) {
    return code < 0x80 ? code >= 'a' && code <= 'z' : utf8proc_islower(static_cast<utf8proc_int32_t>(code)) != 0;
}

bool is_printable(char32_t code) {
    if (code < 0x80) return code >= 0x20 && code < 0x7f;
    switch (category(code)) {
        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_CC:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_CS:
        case UTF8PROC_CATEGORY_CO:
        case UTF8PROC_CATEGORY_ZS:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP:
            return false;
        default:
            return true;
    }
}

bool is_word(char32_t code) {
    return code == '_' || is_alpha(code) || is_numeric(code);
}

namespace {
constexpr char32_t sharp_s = 0xdf;
}

void append_upper(std::string& out, char32_t code) {
    if (code < 0x80) {
        out.push_back(static_cast<char>(is_lower(code) ? code - 32 : code));
    } else if (code == sharp_s) {
        out += "SS";
    } else {
        append_point(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))));
    }
}

void append_lower(std::string& out, char32_t code) {
    if (code < 0x80) {
        out.push_back(static_cast<char>(is_upper(code) ? code + 32 : code));
    } else {
        append_point(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    }
}

void append_title(std::string& out, char32_t code) {
    if (code < 0x80) return append_upper(out, code);
    if (code == sharp_s) {
        out += "Ss";
    } else {
        append_point(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))));
    }
}

std::size_t find(std::string_view text, std::string_view needle, std::size_t from) {
    if (from > text.size()) return std::string_view::npos;
    if (needle.empty()) return from;
    // memmem is linear in the worst case; std::string_view::find is the product of both sizes there.
    const void* hit = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
    return hit == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
}

std::size_t find_last(std::string_view text, std::string_view needle) {
    if (needle.size() > text.size()) return std::string_view::npos;
    if (needle.empty()) return text.size();
    const std::string backwards_text(text.rbegin(), text.rend());
    const std::string backwards_needle(needle.rbegin(), needle.rend());
    const std::size_t hit = find(backwards_text, backwards_needle);
    return hit == std::string_view::npos ? hit : text.size() - hit - needle.size();
}

std::string_view strip_left(std::string_view text) {
    while (!text.empty()) {
        const Point p = decode(text, 0);
        if (!is_space(p.code)) break;
        text.remove_prefix(p.size);
    }
    return text;
}

std::string_view strip_right(std::string_view text) {
    while (!text.empty()) {
        std::size_t at = text.size() - 1;
        while ((static_cast<std::uint8_t>(text[at]) & 0xc0) == 0x80) --at;
        if (!is_space(decode(text, at).code)) break;
        text = text.substr(0, at);
    }
    return text;
}

}  // namespace cellar::jinja
