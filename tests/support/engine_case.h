#pragma once
// Tests that are run with several models and cache formats.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/tiny_model.h"

namespace cellar {

// "qwen3_hd80_q8_0": names of tests take no '-'.
inline std::string case_name(std::string recipe, std::initializer_list<kv::RowFormat> formats) {
    for (const kv::RowFormat format : formats) recipe.append("_").append(kv::name(format));
    std::replace(recipe.begin(), recipe.end(), '-', '_');
    return recipe;
}

// A golden recipe in a cache format.
struct EngineCase {
    const char* recipe;
    kv::RowFormat format;
    static std::string name(const testing::TestParamInfo<EngineCase>& info) { return case_name(info.param.recipe, {info.param.format}); }
};

// An engine on it with room for several sequences, and ids for them to read.
class EngineCases : public testing::TestWithParam<EngineCase> {
  protected:
    void SetUp() override {
        model_ = tiny::model(GetParam().recipe);
        options_ = tiny::options(GetParam().format);
        options_.context = 512;
        options_.cells = 2048;
        options_.max_seqs = 8;
        engine_ = tiny::engine(model_, options_);
        ids_ = tiny::tokens(*model_, 300);
    }
    SeqId read(Engine& engine, std::span<const int32_t> ids) {
        const SeqId seq = *engine.cache().open();
        EXPECT_TRUE(engine.append(seq, ids));
        return seq;
    }

    std::shared_ptr<const model::Model> model_;
    EngineOptions options_;
    std::unique_ptr<Engine> engine_;
    std::vector<int32_t> ids_;
};

}  // namespace cellar
