#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "ops/reference_rows.h"
#include "ops/row_store.h"

namespace cellar::ops::reference_impl {
namespace {

struct Score {
    double value;
    int32_t cell;
};

struct Shape {
    const kv::RowTable& k;
    const kv::RowTable& v;
    int k_width;
    int v_width;
    int per_kv_head;
};

// The query of one head, turned back by `turn` positions.
std::vector<double> turned_back(const AttendArgs& args, const float* q, int width, int32_t turn) {
    std::vector<double> out(q, q + width);
    const int pairs = args.rope.dims / 2;
    for (int i = 0; turn != 0 && i < pairs; ++i) {
        const auto a = static_cast<size_t>(args.pairing == RopePairing::Neighbours ? 2 * i : i);
        const auto b = static_cast<size_t>(args.pairing == RopePairing::Neighbours ? 2 * i + 1 : i + pairs);
        const double angle = -turn * args.rope.frequency[i];
        const double x = out[a];
        const double y = out[b];
        out[a] = x * std::cos(angle) - y * std::sin(angle);
        out[b] = x * std::sin(angle) + y * std::cos(angle);
    }
    return out;
}

// Logits of one head's query over all it sees, in position order.
std::vector<Score> scores(const AttendArgs& args, const Shape& shape, const kv::SeqView& seq, int64_t token, int head) {
    const kv::Visible& visible = args.group->visible[static_cast<size_t>(token)];
    std::vector<Score> out;
    std::vector<float> key(static_cast<size_t>(shape.k_width));
    for (const kv::Run& run : seq.runs) {
        const auto query = turned_back(args, args.q.row(token) + static_cast<int64_t>(head) * shape.k_width, shape.k_width, run.turn);
        for (int32_t i = 0; i < run.len; ++i) {
            const int32_t pos = run.pos + i;
            const bool seen = (pos >= visible.sinks.lo && pos < visible.sinks.hi) || (pos >= visible.recent.lo && pos < visible.recent.hi);
            if (!seen) continue;
            decode_head_row(shape.k.format, shape.k.at(args.plane, head / shape.per_kv_head, run.cell + i), shape.k_width, key.data());
            double dot = 0.0;
            for (size_t d = 0; d < key.size(); ++d) dot += query[d] * key[d];
            dot *= args.scale;
            if (args.soft_cap != 0.0F) dot = args.soft_cap * std::tanh(dot / args.soft_cap);
            out.push_back({dot, run.cell + i});
        }
    }
    return out;
}

void attend_head(const AttendArgs& args, const Shape& shape, const kv::SeqView& seq, int64_t token, int head) {
    float* out = args.out.row(token) + static_cast<int64_t>(head) * shape.v_width;
    std::fill_n(out, shape.v_width, 0.0F);
    const std::vector<Score> seen = scores(args, shape, seq, token, head);
    if (seen.empty()) return;
    double most = args.sinks == nullptr ? -std::numeric_limits<double>::infinity() : args.sinks[head];
    for (const Score& s : seen) most = std::max(most, s.value);
    double sum = args.sinks == nullptr ? 0.0 : std::exp(args.sinks[head] - most);
    std::vector<double> total(static_cast<size_t>(shape.v_width));
    std::vector<float> value(static_cast<size_t>(shape.v_width));
    for (const Score& s : seen) {
        const double weight = std::exp(s.value - most);
        sum += weight;
        decode_head_row(shape.v.format, shape.v.at(args.plane, head / shape.per_kv_head, s.cell), shape.v_width, value.data());
        for (size_t d = 0; d < value.size(); ++d) total[d] += weight * value[d];
    }
    for (size_t d = 0; d < value.size(); ++d) out[d] = static_cast<float>(total[d] / sum);
}

}  // namespace

size_t attend_scratch_bytes(int /*tokens*/, int /*heads*/, int /*width*/, int64_t /*context*/, int /*threads*/) {
    return 0;
}

void attend(const AttendArgs& args, ThreadTeam& /*team*/) {
    const kv::RowTable& k = args.group->rows[static_cast<size_t>(args.k_row)];
    const kv::RowTable& v = args.group->rows[static_cast<size_t>(args.v_row)];
    CHECK_EQ(args.heads % k.heads, 0);
    const Shape shape{k, v, static_cast<int>(args.q.cols) / args.heads, static_cast<int>(args.out.cols) / args.heads, args.heads / k.heads};
    for (const kv::SeqView& seq : args.group->seqs) {
        for (int32_t t = 0; t < seq.tokens; ++t) {
            for (int h = 0; h < args.heads; ++h) attend_head(args, shape, seq, seq.first_token + t, h);
        }
    }
}

}  // namespace cellar::ops::reference_impl
