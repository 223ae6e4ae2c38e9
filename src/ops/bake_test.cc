// Rows that are decoded, rotated and encoded on their way into other cells.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>
#include <vector>

#include "base/thread_team.h"
#include "ops/cpu/each_target.h"
#include "ops/ops.h"
#include "ops/row_store.h"

namespace cellar::ops {
namespace {

constexpr kv::RowFormat kFormats[] = {kv::RowFormat::F32, kv::RowFormat::F16, kv::RowFormat::BF16, kv::RowFormat::Q8_0};
constexpr int kHeads = 3;
constexpr int kPlanes = 2;
constexpr int32_t kCells = 400;

// One row of cells with random values in cells [0, 200), zero bytes behind.
struct Memory {
    Memory(kv::RowFormat format, int width) : bytes(kv::head_row_bytes(format, width) * kCells * kHeads * kPlanes) {
        const size_t row = kv::head_row_bytes(format, width);
        table = {bytes.data(), row * kCells * kHeads, row * kCells, row, format, kHeads, width};
        std::mt19937 random(static_cast<uint32_t>(width));
        std::vector<float> values(static_cast<size_t>(width));
        for (int plane = 0; plane < kPlanes; ++plane)
            for (int head = 0; head < kHeads; ++head)
                for (int32_t cell = 0; cell < kCells / 2; ++cell) {
                    for (float& v : values) v = std::normal_distribution<float>()(random);
                    encode_head_row(format, values.data(), width, table.at(plane, head, cell), row);
                }
    }
    Memory(const Memory& other) : bytes(other.bytes), table(other.table) { table.base = bytes.data(); }

    [[nodiscard]] std::vector<float> values(int plane, int head, int32_t cell) const {
        std::vector<float> out(static_cast<size_t>(table.width));
        decode_head_row(table.format, table.at(plane, head, cell), table.width, out.data());
        return out;
    }

    std::vector<std::byte> bytes;
    kv::RowTable table;
};

std::vector<double> frequencies(int dims) {
    std::vector<double> out;
    for (int i = 0; i < dims / 2; ++i) out.push_back(std::pow(10000.0, -2.0 * i / dims));
    return out;
}

// Short and long, forwards and backwards, by several turns.
const std::vector<kv::TurnedMove>& moves() {
    static const std::vector<kv::TurnedMove> all = {{0, 3, 200, 1, -7}, {0, 10, 210, 130, -500}, {0, 150, 350, 32, 12}, {0, 182, 390, 5, -7}};
    return all;
}

Memory baked(const Ops& ops, const Memory& before, const std::vector<double>& frequency, RopePairing pairing, int threads) {
    Memory memory(before);
    ThreadTeam team(threads);
    // A magnitude is in the rows already and must not be applied again.
    const RopeSpec rope{static_cast<int>(frequency.size()) * 2, frequency.data(), 1.25};
    ops.bake_rows({.rows = &memory.table, .plane = 1, .rope = rope, .pairing = pairing, .moves = moves()}, team);
    return memory;
}

// What one more rounding to a format may cost, of the largest value of a row.
double rounding(kv::RowFormat format) {
    switch (format) {
        case kv::RowFormat::F32:
            return 0x1p-21;
        case kv::RowFormat::F16:
            return 0x1p-11;
        case kv::RowFormat::BF16:
            return 0x1p-8;
        case kv::RowFormat::Q8_0:
            return 1.0 / 254 + 0x1p-11;  // half a step, and the rounding of the scale itself times 127
    }
    return 0.0;
}

TEST(BakeRows, TurnsEveryPairAndTouchesNothingElse) {
    for (const kv::RowFormat format : kFormats) {
        for (const auto& [width, dims] : {std::pair{64, 64}, {64, 32}, {80, 80}, {20, 6}, {128, 128}, {32, 32}, {96, 48}}) {
            const Memory before(format, width);
            const std::vector<double> frequency = frequencies(dims);
            for (const RopePairing pairing : {RopePairing::Halves, RopePairing::Neighbours}) {
                for (const Ops* ops : {&reference(), &cpu()}) {
                    const Memory after = baked(*ops, before, frequency, pairing, 2);
                    Memory untouched(after);
                    for (const kv::TurnedMove& move : moves()) {
                        for (int head = 0; head < kHeads; ++head) {
                            for (int32_t i = 0; i < move.len; ++i) {
                                std::vector<float> want = before.values(1, head, move.from + i);
                                double most = 0.0;
                                for (int p = 0; p < dims / 2; ++p) {
                                    const bool halves = pairing == RopePairing::Halves;
                                    float& a = want[static_cast<size_t>(halves ? p : 2 * p)];
                                    float& b = want[static_cast<size_t>(halves ? p + dims / 2 : 2 * p + 1)];
                                    const std::complex<double> turned =
                                        std::complex<double>(a, b) * std::polar(1.0, move.turn * frequency[static_cast<size_t>(p)]);
                                    a = static_cast<float>(turned.real());
                                    b = static_cast<float>(turned.imag());
                                }
                                for (const float v : want) most = std::max(most, std::fabs(static_cast<double>(v)));
                                const std::vector<float> got = after.values(1, head, move.to + i);
                                for (size_t k = 0; k < want.size(); ++k)
                                    ASSERT_NEAR(got[k], want[k], most * rounding(format)) << kv::name(format) << " " << width << " " << ops->name;
                                std::copy_n(before.table.at(1, head, move.to + i), before.table.row_bytes, untouched.table.at(1, head, move.to + i));
                            }
                        }
                    }
                    ASSERT_EQ(untouched.bytes, before.bytes) << kv::name(format) << " " << width << " " << ops->name;
                }
            }
        }
    }
}

TEST(BakeRows, EveryTargetAndTeamGivesTheSameBytes) {
    for (const kv::RowFormat format : kFormats) {
        for (const auto& [width, dims] : {std::pair{64, 64}, {80, 80}, {20, 6}, {96, 48}}) {
            const Memory before(format, width);
            const std::vector<double> frequency = frequencies(dims);
            for (const RopePairing pairing : {RopePairing::Halves, RopePairing::Neighbours}) {
                const Memory want = baked(cpu(), before, frequency, pairing, 1);
                for_each_target([&](std::string_view target) {
                    for (const int threads : {1, 2, 3})
                        ASSERT_EQ(baked(cpu(), before, frequency, pairing, threads).bytes, want.bytes)
                            << kv::name(format) << " " << width << " " << target << " " << threads;
                });
            }
        }
    }
}

TEST(BakeRows, RowsWithoutARotaryPositionAreCopied) {
    for (const kv::RowFormat format : kFormats) {
        const Memory before(format, 40);
        for (const Ops* ops : {&reference(), &cpu()}) {
            const Memory after = baked(*ops, before, {}, RopePairing::Halves, 2);
            for (const kv::TurnedMove& move : moves())
                for (int head = 0; head < kHeads; ++head)
                    for (int32_t i = 0; i < move.len; ++i) ASSERT_EQ(after.values(1, head, move.to + i), before.values(1, head, move.from + i));
        }
    }
}

}  // namespace
}  // namespace cellar::ops
