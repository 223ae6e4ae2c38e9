// Products with quantized weights, in file layout or packed. Groups of rows are rewritten as panels, a chunk of columns at a time, on
// the stack; every panel then serves all tokens of the piece, kTokens at a time. Both layouts give the same panels, and so the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/quantized_matmul.cc"
#include "ops/cpu/targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/target_inl.h"

#include "ops/cpu/fill_inl.h"
#include "ops/cpu/line_inl.h"

#include <algorithm>

#include "base/check.h"
#include "base/thread_team.h"
#include "ops/activation_form.h"
#include "ops/cpu/matmul_parts.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::cpu_impl::HWY_NAMESPACE {
namespace {

// Bytes of kChunk columns of a row, at most.
constexpr int kChunkBytes = 288;

// Calls body with the Source of columns [column, column + columns) of `count` rows from `row` on, at most kLanes; lanes behind them get
// rows of zero bytes. `w_bytes` are those of a row, or of a group of packed rows.
template <DType type, bool packed, class Body>
HWY_INLINE void with_source(const WeightMatrix& w, size_t w_bytes, int64_t row, int count, int64_t column, int columns, Body body) {
    constexpr PanelFormat format = panel_format(type);
    constexpr int block = format.per_256 ? 256 : 32;
    const auto* data = reinterpret_cast<const uint8_t*>(w.data);
    if constexpr (packed) {
        const size_t chunk = packed_chunk_bytes(type, kLanes, kChunk / block);
        const uint8_t* at = data + static_cast<size_t>(row / kLanes) * w_bytes + static_cast<size_t>(column / kChunk) * chunk;
        body(Packed<type>{at, at + columns / block * packed_layout(type).columns * kLanes * 4});
    } else {
        const uint8_t* at = data + static_cast<size_t>(row) * w_bytes + column / block * format.block_bytes;
        uint8_t padded[kLanes][kChunkBytes];
        Rows rows{at, static_cast<int64_t>(w_bytes)};
        if (count < kLanes) {
            std::memset(padded, 0, sizeof(padded));
            for (int lane = 0; lane < count; ++lane) {
                std::memcpy(padded[lane], at + static_cast<size_t>(lane) * w_bytes,
                            static_cast<size_t>(columns / block) * static_cast<size_t>(format.block_bytes));
            }
            rows = {padded[0], kChunkBytes};
        }
        body(rows);
    }
}

struct Sums {
    alignas(64) float acc[kPanels][kGroupTokens][kLanes];
};

// What panels are filled with next, asked for bit by bit while the present ones are multiplied: the streams of several groups are each too
// short for the processor to foresee them.
struct NextChunk {
    const std::byte* data = nullptr;  // of the first group
    size_t group_bytes = 0;
    int64_t lines = 0;  // of each group

