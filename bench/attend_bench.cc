// Attention of one token at depth, against the time of reading its cache: 24 layers, 2 KV heads of width 64, 7 query heads each.
//
//   attend_bench [--cpu-target NAME] [THREADS] [POSITIONS] [QUERIES] [FORMAT...]
//
// "dense" has the cells of the sequence in one run, "scattered" has every block of 32 cells somewhere else. The bound is the larger of
// the times to read the cache and to carry out the products, at the rates that this machine reaches right before. More than
// three times as long fails the bench, and so does an answer that is not that of the slow, obvious kernels: what is wrong is fast for nothing.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "apps/bandwidth.h"
#include "base/thread_team.h"
#include "bench/arguments.h"
#include "bench/bounds.h"
#include "ops/ops.h"

namespace {

using namespace cellar;  // NOLINT: a program of one file

constexpr int kLayers = 24;
constexpr int kKvHeads = 2;
constexpr int kPerKvHead = 7;
constexpr int kWidth = 64;
constexpr int kHeads = kKvHeads * kPerKvHead;
constexpr int kBlock = 32;

// Processor time of all threads: what a pass costs where other programs take turns on the cores.
double cpu_seconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

using bench::seconds;

constexpr double kMostOfBound = 3.0;
// A packed row is read with a query of 8 bits.
double most_error(kv::RowFormat format) {
    return format == kv::RowFormat::Q8_0 ? 1e-4 : 1e-9;
}

class Bench {
  public:
    Bench(kv::RowFormat format, int positions, int queries, bool scattered, ThreadTeam& team)
        : positions_(positions), queries_(queries), team_(team), row_bytes_(kv::head_row_bytes(format, kWidth)) {
        const int cells = (positions + kBlock - 1) / kBlock * kBlock;
        std::vector<int32_t> blocks;
        for (int b = 0; b < cells / kBlock; ++b) blocks.push_back(b);
        std::mt19937 random(1);
        if (scattered) std::shuffle(blocks.begin(), blocks.end(), random);
        for (int p = 0; p < positions; p += kBlock) {
            const int32_t cell = blocks[static_cast<size_t>(p / kBlock)] * kBlock;
            const int32_t len = std::min(kBlock, positions - p);
            if (!runs_.empty() && runs_.back().cell + runs_.back().len == cell) {
                runs_.back().len += len;
            } else {
                runs_.push_back({p, cell, len, 0});
            }
        }
        const size_t head = row_bytes_ * static_cast<size_t>(cells);
        for (std::vector<std::byte>& memory : memory_) {
            memory.resize(head * kKvHeads * kLayers);
            tables_.push_back({memory.data(), head * kKvHeads, head, row_bytes_, format, kKvHeads, kWidth});
        }
        fill(random);
    }

    struct Times {
        double wall_ms;
        double cpu_ms;
    };

    // For all layers: the medians of several passes, in the best of three rounds, as bounds are the best of several tries.
    Times measure() {
        Times best = measure_round();
        for (int round = 1; round < 3; ++round) {
            const Times t = measure_round();
            if (t.wall_ms < best.wall_ms) best = t;
        }
        return best;
    }

    // NMSE of the last query, as it was measured, against the slow kernels; in the last layer.
    double error() {
        const kv::Visible seen = visible_.back();
        const kv::SeqView last{0, 1, positions_ - 1, runs_};
        const kv::GroupView group{kv::Keep::all(), tables_, {&last, 1}, {&seen, 1}, {}};
        const size_t width = static_cast<size_t>(kHeads) * kWidth;
        const size_t at = static_cast<size_t>(queries_ - 1) * width;
        std::vector<float> expected(width);
        ops::AttendArgs args = args_;
        args.group = &group;
        args.q = {q_.data() + at, 1, kHeads * kWidth, kHeads * kWidth};
        args.out = {expected.data(), 1, kHeads * kWidth, kHeads * kWidth};
        ops::reference().attend(args, team_);
        double wrong = 0.0;
        double power = 0.0;
        for (size_t i = 0; i < width; ++i) {
            const double difference = static_cast<double>(out_[at + i]) - expected[i];
            wrong += difference * difference;
            power += static_cast<double>(expected[i]) * expected[i];
        }
        return wrong / power;
    }

    [[nodiscard]] double bytes() const { return static_cast<double>(row_bytes_) * 2 * kKvHeads * kLayers * positions_; }

  private:
    Times measure_round() {
        std::vector<double> wall;
        std::vector<double> cpu;
        for (const double end = seconds() + 0.5; seconds() < end || wall.size() < 5;) {
            const double start = seconds();
            const double cpu_start = cpu_seconds();
            for (int layer = 0; layer < kLayers; ++layer) {
                args_.plane = layer;
                ops::cpu().attend(args_, team_);
            }
            wall.push_back((seconds() - start) * 1e3);
            cpu.push_back((cpu_seconds() - cpu_start) * 1e3);
        }
        std::sort(wall.begin(), wall.end());
        std::sort(cpu.begin(), cpu.end());
        return {wall[wall.size() / 2], cpu[cpu.size() / 2]};
    }

