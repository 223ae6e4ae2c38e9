// A profile counts every node of every step, and says how much each had to read and to compute.
#include "graph/profile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/tiny_model.h"

namespace cellar {
namespace {

const graph::Profile::Line* find(const std::vector<graph::Profile::Line>& lines, graph::Op op, std::string_view what) {
    const auto found = std::find_if(lines.begin(), lines.end(), [&](const auto& l) { return l.op == op && l.what.starts_with(what); });
    return found == lines.end() ? nullptr : &*found;
}

TEST(Profile, SumsTheStagesOfSteps) {
    const auto model = tiny::model("llama");
    auto engine = tiny::engine(model, tiny::options());
    const SeqId seq = *engine->cache().open();
    const std::vector<int32_t> ids = tiny::tokens(*model, 43);
    const std::span<const int32_t> all(ids);
    ASSERT_TRUE(engine->append(seq, all.first(40)));
    graph::Profile profile;
    engine->profile(&profile);
    for (size_t i = 40; i < 42; ++i) ASSERT_TRUE(engine->append(seq, all.subspan(i, 1)));
    engine->profile(nullptr);
    ASSERT_TRUE(engine->append(seq, all.subspan(42, 1)));

    EXPECT_EQ(profile.walks(), 2);
    const std::vector<graph::Profile::Line> lines = profile.lines();
    double seconds = 0.0;
    int64_t calls = 0;
    for (const auto& line : lines) {
        seconds += line.seconds;
        calls += line.calls;
    }
    EXPECT_NEAR(seconds, profile.seconds(), 1e-9 + 1e-6 * seconds);
    EXPECT_EQ(calls, 2 * static_cast<int64_t>(engine->graph({1, 1}).stages.size()));
    EXPECT_TRUE(std::is_sorted(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; }));

    const model::Config& config = model->config();
    const gguf::TensorInfo* down = model->file().tensor("blk.0.ffn_down.weight");
    ASSERT_NE(down, nullptr);
    const graph::Profile::Line* product = find(lines, graph::Op::MatMul, "ffn_down ");
    ASSERT_NE(product, nullptr) << profile.text();
    EXPECT_EQ(product->calls, 2 * config.layers);
    EXPECT_DOUBLE_EQ(product->bytes, 2.0 * config.layers * static_cast<double>(down->bytes));
    const gguf::TensorInfo* gate = model->file().tensor("blk.0.ffn_gate.weight");
    ASSERT_NE(gate, nullptr);
    const graph::Profile::Line* gated = find(lines, graph::Op::MatMul, "ffn_up, ffn_gate ");
    ASSERT_NE(gated, nullptr) << profile.text();
    EXPECT_DOUBLE_EQ(gated->bytes, 2.0 * 2.0 * config.layers * static_cast<double>(gate->bytes));
    EXPECT_NE(find(lines, graph::Op::MatMul, "attn_q attn_k attn_v "), nullptr) << profile.text();
    const graph::Profile::Line* attend = find(lines, graph::Op::Attend, "");
    ASSERT_NE(attend, nullptr);
    EXPECT_EQ(attend->calls, 2 * config.layers);
    double layer_bytes = 0.0;
    for (const kv::GroupSpec& group : engine->cache().spec().groups) layer_bytes += static_cast<double>(group.cell_bytes());
    // The first of the two saw 41 positions, the second 42.
    EXPECT_DOUBLE_EQ(attend->bytes, (41 + 42) * layer_bytes);
    EXPECT_NE(profile.text().find("ffn_down"), std::string::npos);

    profile.clear();
    EXPECT_EQ(profile.walks(), 0);
    EXPECT_TRUE(profile.lines().empty());
    EXPECT_EQ(profile.text(), "no steps\n");
}

TEST(Profile, ChangesNoLogits) {
    const auto model = tiny::model("llama-moe");
    const std::vector<int32_t> ids = tiny::tokens(*model, 20);
    auto plain = tiny::engine(model, tiny::options());
    auto profiled = tiny::engine(model, tiny::options());
    graph::Profile profile;
    profiled->profile(&profile);
    EXPECT_EQ(tiny::fresh_logits(*plain, ids), tiny::fresh_logits(*profiled, ids));
    EXPECT_NE(find(profile.lines(), graph::Op::ExpertMatMul, ""), nullptr);
}

}  // namespace
}  // namespace cellar
