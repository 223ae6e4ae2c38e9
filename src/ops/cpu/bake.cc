// Rows into other cells, turned on the way. The values of one head of one cell are turned at a time, in floats that stay in the first cache;
// every target and every team gives the same bytes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/bake.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "base/check.h"
#include "ops/cpu/bake.h"
#include "ops/cpu/encode_inl.h"

#ifndef CELLAR_OPS_CPU_BAKE_TARGET_INDEPENDENT_
#define CELLAR_OPS_CPU_BAKE_TARGET_INDEPENDENT_
namespace cellar::ops {
namespace {

// cos and sin of each pair's angle, for one turn.
struct Turn {
    std::vector<float> cos;
    std::vector<float> sin;
};

// Neighbouring cells of one head.
struct Stretch {
    const std::byte* from;
    std::byte* to;
    int32_t len;
    const Turn* turn;
};

// Of the processor's caches.
struct alignas(64) Line {
    float values[16];
};

}  // namespace
}  // namespace cellar::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

// As many whole vectors as there are; returns how many values those are.
int decode_halves(kv::RowFormat format, const std::byte* row, int width, float* values) {
    const D d;
    const hn::Rebind<hwy::float16_t, D> dh;
    const hn::Rebind<uint16_t, D> du16;
    const hn::RebindToUnsigned<D> du;
    const auto lanes = static_cast<int>(hn::Lanes(d));
    int i = 0;
    if (format == kv::RowFormat::F16) {
        for (; i + lanes <= width; i += lanes)
            hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(row) + i)), d, values + i);
    } else {
        for (; i + lanes <= width; i += lanes) {
            const auto bits = hn::PromoteTo(du, hn::LoadU(du16, reinterpret_cast<const uint16_t*>(row) + i));
            hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, values + i);
        }
    }
    return i;
}

void decode_block(const std::byte* block, float* values /* [32] */) {
    const D d;
    const hn::RebindToSigned<D> di;
    const hn::Rebind<int8_t, D> db;
    constexpr auto kLanes = static_cast<int>(hn::MaxLanes(D()));
    const hn::CappedTag<float, 4> d4;
    const hn::Rebind<hwy::float16_t, decltype(d4)> dh4;
    const hn::RebindToUnsigned<decltype(dh4)> du4;
    uint16_t half = 0;
    std::memcpy(&half, block, sizeof half);
    const auto scale = hn::Set(d, hn::GetLane(hn::PromoteTo(d4, hn::BitCast(dh4, hn::Set(du4, half)))));
    const auto* quants = reinterpret_cast<const int8_t*>(block + 2);
    for (int i = 0; i < kPackedBlock; i += kLanes)
        hn::StoreU(hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(db, quants + i))), scale), d, values + i);
}

// Packed rows are decoded with their padding.
void decode_values(kv::RowFormat format, const std::byte* row, int width, float* values) {
    if (format == kv::RowFormat::F32) return decode_head_row(format, row, width, values);
    if (format == kv::RowFormat::Q8_0) {
        for (int at = 0; at < width; at += kPackedBlock, row += kPackedBlockBytes) decode_block(row, values + at);
        return;
    }
    const int done = decode_halves(format, row, width, values);
    decode_head_row(format, row + static_cast<ptrdiff_t>(done) * 2, width - done, values + done);
}

void turn_halves(const Turn& turn, int pairs, float* values) {
    const D d;
    const auto lanes = static_cast<int>(hn::Lanes(d));
    float* others = values + pairs;
    int i = 0;
    for (; i + lanes <= pairs; i += lanes) {
        const auto a = hn::LoadU(d, values + i);
        const auto b = hn::LoadU(d, others + i);
        const auto c = hn::LoadU(d, turn.cos.data() + i);
        const auto s = hn::LoadU(d, turn.sin.data() + i);
        hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, values + i);
        hn::StoreU(hn::Add(hn::Mul(a, s), hn::Mul(b, c)), d, others + i);
    }
    for (; i < pairs; ++i) {
        const float a = values[i];
        const float b = others[i];
        values[i] = a * turn.cos[static_cast<size_t>(i)] - b * turn.sin[static_cast<size_t>(i)];
        others[i] = a * turn.sin[static_cast<size_t>(i)] + b * turn.cos[static_cast<size_t>(i)];
    }
}

