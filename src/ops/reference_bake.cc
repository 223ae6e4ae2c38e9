#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "ops/reference_bake.h"
#include "ops/row_store.h"

namespace cellar::ops::reference_impl {
namespace {

void turn(std::vector<float>& values, const RopeSpec& rope, RopePairing pairing, int32_t by) {
    const int pairs = rope.dims / 2;
    for (int i = 0; i < pairs; ++i) {
        float& a = values[static_cast<size_t>(pairing == RopePairing::Neighbours ? 2 * i : i)];
        float& b = values[static_cast<size_t>(pairing == RopePairing::Neighbours ? 2 * i + 1 : i + pairs)];
        const double angle = by * rope.frequency[i];
        const double x = a;
        const double y = b;
        a = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
        b = static_cast<float>(x * std::sin(angle) + y * std::cos(angle));
    }
}

}  // namespace

void bake_rows(const BakeArgs& args, ThreadTeam& /*team*/) {
    const kv::RowTable& rows = *args.rows;
    CHECK_LE(args.rope.dims, rows.width);
    std::vector<float> values(static_cast<size_t>(rows.width));
    for (const kv::TurnedMove& move : args.moves) {
        for (int head = 0; head < rows.heads; ++head) {
            for (int32_t i = 0; i < move.len; ++i) {
                const std::byte* from = rows.at(args.plane, head, move.from + i);
                std::byte* to = rows.at(args.plane, head, move.to + i);
                if (args.rope.dims == 0) {
                    std::memcpy(to, from, rows.row_bytes);
                    continue;
                }
                decode_head_row(rows.format, from, rows.width, values.data());
                turn(values, args.rope, args.pairing, move.turn);
                encode_head_row(rows.format, values.data(), rows.width, to, rows.row_bytes);
            }
        }
    }
}

}  // namespace cellar::ops::reference_impl
