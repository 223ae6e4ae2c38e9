#pragma once
// A small cache for attention tests: sequences of made-up rows laid out dense or scattered, everything else poisoned.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "ops/ops.h"

namespace cellar::ops {

struct AttendCase {
    kv::Keep keep = kv::Keep::all();
    kv::RowFormat k_format = kv::RowFormat::F16;
    kv::RowFormat v_format = kv::RowFormat::F16;
    int heads = 4;
    int kv_heads = 2;
    int k_width = 64;
    int v_width = 64;
    float scale = 0.125F;
    float soft_cap = 0.0F;
    bool sinks = false;
    int rope_dims = 0;
    RopePairing pairing = RopePairing::Halves;
    int gap_lo = 0;  // positions [gap_lo, gap_hi) of each sequence are removed
    int gap_hi = 0;
    int scratch_context = 4096;  // positions that the scratch memory is meant for; more of them go in several waves
    bool exact_queries = false;  // queries that int8 per 32 values holds exactly
    int bad_kind = -1;           // the second value of this row is NaN: 0 of K, 1 of V, 2 of the query
    int bad_pos = 0;             // at this position
};

// Floats that depend on where they belong only. With an exact width, heads of that width that int8 per 32 values holds exactly.
inline void make_row(uint64_t seq, uint64_t pos, uint64_t kind, int n, int exact_width, float* out) {
    std::mt19937 random(static_cast<uint32_t>(seq * 1000003 + pos * 17 + kind * 7919 + 12345));
    for (int i = 0; i < n; ++i) {
        const int value = static_cast<int>(random() % 255) - 127;
        out[i] = exact_width > 0 ? static_cast<float>(value) / 64.0F : static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 5000.0F;
        if (exact_width > 0 && i % exact_width % 32 == 0) out[i] = 127.0F / 64.0F;
    }
}

struct Stretch {  // of one sequence, in a step
    int seq;
    int first;
    int tokens;
};

class AttendCache {
  public:
    static constexpr int kPlanes = 2;
    static constexpr int kPlane = 1;

    AttendCache(const AttendCase& c, int cells, bool scattered, uint32_t seed) : case_(c), scattered_(scattered), random_(seed), cells_(cells) {
        tables_.push_back(table(k_, c.k_format, c.k_width));
        tables_.push_back(table(v_, c.v_format, c.v_width));
        for (int i = 0; i < cells; ++i) free_.push_back(i);
        if (scattered) std::shuffle(free_.begin(), free_.end(), random_);
        for (int i = 0; i < c.rope_dims / 2; ++i) frequency_.push_back(std::pow(10000.0, -2.0 * i / c.rope_dims));
    }

    // Stores the rows of these tokens and attends. The result is keyed by sequence and position.
    void step(const Ops& ops, const std::vector<Stretch>& stretches, ThreadTeam& team, std::map<std::pair<int, int>, std::vector<float>>& results) {
        std::vector<kv::SeqView> seqs;
        std::vector<kv::Visible> visible;
        std::vector<int32_t> cells;
        std::vector<std::pair<int, int>> tokens;
        for (const Stretch& s : stretches) {
            seqs.push_back({static_cast<int32_t>(tokens.size()), s.tokens, s.first, {}});
            for (int p = s.first; p < s.first + s.tokens; ++p) {
                visible.push_back(kv::visible(case_.keep, p));
                cells.push_back(place(s.seq, p));
                tokens.emplace_back(s.seq, p);
            }
        }
        for (size_t i = 0; i < stretches.size(); ++i) seqs[i].runs = runs_[stretches[i].seq];
        const kv::GroupView group{case_.keep, tables_, seqs, visible, cells};
        store(ops, group, tokens, 0, case_.k_width, team);
        store(ops, group, tokens, 1, case_.v_width, team);
        const auto out = attend(ops, group, tokens, team);
        const int width = case_.heads * case_.v_width;
        for (size_t t = 0; t < tokens.size(); ++t) {
            results[tokens[t]].assign(out.begin() + static_cast<ptrdiff_t>(t) * width, out.begin() + static_cast<ptrdiff_t>(t + 1) * width);
        }
    }

    // Removes [lo, hi) of a sequence: the cells are poisoned, what lies behind is turned where the case says so.
    void remove(int seq, int lo, int hi, int turn) {
        std::vector<kv::Run> kept;
        for (const kv::Run& run : runs_[seq]) {
            const int cut_lo = std::clamp(lo, run.pos, run.end());
            const int cut_hi = std::clamp(hi, run.pos, run.end());
            if (cut_lo > run.pos) kept.push_back({run.pos, run.cell, cut_lo - run.pos, run.turn});
            for (int p = cut_lo; p < cut_hi; ++p) poison(run.cell + p - run.pos);
            if (cut_hi < run.end()) kept.push_back({cut_hi, run.cell + cut_hi - run.pos, run.end() - cut_hi, run.turn});
        }
        for (kv::Run& run : kept) {
            if (run.pos >= hi) run.turn += turn;
        }
        runs_[seq] = kept;
    }