    HWY_INLINE void fetch(int group, int64_t first, int64_t last) const {
        const std::byte* from = data + static_cast<size_t>(group) * group_bytes;
        for (int64_t line = first; line < last; ++line) __builtin_prefetch(from + line * 64, 0, 2);
    }
};

// The packed chunk behind the one at `column`.
HWY_INLINE NextChunk next_chunk(const WeightMatrix& w, size_t group_bytes, int64_t column) {
    const size_t chunk = packed_chunk_bytes(w.type, kLanes, kChunk / (panel_format(w.type).per_256 ? 256 : 32));
    const size_t at = static_cast<size_t>(column / kChunk + 1) * chunk;
    if (at >= group_bytes) return {};
    return {w.data + at, group_bytes, static_cast<int64_t>(std::min(chunk, group_bytes - at) / 64)};
}

// Panels of the same columns.
template <DType type>
struct Panels {
    Panel<type> panels[kPanels];
    int count;
    int64_t column;
    int columns;
    NextChunk next;
};

// All panels with tokens [at, at + tokens).
template <DType type, int tokens>
void multiply_tile(const MatmulArgs& args, size_t x_bytes, const Panels<type>& w, int at, Sums& sums) {
    ActivationTile<type, tokens> tile;
    for (int t = 0; t < tokens; ++t) {
        const int64_t token = args.x_rows != nullptr ? args.x_rows[at + t] : at + t;
        fill_row<type, tokens>(Line<type>(args.x + static_cast<size_t>(token) * x_bytes, args.w.cols, w.column), w.columns, t, tile);
    }
    const int64_t first_line = w.next.lines * at / args.count;
    const int64_t last_line = w.next.lines * (at + tokens) / args.count;
    for (int p = 0; p < w.count; ++p) {
        w.next.fetch(p, first_line, last_line);
        multiply_panel<type, tokens>(w.panels[p], tile, w.columns / panel_format(type).sub, sums.acc[p][at]);
    }
}

void write_sums(const MatmulArgs& args, const Sums& sums) {
    const DF df;
    for (int64_t t = 0; t < args.count; ++t) {
        float* y = args.y.row(args.y_rows != nullptr ? args.y_rows[t] : t);
        int64_t r = 0;
        for (; r + kLanes <= args.w.rows; r += kLanes) {
            const VF sum = hn::Load(df, sums.acc[r / kLanes][t]);
            hn::StoreU(args.bias != nullptr ? hn::Add(sum, hn::LoadU(df, args.bias + r)) : sum, df, y + r);
        }
        for (; r < args.w.rows; ++r) {
            const float sum = sums.acc[r / kLanes][t][r % kLanes];
            y[r] = args.bias != nullptr ? sum + args.bias[r] : sum;
        }
    }
}

// All panels with all tokens.
template <DType type>
void multiply_tiles(const MatmulArgs& args, size_t x_bytes, const Panels<type>& w, Sums& sums) {
    int at = 0;
    const auto tile = [&]<int tokens>(std::integral_constant<int, tokens>) {
        multiply_tile<type, tokens>(args, x_bytes, w, at, sums);
        at += tokens;
    };
    while (at + kTokens <= args.count) tile(std::integral_constant<int, kTokens>());
    if (kTokens > 4 && at + 4 <= args.count) tile(std::integral_constant<int, 4>());
    if (at + 2 <= args.count) tile(std::integral_constant<int, 2>());
    if (at < args.count) tile(std::integral_constant<int, 1>());
}

// One row of activations: group after group, each read in one stream.
template <DType type, bool packed>
void multiply_lines(const MatmulArgs& args, size_t x_bytes, size_t w_bytes) {
    const DF df;
    const std::byte* x = args.x + static_cast<size_t>(args.x_rows != nullptr ? args.x_rows[0] : 0) * x_bytes;
    float* y = args.y.row(args.y_rows != nullptr ? args.y_rows[0] : 0);
    for (int64_t row = 0; row < args.w.rows; row += kLanes) {
        const auto count = static_cast<int>(std::min<int64_t>(kLanes, args.w.rows - row));
        VF sum = hn::Zero(df);
        for (int64_t column = 0; column < args.w.cols; column += kChunk) {
            const int columns = static_cast<int>(std::min<int64_t>(kChunk, args.w.cols - column));
            with_source<type, packed>(args.w, w_bytes, row, count, column, columns, [&](const auto& source) HWY_ATTR {
                sum = multiply_line<type>(source, Line<type>(x, args.w.cols, column), columns, sum);
            });
        }
        HWY_ALIGN float sums[kLanes];
        hn::Store(sum, df, sums);
        for (int r = 0; r < count; ++r) y[row + r] = args.bias != nullptr ? sums[r] + args.bias[row + r] : sums[r];
    }
}

template <DType type, bool packed>
void multiply(const MatmulArgs& args) {
    const size_t x_bytes = form_row_bytes(activation_form(type), args.w.cols);
    const size_t w_bytes = packed ? packed_group_bytes(type, kLanes, args.w.cols) : row_bytes(type, args.w.cols);
    if (args.count == 1) return multiply_lines<type, packed>(args, x_bytes, w_bytes);
    Panels<type> w;
    w.count = static_cast<int>((args.w.rows + kLanes - 1) / kLanes);
    Sums sums;
    for (int p = 0; p < w.count; ++p) std::memset(sums.acc[p], 0, sizeof(float) * kLanes * static_cast<size_t>(args.count));
    for (int64_t column = 0; column < args.w.cols; column += kChunk) {
        w.column = column;
        w.columns = static_cast<int>(std::min<int64_t>(kChunk, args.w.cols - column));
        w.next = packed ? next_chunk(args.w, w_bytes, column) : NextChunk();
        for (int p = 0; p < w.count; ++p) {
            const auto count = static_cast<int>(std::min<int64_t>(kLanes, args.w.rows - p * kLanes));
            with_source<type, packed>(args.w, w_bytes, p * kLanes, count, column, w.columns,
                                      [&](const auto& source) HWY_ATTR { fill_panel<type>(source, w.columns, w.panels[p]); });
        }
        multiply_tiles<type>(args, x_bytes, w, sums);
    }
    write_sums(args, sums);
}

template <bool packed>
void multiply_any(const MatmulArgs& args) {
    switch (args.w.type) {
        case DType::Q4_0:
            return multiply<DType::Q4_0, packed>(args);
        case DType::Q4_1:
            return multiply<DType::Q4_1, packed>(args);
        case DType::Q5_0:
            return multiply<DType::Q5_0, packed>(args);
        case DType::Q5_1:
            return multiply<DType::Q5_1, packed>(args);
        case DType::Q8_0:
            return multiply<DType::Q8_0, packed>(args);
        case DType::Q2_K:
            return multiply<DType::Q2_K, packed>(args);
        case DType::Q3_K:
            return multiply<DType::Q3_K, packed>(args);
        case DType::Q4_K:
            return multiply<DType::Q4_K, packed>(args);
        case DType::Q5_K:
            return multiply<DType::Q5_K, packed>(args);
        case DType::Q6_K:
            return multiply<DType::Q6_K, packed>(args);
        case DType::IQ4_NL:
            return multiply<DType::IQ4_NL, packed>(args);
        case DType::IQ4_XS:
            return multiply<DType::IQ4_XS, packed>(args);
        case DType::MXFP4:
            return multiply<DType::MXFP4, packed>(args);
        case DType::F32:
        case DType::F16:
        case DType::BF16:
            break;
    }
}

void multiply_rows(const MatmulArgs& args) {
    multiply_any<false>(args);
}
void multiply_packed(const MatmulArgs& args) {
    multiply_any<true>(args);
}

}  // namespace
}  // namespace cellar::ops::cpu_impl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellar::ops::cpu_impl {

HWY_EXPORT(multiply_rows);
HWY_EXPORT(multiply_packed);

PieceShape quantized_piece(const WeightMatrix& w, int64_t count, int members) {
    return count > 1 ? PieceShape{kGroupRows, kGroupTokens} : long_piece(w, members, kGroupRows);
}

void quantized_product(const MatmulArgs& piece) {
    piece.w.packed ? HWY_DYNAMIC_DISPATCH(multiply_packed)(piece) : HWY_DYNAMIC_DISPATCH(multiply_rows)(piece);
}

}  // namespace cellar::ops::cpu_impl
#endif