    void fill(std::mt19937& random) {
        std::normal_distribution<float> normal;
        const int cols = kKvHeads * kWidth;
        std::vector<float> rows(static_cast<size_t>(positions_) * cols);
        for (float& x : rows) x = normal(random);
        std::vector<int32_t> cells;
        for (const kv::Run& run : runs_) {
            for (int32_t i = 0; i < run.len; ++i) cells.push_back(run.cell + i);
        }
        visible_.resize(static_cast<size_t>(queries_));
        for (int q = 0; q < queries_; ++q) visible_[static_cast<size_t>(q)] = {{}, {0, positions_ - queries_ + q + 1}};
        seqs_ = {{0, queries_, positions_ - queries_, runs_}};
        group_ = {kv::Keep::all(), tables_, seqs_, visible_, cells};
        for (int layer = 0; layer < kLayers; ++layer) {
            for (const int row : {0, 1})
                ops::cpu().store_rows({rows.data(), positions_, cols, cols}, tables_[static_cast<size_t>(row)], layer, cells.data(), team_);
        }
        q_.resize(static_cast<size_t>(queries_) * kHeads * kWidth);
        for (float& x : q_) x = normal(random);
        out_.resize(q_.size());
        scratch_.resize(ops::cpu().attend_scratch_bytes(queries_, kHeads, kWidth, positions_, team_.size()) + 64);
        args_.q = {q_.data(), queries_, kHeads * kWidth, kHeads * kWidth};
        args_.out = {out_.data(), queries_, kHeads * kWidth, kHeads * kWidth};
        args_.heads = kHeads;
        args_.group = &group_;
        args_.scale = 1.0F / std::sqrt(static_cast<float>(kWidth));
        args_.scratch = scratch_.data() + (64 - reinterpret_cast<uintptr_t>(scratch_.data()) % 64) % 64;
        args_.scratch_bytes = scratch_.size() - 64;
    }

    int positions_;
    int queries_;
    ThreadTeam& team_;
    size_t row_bytes_;
    std::vector<std::byte> memory_[2];
    std::vector<kv::RowTable> tables_;
    std::vector<kv::Run> runs_;
    std::vector<kv::Visible> visible_;
    std::vector<kv::SeqView> seqs_;
    kv::GroupView group_;
    std::vector<float> q_;
    std::vector<float> out_;
    std::vector<std::byte> scratch_;
    ops::AttendArgs args_;
};

}  // namespace

int main(int argc, char** argv) {
    const kv::RowFormat formats[] = {kv::RowFormat::F16, kv::RowFormat::Q8_0, kv::RowFormat::BF16, kv::RowFormat::F32};
    std::vector<std::string> known;
    for (const kv::RowFormat format : formats) known.emplace_back(kv::name(format));
    bench::Arguments args("attend_bench", argc, argv);
    const int threads = args.number("THREADS", usable_cpus(), 256);
    const int positions = args.number("POSITIONS", 8192, 1 << 20);
    const int queries = args.number("QUERIES", 1, positions);
    const std::vector<std::string> names = args.names(known);
    ThreadTeam team(threads);
    const double bandwidth = apps::read_bandwidth(threads) * 1e9;
    const double operations = bench::most_operations(ops::cpu_target(), DType::F32, team);
    const double byte_operations = bench::most_operations(ops::cpu_target(), DType::Q8_0, team);
    std::printf("%s, %d threads, %d positions, %d queries; %.1f GB/s, %.0f GFLOP/s\n", std::string(ops::cpu_target()).c_str(), threads, positions,
                queries, bandwidth * 1e-9, operations * 1e-9);
    bool good = true;
    bool right = true;
    for (const kv::RowFormat format : formats) {
        if (!bench::wanted(names, kv::name(format))) continue;
        for (const bool scattered : {false, true}) {
            Bench bench(format, positions, queries, scattered, team);
            const Bench::Times t = bench.measure();
            const double flop = 4.0 * kLayers * kHeads * kWidth * static_cast<double>(positions) * queries;
            // Half of the products are with keys, which are bytes where they are packed.
            const double key_operations = format == kv::RowFormat::Q8_0 ? byte_operations : operations;
            const double arithmetic = operations > 0.0 ? flop / 2 / key_operations + flop / 2 / operations : 0.0;
            const double bound = std::max(bench.bytes() / bandwidth, arithmetic) * 1e3;
            std::printf("%-5s %-9s %8.2f ms  %6.1f GB/s  %7.1f GFLOP/s  %3.0f %% of the bound   (%.2f ms of processor time)\n",
                        std::string(kv::name(format)).c_str(), scattered ? "scattered" : "dense", t.wall_ms, bench.bytes() / t.wall_ms * 1e-6,
                        flop * 1e-6 / t.wall_ms, 100.0 * bound / t.wall_ms, t.cpu_ms);
            good = good && t.wall_ms <= kMostOfBound * bound;
            if (const double error = bench.error(); !(error <= most_error(format))) {
                std::printf("WRONG: off by %.1e (NMSE) from the slow kernels\n", error);
                right = false;
            }
        }
    }
    if (!good) std::printf("more than %.0f times the bound\n", kMostOfBound);
    return good && right ? 0 : 1;
}