    const std::vector<kv::Run>& runs(int seq) { return runs_[seq]; }

  private:
    kv::RowTable table(std::vector<std::byte>& memory, kv::RowFormat format, int width) const {
        const size_t row = kv::head_row_bytes(format, width);
        memory.assign(row * static_cast<size_t>(cells_ * case_.kv_heads * kPlanes), std::byte{0xFF});
        const size_t head = row * static_cast<size_t>(cells_);
        return {memory.data(), head * static_cast<size_t>(case_.kv_heads), head, row, format, case_.kv_heads, width};
    }

    int32_t place(int seq, int pos) {
        std::vector<kv::Run>& runs = runs_[seq];
        // Scattered: runs of some random length begin anywhere.
        const bool grow = !runs.empty() && runs.back().end() == pos && (!scattered_ || random_() % 8 != 0);
        int32_t cell = free_.back();
        if (grow) {
            const auto wanted = std::find(free_.begin(), free_.end(), runs.back().cell + runs.back().len);
            if (wanted != free_.end()) {
                cell = *wanted;
                free_.erase(wanted);
                ++runs.back().len;
                return cell;
            }
        }
        free_.pop_back();
        runs.push_back({pos, cell, 1, runs.empty() ? 0 : runs.back().turn});
        return cell;
    }

    void poison(int32_t cell) {
        for (const kv::RowTable& table : tables_) {
            for (int p = 0; p < kPlanes; ++p) {
                for (int h = 0; h < table.heads; ++h) std::memset(table.at(p, h, cell), 0xFF, table.row_bytes);
            }
        }
    }

    void spoil(int kind, int pos, float* row) const {
        if (kind == case_.bad_kind && pos == case_.bad_pos) row[1] = std::nanf("");
    }

    void store(const Ops& ops, const kv::GroupView& group, const std::vector<std::pair<int, int>>& tokens, int row, int width, ThreadTeam& team) {
        const int cols = case_.kv_heads * width;
        std::vector<float> rows(tokens.size() * static_cast<size_t>(cols));
        for (size_t t = 0; t < tokens.size(); ++t) {
            float* out = rows.data() + t * static_cast<size_t>(cols);
            make_row(static_cast<uint64_t>(tokens[t].first), static_cast<uint64_t>(tokens[t].second), static_cast<uint64_t>(row), cols, 0, out);
            spoil(row, tokens[t].second, out);
        }
        ops.store_rows({rows.data(), static_cast<int64_t>(tokens.size()), cols, cols}, group.rows[static_cast<size_t>(row)], kPlane,
                       group.write_cells.data(), team);
    }

    std::vector<float> attend(const Ops& ops, const kv::GroupView& group, const std::vector<std::pair<int, int>>& tokens, ThreadTeam& team) {
        const auto count = static_cast<int64_t>(tokens.size());
        const int q_cols = case_.heads * case_.k_width;
        const int out_cols = case_.heads * case_.v_width;
        std::vector<float> q(static_cast<size_t>(count * q_cols));
        for (size_t t = 0; t < tokens.size(); ++t) {
            make_row(static_cast<uint64_t>(tokens[t].first), static_cast<uint64_t>(tokens[t].second), 2, q_cols,
                     case_.exact_queries ? case_.k_width : 0, q.data() + t * static_cast<size_t>(q_cols));
            spoil(2, tokens[t].second, q.data() + t * static_cast<size_t>(q_cols));
        }
        std::vector<float> sinks;
        for (int h = 0; h < case_.heads; ++h) sinks.push_back(0.5F * static_cast<float>(h) - 1.0F);
        std::vector<float> out(static_cast<size_t>(count * out_cols), std::nanf(""));
        const size_t bytes = ops.attend_scratch_bytes(static_cast<int>(count), case_.heads, std::max(case_.k_width, case_.v_width),
                                                      case_.scratch_context, team.size());
        std::vector<std::byte> scratch(bytes + 64, std::byte{0xFF});
        AttendArgs args;
        args.q = {q.data(), count, q_cols, q_cols};
        args.out = {out.data(), count, out_cols, out_cols};
        args.heads = case_.heads;
        args.group = &group;
        args.plane = kPlane;
        args.scale = case_.scale;
        args.soft_cap = case_.soft_cap;
        args.sinks = case_.sinks ? sinks.data() : nullptr;
        args.rope = {case_.rope_dims, frequency_.data(), 1.0};
        args.pairing = case_.pairing;
        args.scratch = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
        args.scratch_bytes = bytes;
        ops.attend(args, team);
        return out;
    }

    AttendCase case_;
    bool scattered_;
    std::mt19937 random_;
    int cells_;
    std::vector<std::byte> k_;
    std::vector<std::byte> v_;
    std::vector<kv::RowTable> tables_;
    std::vector<double> frequency_;
    std::vector<int32_t> free_;
    std::map<int, std::vector<kv::Run>> runs_;
};

}  // namespace cellar::ops
