#pragma once
// Many operations on one cache, and whether anything is left of them.
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "kv/cache_runner_inl.h"

namespace cellar::kv {

// Every 10,000 operations all is closed, when nothing may be left, and compacted, when memory is measured.
struct Soak {
    std::string wrong;             // empty when all went well
    std::vector<size_t> resident;  // bytes of the process, after each 10,000 operations
    std::vector<size_t> heap;      // of these, what is allocated and not freed
};

inline size_t resident_bytes() {
    std::ifstream in("/proc/self/statm");
    size_t pages = 0;
    in >> pages >> pages;
    return pages * 4096;
}

inline Soak soak(const Scenario& scenario, int64_t operations, uint64_t seed) {
    constexpr int64_t kRound = 10'000;
    Soak out;
    Runner runner(scenario, 100);
    for (int64_t done = 0; done < operations && out.wrong.empty(); done += kRound) {
        // The allocator keeps some of what a thread has freed until that thread ends, so that what the models had would hide what the cache has.
        std::thread([&] {
            out.wrong = runner.run(random_program(seed++, static_cast<size_t>(std::min(kRound, operations - done))), nullptr);
            runner.cache().compact();
        }).join();
        malloc_trim(0);
        out.resident.push_back(resident_bytes());
        out.heap.push_back(mallinfo2().uordblks);
    }
    return out;
}

}  // namespace cellar::kv
