#include "kv/spec.h"

#include <algorithm>

#include "base/check.h"

namespace cellar::kv {

std::string_view name(RowFormat format) {
    switch (format) {
        case RowFormat::F32:
            return "f32";
        case RowFormat::F16:
            return "f16";
        case RowFormat::BF16:
            return "bf16";
        case RowFormat::Q8_0:
            return "q8_0";
    }
    CHECK(false);
}

std::optional<RowFormat> parse_row_format(std::string_view text) {
    for (const RowFormat format : {RowFormat::F32, RowFormat::F16, RowFormat::BF16, RowFormat::Q8_0}) {
        if (text == name(format)) return format;
    }
    return std::nullopt;
}

size_t head_row_bytes(RowFormat format, int width) {
    CHECK_GT(width, 0);
    const auto values = static_cast<size_t>(width);
    switch (format) {
        case RowFormat::F32:
            return values * 4;
        case RowFormat::F16:
        case RowFormat::BF16:
            return values * 2;
        case RowFormat::Q8_0:
            return ((values + 31) / 32 * 34 + 3) / 4 * 4;
    }
    CHECK(false);
}

Visible visible(const Keep& keep, int32_t pos) {
    CHECK_GE(pos, 0);
    Visible seen;
    seen.recent = {first_needed(keep, pos), pos + 1};
    if (keep.kind == Keep::Kind::Window && keep.sinks > 0) {
        // Sinks that the window reaches are part of it, so that the intervals stay disjoint.
        if (seen.recent.lo <= keep.sinks) {
            seen.recent.lo = 0;
        } else {
            seen.sinks = {0, keep.sinks};
        }
    }
    return seen;
}

int32_t first_needed(const Keep& keep, int32_t pos) {
    switch (keep.kind) {
        case Keep::Kind::All:
            return 0;
        case Keep::Kind::Window:
            return std::max({pos - keep.size + 1, std::min(keep.sinks, pos), 0});
        case Keep::Kind::Chunk:
            return pos / keep.size * keep.size;
        case Keep::Kind::State:
            return pos;
    }
    CHECK(false);
}

size_t GroupSpec::cell_bytes() const {
    size_t bytes = 0;
    for (const RowSpec& row : rows) bytes += row.bytes();
    return bytes * static_cast<size_t>(planes);
}

size_t CacheSpec::bytes_per_token() const {
    size_t bytes = 0;
    for (const GroupSpec& group : groups) {
        if (group.keep.kind == Keep::Kind::All) bytes += group.cell_bytes();
    }
    return bytes;
}

}  // namespace cellar::kv
