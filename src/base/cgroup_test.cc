#include "base/cgroup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/memory.h"

namespace cellar {
namespace {

namespace fs = std::filesystem;

// A pretended /proc and /sys.
class CgroupTest : public testing::Test {
  protected:
    void SetUp() override { fs::remove_all(root_); }
    void TearDown() override { fs::remove_all(root_); }

    void put(const std::string& path, const std::string& text) {
        fs::create_directories(fs::path(root_ + path).parent_path());
        std::ofstream(root_ + path) << text;
    }

    std::string root_ = (fs::temp_directory_path() / ("cellar_cgroup_test_" + std::to_string(getpid()))).string();
};

TEST_F(CgroupTest, NoGroupsNoLimits) {
    const CgroupLimits limits = read_cgroup_limits(root_);
    EXPECT_FALSE(limits.cpus);
    EXPECT_FALSE(limits.memory);
    EXPECT_FALSE(available_memory(root_));
    EXPECT_FALSE(usable_memory(root_));
}

TEST_F(CgroupTest, Version2TakesTheTightestOfAllParents) {
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
    put("/sys/fs/cgroup/a/b/memory.max", "1000000\n");
    put("/sys/fs/cgroup/a/b/memory.current", "100000\n");
    put("/sys/fs/cgroup/a/memory.max", "2000000\n");
    put("/sys/fs/cgroup/a/memory.current", "1900000\n");
    const CgroupLimits limits = read_cgroup_limits(root_);
    EXPECT_DOUBLE_EQ(limits.cpus.value(), 1.5);
    EXPECT_EQ(limits.memory.value(), 2000000u);
    EXPECT_EQ(limits.memory_in_use.value(), 1900000u);
    put("/proc/meminfo", "MemTotal: 900 kB\nMemAvailable:    500 kB\n");
    EXPECT_EQ(usable_memory(root_).value(), 100000u);
    put("/proc/meminfo", "MemAvailable: 50 kB\n");
    EXPECT_EQ(usable_memory(root_).value(), 51200u);
}

TEST_F(CgroupTest, Version2InAContainerReadsTheMountItself) {
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    put("/sys/fs/cgroup/memory.max", "max\n");
    const CgroupLimits limits = read_cgroup_limits(root_);
    EXPECT_DOUBLE_EQ(limits.cpus.value(), 0.5);
    EXPECT_FALSE(limits.memory);
}

TEST_F(CgroupTest, Version1) {
    put("/proc/self/cgroup", "12:cpuset:/\n4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n");
    // The container sees its own group as the root of the mount.
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "96000\n");
    CgroupLimits limits = read_cgroup_limits(root_);
    EXPECT_DOUBLE_EQ(limits.cpus.value(), 3.0);
    EXPECT_EQ(limits.memory.value(), 4096000u);
    EXPECT_EQ(limits.memory_in_use.value(), 96000u);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    limits = read_cgroup_limits(root_);
    EXPECT_FALSE(limits.cpus);
    EXPECT_FALSE(limits.memory);
}

TEST_F(CgroupTest, NonsenseIsNoLimit) {
    for (const std::string text : {"", "0::", "0:", "x\n\n:::\n", "0::relative/path\n", "0::/a\n"}) {
        put("/proc/self/cgroup", text);
        put("/sys/fs/cgroup/cpu.max", "garbage");
        put("/sys/fs/cgroup/memory.max", "-5 x");
        const CgroupLimits limits = read_cgroup_limits(root_);
        EXPECT_FALSE(limits.cpus) << text;
        EXPECT_FALSE(limits.memory) << text;
    }
}

TEST(Memory, TheProcessSeesItself) {
    EXPECT_GT(resident_bytes(), 100000u);
    EXPECT_GE(peak_resident_bytes(), resident_bytes() / 2);
    ASSERT_TRUE(usable_memory());
    EXPECT_LE(*usable_memory(), *available_memory() + (64u << 20));
    const uint64_t before = peak_resident_bytes();
    std::string block(64u << 20, 'x');
    EXPECT_EQ(block[block.size() / 2], 'x');
    EXPECT_GE(peak_resident_bytes(), before + (32u << 20));
}

}  // namespace
}  // namespace cellar