void turn_neighbours(const Turn& turn, int pairs, float* values) {
    const D d;
    const auto lanes = static_cast<int>(hn::Lanes(d));
    int i = 0;
    for (; i + lanes <= pairs; i += lanes) {
        hn::Vec<D> a;
        hn::Vec<D> b;
        hn::LoadInterleaved2(d, values + 2 * static_cast<ptrdiff_t>(i), a, b);
        const auto c = hn::LoadU(d, turn.cos.data() + i);
        const auto s = hn::LoadU(d, turn.sin.data() + i);
        hn::StoreInterleaved2(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), hn::Add(hn::Mul(a, s), hn::Mul(b, c)), d,
                              values + 2 * static_cast<ptrdiff_t>(i));
    }
    for (; i < pairs; ++i) {
        const float a = values[2 * i];
        const float b = values[2 * i + 1];
        values[2 * i] = a * turn.cos[static_cast<size_t>(i)] - b * turn.sin[static_cast<size_t>(i)];
        values[2 * i + 1] = a * turn.sin[static_cast<size_t>(i)] + b * turn.cos[static_cast<size_t>(i)];
    }
}

#else

void decode_values(kv::RowFormat format, const std::byte* row, int width, float* values) {
    decode_head_row(format, row, width, values);
}

void turn_pairs(const Turn& turn, int pairs, ptrdiff_t step, ptrdiff_t other, float* values) {
    for (int i = 0; i < pairs; ++i) {
        float& a = values[i * step];
        float& b = values[i * step + other];
        const float x = a;
        const float y = b;
        a = x * turn.cos[static_cast<size_t>(i)] - y * turn.sin[static_cast<size_t>(i)];
        b = x * turn.sin[static_cast<size_t>(i)] + y * turn.cos[static_cast<size_t>(i)];
    }
}
void turn_halves(const Turn& turn, int pairs, float* values) {
    turn_pairs(turn, pairs, 1, pairs, values);
}
void turn_neighbours(const Turn& turn, int pairs, float* values) {
    turn_pairs(turn, pairs, 2, 1, values);
}

#endif

// values has room for the width, rounded up to whole packed blocks.
void bake_stretch(const BakeArgs& args, const Stretch& stretch, float* values) {
    const kv::RowTable& rows = *args.rows;
    const int pairs = args.rope.dims / 2;
    const std::byte* from = stretch.from;
    std::byte* to = stretch.to;
    for (int32_t i = 0; i < stretch.len; ++i, from += rows.row_bytes, to += rows.row_bytes) {
        decode_values(rows.format, from, rows.width, values);
        if (args.pairing == RopePairing::Halves) {
            turn_halves(*stretch.turn, pairs, values);
        } else {
            turn_neighbours(*stretch.turn, pairs, values);
        }
        encode_row(rows.format, values, rows.width, to, rows.row_bytes);
    }
}

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops {
namespace {

HWY_EXPORT(bake_stretch);

Turn turn_of(const RopeSpec& rope, int32_t by) {
    Turn turn;
    for (int i = 0; i < rope.dims / 2; ++i) {
        const double angle = by * rope.frequency[i];
        turn.cos.push_back(static_cast<float>(std::cos(angle)));
        turn.sin.push_back(static_cast<float>(std::sin(angle)));
    }
    return turn;
}

}  // namespace
}  // namespace cellar::ops

namespace cellar::ops::cpu_impl {

void bake_rows(const BakeArgs& args, ThreadTeam& team) {
    constexpr int32_t kCells = 64;  // of a piece of work
    const kv::RowTable& rows = *args.rows;
    CHECK_LE(args.rope.dims, rows.width);
    std::map<int32_t, Turn> turns;
    std::vector<Stretch> stretches;
    for (const kv::TurnedMove& move : args.moves) {
        const Turn* turn = nullptr;
        if (args.rope.dims > 0) turn = &turns.try_emplace(move.turn, turn_of(args.rope, move.turn)).first->second;
        for (int head = 0; head < rows.heads; ++head) {
            for (int32_t at = 0; at < move.len; at += kCells)
                stretches.push_back(
                    {rows.at(args.plane, head, move.from + at), rows.at(args.plane, head, move.to + at), std::min(kCells, move.len - at), turn});
        }
    }
    // Each member's values in lines of its own: a line that two of them write costs more than all the rest.
    const size_t lines = (static_cast<size_t>(rows.width) + kPackedBlock - 1) / kPackedBlock * (kPackedBlock * sizeof(float) / sizeof(Line));
    std::vector<Line> values(lines * static_cast<size_t>(team.size()));
    const auto bake = HWY_DYNAMIC_DISPATCH(bake_stretch);
    team.run(static_cast<int64_t>(stretches.size()), [&](int64_t i, int member) {
        const Stretch& stretch = stretches[static_cast<size_t>(i)];
        if (stretch.turn == nullptr) {
            std::memcpy(stretch.to, stretch.from, static_cast<size_t>(stretch.len) * rows.row_bytes);
        } else {
            bake(args, stretch, values[lines * static_cast<size_t>(member)].values);
        }
    });
}

}  // namespace cellar::ops::cpu_impl
#endif
