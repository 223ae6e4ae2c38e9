// What each format of the cache costs on the shipped model: distance of the logits, and recall.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/conversation.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

#ifdef CELLAR_REDUCED_TESTS
constexpr size_t kCases = 9;
#else
constexpr size_t kCases = 200;
#endif

struct Case {
    int distance = 0;
    std::vector<Message> messages;
    std::string answer;
};

std::vector<Case> cases() {
    std::ifstream in(CELLAR_SOURCE_DIR "/tests/data/recall_cases.jsonl");
    std::vector<Case> all;
    for (std::string line; std::getline(in, line);) {
        const auto json = nlohmann::json::parse(line);
        Case c;
        c.distance = json["distance"];
        c.answer = json["answer"];
        for (const auto& message : json["messages"]) c.messages.push_back({message["role"], message["content"]});
        all.push_back(std::move(c));
    }
    // Evenly over the file, so that every distance and kind is there in a smaller run too.
    std::vector<Case> out;
    for (size_t i = 0; i < kCases && !all.empty(); ++i) out.push_back(all[i * all.size() / kCases]);
    return out;
}

std::string prompt_text(const std::vector<Message>& messages) {
    std::string out = "<s>";
    for (const Message& m : messages) out += "<|" + m.role + "|>" + m.content + "<|end|>";
    return out + "<|assistant|>";
}

// Right answers, by distance.
std::map<int, int> recall(kv::RowFormat format) {
    const auto model = tiny::shipped();
    EngineOptions options = tiny::options(format);
    options.poison = false;
    auto engine = tiny::engine(model, options);
    std::map<int, int> right;
    for (const Case& c : cases()) {
        const SeqId seq = *engine->cache().open();
        GenerateOptions generation;
        generation.max_tokens = 48;
        const auto answer = generate(*engine, seq, encode_prompt(*model->tokenizer(), prompt_text(c.messages)), generation);
        EXPECT_TRUE(answer) << answer.error().message;
        right[c.distance] += answer && answer->text == c.answer ? 1 : 0;
        engine->cache().close(seq);
    }
    return right;
}

int total(const std::map<int, int>& by_distance) {
    int sum = 0;
    for (const auto& [distance, count] : by_distance) sum += count;
    return sum;
}

TEST(CacheFormats, RecallDoesNotSuffer) {
    const std::map<int, int> exact = recall(kv::RowFormat::F32);
    for (const auto& [distance, count] : exact) std::printf("  f32   %5d tokens: %d right\n", distance, count);
    EXPECT_GT(total(exact), static_cast<int>(kCases / 3));
    for (const kv::RowFormat format : {kv::RowFormat::F16, kv::RowFormat::BF16, kv::RowFormat::Q8_0}) {
        const int got = total(recall(format));
        std::printf("  %-5s %d of %zu right, f32 %d\n", std::string(kv::name(format)).c_str(), got, kCases, total(exact));
        EXPECT_GE(got, total(exact) - 2) << kv::name(format);
    }
}

TEST(CacheFormats, LogitsStayClose) {
    const auto model = tiny::shipped();
    std::string text;
    for (const Case& c : cases()) {
        text = prompt_text(c.messages);
        if (c.distance >= 800) break;
    }
    std::vector<int32_t> ids = encode_prompt(*model->tokenizer(), text);
    ASSERT_GE(ids.size(), 512U);
    ids.resize(512);
    const auto run = [&](kv::RowFormat format) {
        EngineOptions options = tiny::options(format);
        options.max_outputs = 64;
        auto engine = tiny::engine(model, options);
        std::vector<float> out;
        EXPECT_TRUE(engine->append_all_logits(*engine->cache().open(), ids,
                                              [&](ops::Mat rows) { out.insert(out.end(), rows.data, rows.data + rows.rows * rows.cols); }));
        return out;
    };
    const std::vector<float> exact = run(kv::RowFormat::F32);
    // The weights are Q8_0, so activations are rounded to 8 bits on the way: the smallest change of a row moves some of them by a
    // whole step, and that alone is about 3e-5, whatever the format.
    const std::map<kv::RowFormat, double> limits{{kv::RowFormat::F16, 1e-4}, {kv::RowFormat::BF16, 1e-4}, {kv::RowFormat::Q8_0, 2e-4}};
    for (const auto& [format, limit] : limits) {
        const std::vector<float> got = run(format);
        double error = 0.0;
        double scale = 0.0;
        for (size_t i = 0; i < exact.size(); ++i) {
            error += std::pow(static_cast<double>(got[i]) - static_cast<double>(exact[i]), 2);
            scale += std::pow(static_cast<double>(exact[i]), 2);
        }
        std::printf("  %-5s NMSE of logits at 512 positions: %.2e\n", std::string(kv::name(format)).c_str(), error / scale);
        EXPECT_LE(error / scale, limit) << kv::name(format);
        EXPECT_GT(error, 0.0) << kv::name(format) << ": the format is not in use";
    }
}

}  // namespace
}  // namespace cellar
