#include "text/charsmap.h"

#include <cstring>

namespace cellar::text {

namespace {

uint32_t little_endian(std::string_view bytes) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    return value;
}

uint32_t label(uint32_t entry) {
    return entry & (1u << 31 | 0xFFu);
}
uint32_t offset(uint32_t entry) {
    return entry >> 10 << ((entry & 1u << 9) >> 6);
}
bool has_value(uint32_t entry) {
    return (entry >> 8 & 1) != 0;
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view bytes) {
    if (bytes.size() < 4) return fail("vocabulary: the charsmap has {} bytes, fewer than 4", bytes.size());
    const size_t array = little_endian(bytes);
    bytes.remove_prefix(4);
    if (array % 4 != 0 || array >= bytes.size()) {
        return fail("vocabulary: the charsmap wants {} bytes of entries (a multiple of 4) and replacements behind them, but has {} bytes", array,
                    bytes.size());
    }
    if (bytes.back() != '\0') return fail("vocabulary: the last replacement of the charsmap has no end");
    Charsmap map;
    map.entries_.reserve(array / 4);
    for (size_t at = 0; at < array; at += 4) map.entries_.push_back(little_endian(bytes.substr(at)));
    map.replacements_ = bytes.substr(array);
    return map;
}

Charsmap::Replacement Charsmap::longest(std::string_view text) const {
    Replacement best{{}, 0};
    if (entries_.empty()) return best;
    uint32_t at = offset(entries_[0]);
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<uint8_t>(text[i]);
        at ^= byte;
        if (byte == 0 || at >= entries_.size() || label(entries_[at]) != byte) break;
        const bool ends_here = has_value(entries_[at]);
        at ^= offset(entries_[at]);
        if (!ends_here) continue;
        if (at >= entries_.size()) break;
        const uint32_t place = entries_[at] & ~(1u << 31);
        // The replacements end with a zero byte, so that this one ends inside of them.
        if (place < replacements_.size()) best = {std::string_view(replacements_.data() + place), i + 1};
    }
    return best;
}

}  // namespace cellar::text
