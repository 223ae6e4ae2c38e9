#include "base/cgroup.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace cellar {
namespace {

std::optional<double> parse_number(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<double> read_number(const std::string& path) {
    const std::optional<std::string> text = read_system_file(path);
    if (!text) return std::nullopt;
    return parse_number(*text);
}

void take_cpus(CgroupLimits& limits, std::optional<double> quota, std::optional<double> period) {
    if (!quota || !period || *quota <= 0 || *period <= 0) return;
    const double cpus = *quota / *period;
    if (!limits.cpus || cpus < *limits.cpus) limits.cpus = cpus;
}

void take_memory(CgroupLimits& limits, std::optional<double> limit, std::optional<double> in_use) {
    // Version 1 writes "no limit" as a number near the largest there is.
    constexpr double kNoLimit = 1ull << 60;
    if (!limit || *limit < 0 || *limit >= kNoLimit) return;
    const double used = in_use.value_or(0);
    if (limits.memory && static_cast<double>(*limits.memory) - static_cast<double>(*limits.memory_in_use) <= *limit - used) return;
    limits.memory = static_cast<uint64_t>(*limit);
    limits.memory_in_use = static_cast<uint64_t>(used);
}

// The directories of a group and of all groups above it. In a container the path may not exist under the mount: its root is then the group.
std::vector<std::string> group_directories(const std::string& mount, std::string path) {
    std::vector<std::string> directories;
    while (!path.empty() && path != "/") {
        directories.push_back(mount + path);
        path.resize(path.rfind('/'));
    }
    directories.push_back(mount);
    return directories;
}

void read_version_2(CgroupLimits& limits, const std::string& directory) {
    if (const std::optional<std::string> text = read_system_file(directory + "/cpu.max")) {
        const size_t space = text->find(' ');
        if (space != std::string::npos)
            take_cpus(limits, parse_number(std::string_view(*text).substr(0, space)), parse_number(std::string_view(*text).substr(space + 1)));
    }
    take_memory(limits, read_number(directory + "/memory.max"), read_number(directory + "/memory.current"));
}

bool has_controller(std::string_view list, std::string_view name) {
    while (!list.empty()) {
        const size_t comma = list.find(',');
        if (list.substr(0, comma) == name) return true;
        if (comma == std::string_view::npos) break;
        list.remove_prefix(comma + 1);
    }
    return false;
}

}  // namespace

std::optional<std::string> read_system_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    std::ostringstream text;
    text << file.rdbuf();
    return std::move(text).str();
}

CgroupLimits read_cgroup_limits(const std::string& root) {
    CgroupLimits limits;
    const std::string mount = root + "/sys/fs/cgroup";
    std::istringstream groups(read_system_file(root + "/proc/self/cgroup").value_or(""));
    // Each line is "number:controllers:path"; version 2 has no controllers.
    for (std::string line; std::getline(groups, line);) {
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos || second + 1 >= line.size() || line[second + 1] != '/') continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        if (controllers.empty()) {
            for (const std::string& directory : group_directories(mount, path)) read_version_2(limits, directory);
        }
        if (has_controller(controllers, "cpu")) {
            for (const std::string& directory : group_directories(mount + "/" + controllers, path)) {
                take_cpus(limits, read_number(directory + "/cpu.cfs_quota_us"), read_number(directory + "/cpu.cfs_period_us"));
            }
        }
        if (has_controller(controllers, "memory")) {
            for (const std::string& directory : group_directories(mount + "/" + controllers, path)) {
                take_memory(limits, read_number(directory + "/memory.limit_in_bytes"), read_number(directory + "/memory.usage_in_bytes"));
            }
        }
    }
    return limits;
}

}  // namespace cellar
