#include "kv/growth.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kv/limits.h"
#include "kv/plan.h"
#include "kv/run_list.h"
#include "kv/seq.h"
#include "kv/store.h"

namespace cellar::kv {
namespace {

// The same, grown as a cache grows it.
Growth grown(const Keep& keep, int32_t block_cells, int64_t length, int64_t step) {
    Budget unlimited;
    const StoreShape shape{1, {{"k", 1, 1, RowFormat::F32}}, static_cast<int32_t>(length / block_cells + 2), block_cells, false};
    const auto store = *Store::make(shape, unlimited);
    RunList list;
    int32_t cut = 0;
    Growth out;
    for (int64_t at = 0; at < length; at += step) {
        const auto n = static_cast<int32_t>(std::min(step, length - at));
        EXPECT_TRUE(list.append(*store, static_cast<int32_t>(at), n, nullptr));
        out.most = std::max<int64_t>(out.most, store->pool().used());
        slide(*store, list, keep, static_cast<int32_t>(at) + n, cut);
    }
    out.blocks = store->pool().used();
    return out;
}

std::vector<Keep> keeps() {
    std::vector<Keep> out{Keep::all()};
    for (const int size : {1, 2, 5, 16, 17, 40, 64, 100}) {
        for (const int sinks : {0, 1, 4, 16, 20, 70}) out.push_back(Keep::window(size, sinks));
        out.push_back(Keep::chunk(size));
    }
    return out;
}

TEST(Growth, IsWhatAListGrowsTo) {
    for (const Keep& keep : keeps()) {
        for (const int block : {16, 32, 64}) {
            for (const int64_t step : {1, 3, 16, 24, 48, 100, 1000}) {
                for (const int64_t length : {0, 1, 15, 16, 17, 33, 64, 100, 131, 200, 333, 480, 777}) {
                    const Growth counted = growth(keep, block, length, step);
                    const Growth real = grown(keep, block, length, step);
                    ASSERT_EQ(counted, real) << "keep " << int(keep.kind) << " " << keep.size << "+" << keep.sinks << ", block " << block << ", step "
                                             << step << ", length " << length << ": " << counted.blocks << "/" << counted.most << " and "
                                             << real.blocks << "/" << real.most;
                }
            }
        }
    }
}

TEST(Growth, OfTheLongestContextLooksAtFewSteps) {
    constexpr int64_t kStep = 512;
    constexpr int kBlock = 32;
    const int64_t longest = most_context;
    EXPECT_EQ(widest_steps(Keep::all(), kBlock, longest, kStep).size(), 1U);
    for (const int64_t step : {int64_t{1}, int64_t{31}, kStep, longest}) {
        for (const int32_t size : {1, 1000, 1'000'003, 1'000'000'000}) {
            for (const int32_t sinks : {0, 4, 70'000'000}) {
                const size_t steps = widest_steps(Keep::window(size, sinks), kBlock, longest, step).size();
                EXPECT_GE(steps, 1U);
                EXPECT_LE(steps, 2U * kBlock + 2) << size << " " << sinks << " " << step;
            }
            const size_t steps = widest_steps(Keep::chunk(size), kBlock, longest, step).size();
            EXPECT_GE(steps, 1U);
            EXPECT_LE(steps, static_cast<size_t>(std::min<int64_t>(step, size))) << size << " " << step;
        }
    }
    EXPECT_EQ(growth(Keep::all(), kBlock, longest, kStep), (Growth{(longest + kBlock - 1) / kBlock, (longest + kBlock - 1) / kBlock}));
    EXPECT_EQ(growth(Keep::window(1024), kBlock, longest / 512 * 512, kStep), (Growth{32, 48}));
}

}  // namespace
}  // namespace cellar::kv
