#pragma once
// A program with what it runs on: what a fuzzer makes from a seed, runs, writes out when it fails, and reads again.
#include <cstdint>
#include <string>
#include <string_view>

#include "kv/cache_program.h"
#include "kv/spec.h"
#include "support/recompute.h"

namespace cellar::tiny {

struct KvCase {
    bool recompute = false;
    int block = 32;
    bool budget = false;
    // Against rows of a plain model (kv/cache_runner.h).
    size_t mix = 0;
    int32_t cells = 450;
    // Against an engine that computes everything anew (recompute.h).
    std::string recipe;
    kv::RowFormat format = kv::RowFormat::F16;

    kv::Program program;
};

struct KvCounts {
    int64_t operations = 0;
    int64_t tokens = 0;
    int64_t compared = 0;  // logits
    RecomputeCounts met;   // what programs on engines met
};

KvCase random_case(uint64_t seed, bool recompute);
std::string run_case(const KvCase& one, KvCounts* counts = nullptr);  // empty when all went well
KvCase shrink_case(const KvCase& one);                                // Requires: it fails
std::string text(const KvCase& one);
bool parse_case(std::string_view source, KvCase& one);

}  // namespace cellar::tiny
