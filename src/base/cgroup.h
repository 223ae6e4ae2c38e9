#pragma once
// What the system's control groups allow this process: CPU quota and memory. Knows version 1 and 2.
#include <cstdint>
#include <optional>
#include <string>

namespace cellar {

struct CgroupLimits {
    std::optional<double> cpus;             // CPU seconds per second
    std::optional<uint64_t> memory;         // bytes
    std::optional<uint64_t> memory_in_use;  // bytes, of the group whose limit leaves the least room
};

// The tightest limits of the process's groups and all groups above them. `root` stands before /proc and /sys: "" on a real machine.
CgroupLimits read_cgroup_limits(const std::string& root = "");

// The text of a small file of the system, or nothing where there is none.
std::optional<std::string> read_system_file(const std::string& path);

}  // namespace cellar
