// What saving and loading a session costs, beside plain writing and reading of as many bytes, and beside computing the rows anew.
//
//   session_bench MODEL [TOKENS] [FOLDER]
//
// FOLDER should lie in memory (/dev/shm), so that neither side waits for a disk. Ends with status 1 where a goal is missed by more than half.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/session.h"

namespace {

using namespace cellar;  // NOLINT: a program of one file

constexpr double kLeastShareOfPlain = 0.6;
constexpr double kLeastTimesFaster = 20;
constexpr double kByFar = 1.5;
constexpr int kRounds = 5;
bool missed = false;

template <class F>
double seconds(F&& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class T>
T must(Result<T> result) {
    if (!result) {
        std::fprintf(stderr, "%s\n", result.error().message.c_str());
        std::exit(2);
    }
    if constexpr (!std::is_void_v<T>) return *std::move(result);
}

void write_plainly(const std::string& path, const std::vector<std::byte>& bytes) {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK_GE(fd, 0);
    constexpr size_t kPiece = 1 << 20;
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
        const size_t n = std::min(kPiece, bytes.size() - at);
        CHECK_EQ(write(fd, bytes.data() + at, n), static_cast<ssize_t>(n));
    }
    close(fd);
}

// Into memory that nobody has touched yet, as the rows of a fresh cache are.
void read_plainly(const std::string& path, size_t size) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    CHECK_GE(fd, 0);
    const std::unique_ptr<std::byte[]> bytes(new std::byte[size]);
    constexpr size_t kPiece = 1 << 20;
    for (size_t at = 0; at < size; at += kPiece) {
        const size_t n = std::min(kPiece, size - at);
        CHECK_EQ(read(fd, bytes.get() + at, n), static_cast<ssize_t>(n));
    }
    close(fd);
}

void report(const char* what, double bytes, double plain, double ours) {
    const double share = plain / ours;
    std::printf("%-6s %7.2f GB/s, plainly %7.2f GB/s: %3.0f %%   goal %.0f %%\n", what, bytes / ours * 1e-9, bytes / plain * 1e-9, share * 100,
                kLeastShareOfPlain * 100);
    missed = missed || share < kLeastShareOfPlain / kByFar;
}

std::unique_ptr<Engine> make_engine(const std::shared_ptr<const model::Model>& model, int64_t tokens) {
    EngineOptions options;
    options.context = tokens + 64;
    options.max_seqs = 2;
    return must(Engine::make(model, options));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return std::fprintf(stderr, "usage: session_bench MODEL [TOKENS] [FOLDER]\n"), 2;
    const int64_t tokens = argc > 2 ? std::atoll(argv[2]) : 8192;
    const std::string folder = argc > 3 ? argv[3] : "/dev/shm";
    const std::string path = folder + "/session_bench." + std::to_string(getpid());
    const auto model = must(model::Model::open(argv[1]));
    auto engine = make_engine(model, tokens);
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < tokens; ++i) ids.push_back(static_cast<int32_t>(i * 7919 % model->config().vocabulary));
    const SeqId seq = must(engine->cache().open());
    const double prefill = seconds([&] { must(engine->append(seq, ids)); });
    std::printf("prefill of %lld tokens: %.2f s, %.1f tokens/s\n", static_cast<long long>(tokens), prefill, static_cast<double>(tokens) / prefill);

    double save = 1e30;
    double plain_write = 1e30;
    double load = 1e30;
    double plain_read = 1e30;
    double resume = 1e30;
    uint64_t size = 0;
    for (int round = 0; round < kRounds; ++round) {
        std::filesystem::remove(path);
        save = std::min(save, seconds([&] {
                            const auto session = must(Session::open(path, *engine));
                            const Session::Source source{"main", seq, ""};
                            must(session->save({&source, 1}));
                        }));
        size = std::filesystem::file_size(path);
        const std::vector<std::byte> bytes(size, std::byte{1});
        const std::string beside = path + ".plain";
        std::filesystem::remove(beside);
        plain_write = std::min(plain_write, seconds([&] { write_plainly(beside, bytes); }));
        plain_read = std::min(plain_read, seconds([&] { read_plainly(beside, size); }));
        std::filesystem::remove(beside);
        auto other = make_engine(model, tokens);
        const SeqId again = must(other->cache().open());
        double opened = 0;
        double first = 0;
        {
            std::unique_ptr<Session> session;
            opened = seconds([&] {
                session = must(Session::open(path, *other));
                must(session->restore("main", again));
            });
            first = seconds([&] { must(other->append(again, std::vector<int32_t>{1})); });
        }
        load = std::min(load, opened);
        resume = std::min(resume, opened + first);
    }
    std::filesystem::remove(path);
    report("save", static_cast<double>(size), plain_write, save);
    report("load", static_cast<double>(size), plain_read, load);
    std::printf("resume %.3f s with the first token: %.0f times faster than the prefill   goal %.0f times\n", resume, prefill / resume,
                kLeastTimesFaster);
    missed = missed || prefill / resume < kLeastTimesFaster / kByFar;
    if (missed) std::printf("a goal was missed by far\n");
    return missed ? 1 : 0;
}
