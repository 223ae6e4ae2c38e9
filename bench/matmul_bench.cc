// Matrix products alone, against their bounds: bytes of weights per second for one row of activations, operations per second for 64.
//
//   matmul_bench [THREADS] [FORMAT...]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "ops/activation_form.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/packed.h"
#include "tensor/row_codec.h"

namespace {

using cellar::DType;

double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Room that starts at a cache line, as buffers of activations do; weights in files start at half a line at worst.
template <class T>
struct Aligned {
    explicit Aligned(size_t count) : size(count), data(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64))) {}
    ~Aligned() { std::free(data); }
    Aligned(const Aligned&) = delete;
    Aligned& operator=(const Aligned&) = delete;
    size_t size;
    T* data;
};

// The median time of one call, over a quarter of a second.
template <class Body>
double median_time(Body body) {
    std::vector<double> times;
    body();
    for (const double end = seconds() + 0.25; seconds() < end || times.size() < 3;) {
        const double start = seconds();
        body();
        times.push_back(seconds() - start);
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
}

// Weights are larger than any private cache, so that one row of activations reads memory.
void measure(const cellar::DTypeInfo& type, int threads) {
    const int64_t cols = 2048;
    const int64_t rows = 32768;
    const size_t bytes = cellar::row_bytes(type.type, cols);
    const Aligned<std::byte> file(bytes * static_cast<size_t>(rows) + 32);
    std::byte* weights = file.data + 32;
    const size_t weight_bytes = bytes * static_cast<size_t>(rows);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> x(64 * static_cast<size_t>(cols));
    for (float& v : x) v = normal(random);
    for (int64_t r = 0; r < 64; ++r) cellar::encode_row(type.type, x.data() + r * cols, cols, weights + static_cast<size_t>(r) * bytes);
    for (size_t at = bytes * 64; at < weight_bytes; at += bytes * 64) std::memcpy(weights + at, weights, bytes * 64);

    cellar::ThreadTeam team(threads);
    const cellar::ops::ActivationForm form = cellar::ops::activation_form(type.type);
    const Aligned<std::byte> prepared(64 * cellar::ops::form_row_bytes(form, cols));
    cellar::ops::cpu_impl::prepare_activations(form, {x.data(), 64, cols, cols}, prepared.data, team);
    const Aligned<float> y(64 * static_cast<size_t>(rows));
    const auto report = [&](const char* layout, const std::byte* data, void (*product)(const cellar::ops::MatmulArgs&, cellar::ThreadTeam&)) {
        const auto run = [&](int64_t count, int64_t used_rows) {
            cellar::ops::MatmulArgs args;
            args.w = {type.type, used_rows, cols, data};
            args.x = prepared.data;
            args.count = count;
            args.y = {y.data, count, used_rows, used_rows};
            product(args, team);
        };
        const double one = median_time([&] { run(1, rows); });
        const double many = median_time([&] { run(64, 4096); });
        std::printf("%-7s %-6s %d threads   1 row %6.1f GB/s   64 rows %7.1f GOP/s\n", std::string(type.name).c_str(), layout, threads,
                    static_cast<double>(bytes) * static_cast<double>(rows) / one * 1e-9, 2.0 * 64 * 4096 * static_cast<double>(cols) / many * 1e-9);
    };
    report("file", weights, cellar::ops::cpu_impl::matmul);
    const Aligned<std::byte> packed(cellar::ops::cpu_impl::packed_bytes(type.type, rows, cols));
    cellar::ops::cpu_impl::pack_rows({type.type, rows, cols, weights}, 0, rows, packed.data, team);
    report("packed", packed.data, cellar::ops::cpu_impl::packed_matmul);
}

}  // namespace

int main(int argc, char** argv) {
    const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
    for (const cellar::DTypeInfo& type : cellar::all_dtypes()) {
        const bool wanted = argc <= 2 || std::any_of(argv + 2, argv + argc, [&](const char* name) { return type.name == name; });
        if (wanted) measure(type, threads);
    }
    return 0;
}
