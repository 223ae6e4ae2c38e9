#include "kv/copy_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "tensor/row_codec.h"

namespace cellar::kv {
namespace {

DType type_of(RowFormat format) {
    switch (format) {
        case RowFormat::F32:
            return DType::F32;
        case RowFormat::F16:
            return DType::F16;
        case RowFormat::BF16:
            return DType::BF16;
        case RowFormat::Q8_0:
            return DType::Q8_0;
    }
    CHECK(false);
}

int64_t values_in_row(const RowTable& table) {
    return table.format == RowFormat::Q8_0 ? (table.width + 31) / 32 * 32 : table.width;
}

}  // namespace

void copy_rows(const RowTable& from, int from_plane, int32_t from_cell, const RowTable& to, int to_plane, int32_t to_cell, int32_t len) {
    CHECK(from.heads == to.heads && from.width == to.width);
    // Padding of a packed row is zero, and stays so in both directions.
    std::vector<float> values(static_cast<size_t>(to.width + 31) / 32 * 32);
    for (int head = 0; head < from.heads; ++head) {
        const std::byte* source = from.at(from_plane, head, from_cell);
        std::byte* target = to.at(to_plane, head, to_cell);
        if (from.format == to.format) {
            std::memcpy(target, source, static_cast<size_t>(len) * from.row_bytes);
            continue;
        }
        for (int32_t i = 0; i < len; ++i, source += from.row_bytes, target += to.row_bytes) {
            decode_row(type_of(from.format), source, values_in_row(from), values.data());
            std::fill(values.begin() + to.width, values.end(), 0.0F);
            std::memset(target, 0, to.row_bytes);
            encode_row(type_of(to.format), values.data(), values_in_row(to), target);
        }
    }
}

}  // namespace cellar::kv
