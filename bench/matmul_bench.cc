// Matrix products alone, against their bounds: bytes of weights per second for one row of activations, operations per second for 64.
//
//   matmul_bench [--cpu-target NAME] [THREADS] [FORMAT...]
//
// The bound of a product is the larger of two times: to read its weights, and to carry out its operations, at the rates that this machine
// reaches right before. A product of packed weights that takes more than three times its bound fails the bench.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "apps/bandwidth.h"
#include "base/thread_team.h"
#include "bench/arguments.h"
#include "bench/bounds.h"
#include "ops/activation_form.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/packed.h"
#include "ops/ops.h"
#include "tensor/row_codec.h"

namespace {

using namespace cellar;  // NOLINT: a program of one file
using bench::seconds;

constexpr int64_t kCols = 2048;
constexpr int64_t kRows = 32768;     // more than any cache of one core holds, so that one row of activations reads memory
constexpr int64_t kManyRows = 4096;  // with many rows of activations
constexpr int64_t kMany = 64;
constexpr double kMostOfBound = 3.0;

// Room that starts at a page, in huge pages, as packed weights do.
template <class T>
struct Room {
    explicit Room(size_t count) : bytes((count * sizeof(T) + kPage - 1) / kPage * kPage), data(static_cast<T*>(std::aligned_alloc(kPage, bytes))) {
        madvise(data, bytes, MADV_HUGEPAGE);
    }
    ~Room() { std::free(data); }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    static constexpr size_t kPage = size_t{2} << 20;
    size_t bytes;
    T* data;
};

// The time of one call: the median of some, in the best of several rounds, as bounds are the best of several tries.
template <class Body>
double best_median_time(Body body) {
    double best = 0.0;
    for (int round = 0; round < 4; ++round) {
        std::vector<double> times;
        for (const double end = seconds() + 0.1; seconds() < end || times.size() < 3;) {
            const double start = seconds();
            body();
            times.push_back(seconds() - start);
        }
        std::sort(times.begin(), times.end());
        const double median = times[times.size() / 2];
        if (round == 0 || median < best) best = median;
    }
    return best;
}

struct Bounds {
    double bandwidth;   // bytes per second
    double operations;  // per second; 0: not known
    [[nodiscard]] double time(double bytes, double ops) const { return std::max(bytes / bandwidth, operations > 0.0 ? ops / operations : 0.0); }
};

class Bench {
  public:
    Bench(const DTypeInfo& type, ThreadTeam& team)
        : type_(type),
          team_(team),
          row_bytes_(row_bytes(type.type, kCols)),
          file_(row_bytes_ * static_cast<size_t>(kRows) + 32),
          prepared_(kMany * ops::form_row_bytes(ops::activation_form(type.type), kCols)),
          y_(static_cast<size_t>(kMany * kRows)) {
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        std::vector<float> x(static_cast<size_t>(kMany * kCols));
        for (float& v : x) v = normal(random);
        for (int64_t r = 0; r < kMany; ++r) encode_row(type.type, x.data() + r * kCols, kCols, weights() + static_cast<size_t>(r) * row_bytes_);
        const size_t some = row_bytes_ * static_cast<size_t>(kMany);
        for (size_t at = some; at < row_bytes_ * static_cast<size_t>(kRows); at += some) std::memcpy(weights() + at, weights(), some);
        ops::cpu_impl::prepare_activations(ops::activation_form(type.type), {x.data(), kMany, kCols, kCols}, prepared_.data, team);
    }

    // False where packed weights miss the bound.
    bool run() {
        const Bounds bounds{apps::read_bandwidth(team_.size()) * 1e9, bench::most_operations(ops::cpu_target(), type_.type, team_)};
        report("file", weights(), false, bounds);
        const Room<std::byte> packed(ops::cpu_impl::packed_bytes(type_.type, kRows, kCols));
        ops::cpu_impl::pack_rows({type_.type, kRows, kCols, weights()}, 0, kRows, packed.data, team_);
        return report("packed", packed.data, true, bounds);
    }

  private:
    // Weights in files start at half a line at worst.
    [[nodiscard]] std::byte* weights() const { return file_.data + 32; }

    bool report(const char* layout, const std::byte* data, bool is_packed, const Bounds& bounds) {
        const auto time = [&](int64_t count, int64_t rows) {
            ops::MatmulArgs args;
            args.w = {type_.type, rows, kCols, data, is_packed};
            args.x = prepared_.data;
            args.count = count;
            args.y = {y_.data, count, rows, rows};
            return best_median_time([&] { ops::cpu_impl::matmul(args, team_); });
        };
        const auto bytes = [&](int64_t rows) { return static_cast<double>(row_bytes_) * static_cast<double>(rows); };
        const auto operations = [](int64_t count, int64_t rows) { return 2.0 * static_cast<double>(count * rows * kCols); };
        const double one = time(1, kRows);
        const double many = time(kMany, kManyRows);
        const double one_bound = bounds.time(bytes(kRows), operations(1, kRows)) / one;
        const double many_bound = bounds.time(bytes(kManyRows), operations(kMany, kManyRows)) / many;
        std::printf("%-7s %-6s %d threads   1 row %6.1f GB/s, %3.0f %% of the bound   %lld rows %7.1f GOP/s, %3.0f %%\n",
                    std::string(type_.name).c_str(), layout, team_.size(), bytes(kRows) / one * 1e-9, 100.0 * one_bound,
                    static_cast<long long>(kMany), operations(kMany, kManyRows) / many * 1e-9, 100.0 * many_bound);
        return one_bound * kMostOfBound >= 1.0 && many_bound * kMostOfBound >= 1.0;
    }

    const DTypeInfo& type_;
    ThreadTeam& team_;
    size_t row_bytes_;
    Room<std::byte> file_;
    Room<std::byte> prepared_;
    Room<float> y_;
};

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> known;
    for (const DTypeInfo& type : all_dtypes()) known.emplace_back(type.name);
    bench::Arguments args("matmul_bench", argc, argv);
    const int threads = args.number("THREADS", usable_cpus(), 256);
    const std::vector<std::string> names = args.names(known);
    std::printf("%s\n", std::string(ops::cpu_target()).c_str());
    ThreadTeam team(threads);
    bool good = true;
    for (const DTypeInfo& type : all_dtypes()) {
        if (bench::wanted(names, type.name) && !Bench(type, team).run()) {
            std::printf("%s: more than %.0f times its bound\n", std::string(type.name).c_str(), kMostOfBound);
            good = false;
        }
    }
    return good ? 0 : 1;
}
