#include <sched.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/cgroup.h"
#include "base/thread_team.h"

namespace cellar {
namespace {

int affinity_cpus() {
    // The kernel refuses a set smaller than its own: ask with larger ones until it fits.
    for (int room = 1024; room <= 1 << 20; room *= 4) {
        cpu_set_t* set = CPU_ALLOC(room);
        if (set == nullptr) break;
        const size_t bytes = CPU_ALLOC_SIZE(room);
        CPU_ZERO_S(bytes, set);
        const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
    }
    return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int usable_cpus() {
    int cpus = affinity_cpus();
    // A quota of 1.5 is used best by two threads.
    if (const CgroupLimits limits = read_cgroup_limits(); limits.cpus) cpus = static_cast<int>(std::min<double>(cpus, std::ceil(*limits.cpus)));
    return std::max(cpus, 1);
}

}  // namespace cellar
