// How long packing a model takes, beside copying its mapped file once into fresh memory in huge pages with the same threads.
//
//   load_bench FILE [THREADS]
//
// Fails where loading takes more than 1.5 times as long. The file is read once before, so that it lies in the system's cache.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "base/thread_team.h"
#include "bench/bounds.h"
#include "model/model.h"

namespace {

using namespace cellar;  // NOLINT: a program of one file
using bench::seconds;

constexpr double kMost = 1.5;
constexpr size_t kPiece = size_t{4} << 20;

double copy_time(const char* path, int threads) {
    auto file = gguf::File::open(path);
    if (!file) return -1.0;
    size_t total = 0;
    for (const gguf::TensorInfo& tensor : file->tensors()) total += tensor.bytes;
    const double start = seconds();
    ThreadTeam team(threads);
    void* memory = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return -1.0;
    madvise(memory, total, MADV_HUGEPAGE);
    auto* to = static_cast<std::byte*>(memory);
    for (const gguf::TensorInfo& tensor : file->tensors()) {
        const auto pieces = static_cast<int64_t>((tensor.bytes + kPiece - 1) / kPiece);
        team.run(pieces, [&](int64_t i, int) {
            const size_t at = static_cast<size_t>(i) * kPiece;
            std::memcpy(to + at, tensor.data + at, std::min(kPiece, tensor.bytes - at));
        });
        to += tensor.bytes;
    }
    const double time = seconds() - start;
    munmap(memory, total);
    return time;
}

double load_time(const char* path, int threads, bool pack) {
    model::LoadOptions options;
    options.pack = pack;
    options.threads = threads;
    const double start = seconds();
    auto model = model::Model::open(path, options);
    if (!model) std::fprintf(stderr, "load_bench: %s\n", model.error().message.c_str());
    return model ? seconds() - start : -1.0;
}

double median(std::vector<double> x) {
    std::sort(x.begin(), x.end());
    return x[x.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "load_bench FILE [THREADS]\n");
        return 2;
    }
    const int threads = argc > 2 ? std::max(1, std::atoi(argv[2])) : usable_cpus();
    std::vector<double> copies;
    std::vector<double> loads;
    std::vector<double> maps;
    for (int i = 0; i < 6; ++i) {
        const double copy = copy_time(argv[1], threads);
        const double load = load_time(argv[1], threads, true);
        const double map = load_time(argv[1], threads, false);
        if (copy < 0.0 || load < 0.0 || map < 0.0) return 2;
        if (i == 0) continue;  // reads the file
        copies.push_back(copy);
        loads.push_back(load);
        maps.push_back(map);
    }
    const double ratio = median(loads) / median(copies);
    std::printf("copy %.3f s, load %.3f s (without packing %.3f s), %d threads: %.2f times\n", median(copies), median(loads), median(maps), threads,
                ratio);
    return ratio <= kMost ? 0 : 1;
}
