// Random operations on caches: against a plain model, row by row, and against engines that compute everything anew, logit by logit.
//
//   kv_fuzz [--seconds S | --minutes M | --cases N] [--seed N] [--kind rows|recompute|both] [--replay FILE] [--out FILE]
//
// Each seed makes a case; the next one follows. The first case that fails is shrunk, printed as a short program that --replay takes, and ends
// the run with status 1. tests/data/kv_cases keeps what was found.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/file.h"
#include "support/kv_case.h"

namespace {

using namespace cellar;  // NOLINT: a program of one file
using Clock = std::chrono::steady_clock;

struct Options {
    double seconds = 60;
    uint64_t cases = UINT64_MAX;
    uint64_t seed = 1;
    std::string kind = "both";
    std::string replay;
    std::string out;
};

bool read_options(int argc, char** argv, Options& options) {
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        if (i + 1 == argc) return false;
        const char* value = argv[++i];
        if (name == "--seconds") {
            options.seconds = std::atof(value);
        } else if (name == "--minutes") {
            options.seconds = 60 * std::atof(value);
        } else if (name == "--cases") {
            options.cases = std::strtoull(value, nullptr, 10);
        } else if (name == "--seed") {
            options.seed = std::strtoull(value, nullptr, 10);
        } else if (name == "--kind") {
            options.kind = value;
        } else if (name == "--replay") {
            options.replay = value;
        } else if (name == "--out") {
            options.out = value;
        } else {
            return false;
        }
    }
    return options.kind == "rows" || options.kind == "recompute" || options.kind == "both";
}

int replay(const std::string& path) {
    const auto source = read_file(path, size_t{1} << 24);
    if (!source) return std::fprintf(stderr, "%s\n", source.error().message.c_str()), 2;
    tiny::KvCase one;
    if (!tiny::parse_case(*source, one)) return std::fprintf(stderr, "%s: it is no case\n", path.c_str()), 2;
    const std::string wrong = tiny::run_case(one);
    std::printf("%s\n", wrong.empty() ? "nothing went wrong" : wrong.c_str());
    return wrong.empty() ? 0 : 1;
}

struct Tally {
    tiny::KvCounts counts;
    int64_t cases = 0;
    double seconds = 0;
};

void report(const char* kind, const Tally& tally) {
    if (tally.cases == 0) return;
    std::printf("%-10s %9lld operations in %lld cases, %.0f a second, %lld tokens", kind, static_cast<long long>(tally.counts.operations),
                static_cast<long long>(tally.cases), static_cast<double>(tally.counts.operations) / tally.seconds,
                static_cast<long long>(tally.counts.tokens));
    std::printf("\n");
    if (tally.counts.compared == 0) return;
    const tiny::RecomputeCounts& met = tally.counts.met;
    for (const auto& [what, count] : std::initializer_list<std::pair<const char*, int64_t>>{{"logits compared", tally.counts.compared},
                                                                                            {"full", met.full},
                                                                                            {"cancelled", met.cancelled},
                                                                                            {"hits", met.hits},
                                                                                            {"tokens reused", met.reused},
                                                                                            {"bakes", met.bakes},
                                                                                            {"bakes cancelled", met.cancelled_bakes},
                                                                                            {"compactions that moved", met.compacted},
                                                                                            {"shifts", met.shifts},
                                                                                            {"evictions", met.evicted},
                                                                                            {"sequences loaded", met.loaded}})
        std::printf("%s%lld %s", what[0] == 'l' ? "           " : ", ", static_cast<long long>(count), what);
    std::printf("\n");
}

int fuzz(const Options& options) {
    const auto since = [](Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); };
    const Clock::time_point start = Clock::now();
    Tally tallies[2];
    uint64_t seed = options.seed;
    for (; seed - options.seed < options.cases && since(start) < options.seconds; ++seed) {
        for (const bool recompute : {false, true}) {
            // A case that computes takes many times as long as one that only moves rows.
            if (options.kind == (recompute ? "rows" : "recompute")) continue;
            Tally& tally = tallies[recompute ? 1 : 0];
            if (options.kind == "both" && tally.seconds > tallies[recompute ? 0 : 1].seconds + 1) continue;
            const tiny::KvCase one = tiny::random_case(seed, recompute);
            const Clock::time_point begin = Clock::now();
            const std::string wrong = tiny::run_case(one, &tally.counts);
            tally.seconds += since(begin);
            ++tally.cases;
            if (wrong.empty()) continue;
            std::printf("seed %llu: %s\nshrinking...\n", static_cast<unsigned long long>(seed), wrong.c_str());
            std::fflush(stdout);
            const tiny::KvCase small = tiny::shrink_case(one);
            const std::string program = tiny::text(small);
            std::printf("%s\n%s", tiny::run_case(small).c_str(), program.c_str());
            if (!options.out.empty()) std::ofstream(options.out) << "# seed " << seed << "\n" << program;
            return 1;
        }
    }
    std::printf("nothing found from seed %llu to %llu in %.0f s\n", static_cast<unsigned long long>(options.seed),
                static_cast<unsigned long long>(seed - 1), since(start));
    report("rows", tallies[0]);
    report("recompute", tallies[1]);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (!read_options(argc, argv, options)) {
        std::fprintf(stderr,
                     "usage: kv_fuzz [--seconds S | --minutes M | --cases N] [--seed N] [--kind rows|recompute|both] [--replay FILE] [--out FILE]\n");
        return 2;
    }
    return options.replay.empty() ? fuzz(options) : replay(options.replay);
}
