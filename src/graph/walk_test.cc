#include "graph/walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "graph/builder.h"

namespace cellar::graph {
namespace {

Graph attention_of(int32_t tokens, int heads, int k_width, int v_width, const std::vector<float>& table) {
    Builder builder({tokens, 0}, ops::cpu(), {});
    const Ref x = builder.embed({DType::F32, 1, static_cast<int64_t>(heads) * k_width, reinterpret_cast<const std::byte*>(table.data())});
    builder.attend(x, {}, heads, k_width, v_width, 1.0F, 0.0F, -1, ops::RopePairing::Halves);
    return builder.finish(kNone);
}

TEST(ScratchBytes, serve_the_wider_of_keys_and_values) {
    for (const auto& [k_width, v_width] : {std::pair{192, 128}, std::pair{576, 512}, std::pair{64, 64}, std::pair{64, 256}}) {
        const std::vector<float> table(static_cast<size_t>(4 * k_width));
        const Graph graph = attention_of(8, 4, k_width, v_width, table);
        EXPECT_GE(scratch_bytes(graph, ops::cpu(), 1024, 2), ops::cpu().attend_scratch_bytes(8, 4, std::max(k_width, v_width), 1024, 2))
            << k_width << " and " << v_width;
    }
}

}  // namespace
}  // namespace cellar::graph
