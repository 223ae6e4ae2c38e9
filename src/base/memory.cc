#include "base/memory.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/cgroup.h"

namespace cellar {
namespace {

// "Key:   1234 kB" on a line of its own.
std::optional<uint64_t> read_kilobytes(const std::string& path, std::string_view key) {
    const std::optional<std::string> text = read_system_file(path);
    if (!text) return std::nullopt;
    std::string_view rest = *text;
    while (!rest.empty()) {
        std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        if (!line.starts_with(key) || line.size() == key.size() || line[key.size()] != ':') continue;
        line.remove_prefix(key.size() + 1);
        while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
        uint64_t value = 0;
        const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
        if (error == std::errc() && std::string_view(end, static_cast<size_t>(line.data() + line.size() - end)) == " kB") return value * 1024;
    }
    return std::nullopt;
}

}  // namespace

uint64_t resident_bytes() {
    return read_kilobytes("/proc/self/status", "VmRSS").value_or(0);
}

uint64_t peak_resident_bytes() {
    return read_kilobytes("/proc/self/status", "VmHWM").value_or(0);
}

std::optional<uint64_t> available_memory(const std::string& root) {
    return read_kilobytes(root + "/proc/meminfo", "MemAvailable");
}

std::optional<uint64_t> usable_memory(const std::string& root) {
    std::optional<uint64_t> usable = available_memory(root);
    if (const CgroupLimits limits = read_cgroup_limits(root); limits.memory) {
        const uint64_t left = *limits.memory - std::min(*limits.memory, limits.memory_in_use.value_or(0));
        usable = std::min(usable.value_or(left), left);
    }
    return usable;
}

}  // namespace cellar
