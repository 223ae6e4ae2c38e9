#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace cellar {
namespace {

std::map<int32_t, int> histogram(const SamplerOptions& options, const std::vector<float>& logits, int draws, std::span<const int32_t> text = {}) {
    Sampler sampler(options, static_cast<int64_t>(logits.size()));
    std::map<int32_t, int> out;
    for (int i = 0; i < draws; ++i) ++out[*sampler.sample(logits, text)];
    return out;
}

SamplerOptions plain(float temperature) {
    SamplerOptions o;
    o.temperature = temperature;
    o.top_k = 0;
    o.top_p = 1.0F;
    o.min_p = 0.0F;
    return o;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestOfEquals) {
    Sampler sampler({}, 4);
    EXPECT_EQ(*sampler.sample(std::vector<float>{1, 3, 3, 2}, {}), 1);
    EXPECT_EQ(*sampler.sample(std::vector<float>{-5, -3, -4, -3}, {}), 1);
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
    const std::vector<float> logits{0.0F, 1.0F, 2.0F, -1.0F};
    for (const float temperature : {0.5F, 1.0F, 2.0F}) {
        constexpr int kDraws = 40000;
        auto seen = histogram(plain(temperature), logits, kDraws);
        double sum = 0.0;
        for (const float l : logits) sum += std::exp(l / temperature);
        for (int32_t i = 0; i < 4; ++i) {
            const double expected = std::exp(logits[static_cast<size_t>(i)] / temperature) / sum;
            EXPECT_NEAR(seen[i] / static_cast<double>(kDraws), expected, 0.012) << "token " << i << " at " << temperature;
        }
    }
}

TEST(Sampler, EachFilterKeepsWhatItSays) {
    const std::vector<float> logits{std::log(0.5F), std::log(0.25F), std::log(0.15F), std::log(0.1F)};
    SamplerOptions o = plain(1.0F);
    o.top_k = 2;
    EXPECT_EQ(histogram(o, logits, 2000).size(), 2U);
    o = plain(1.0F);
    o.top_p = 0.74F;
    EXPECT_EQ(histogram(o, logits, 2000).size(), 2U);
    o.top_p = 0.76F;
    EXPECT_EQ(histogram(o, logits, 2000).size(), 3U);
    o.top_p = 0.0F;
    EXPECT_EQ(histogram(o, logits, 200).size(), 1U);
    o = plain(1.0F);
    o.min_p = 0.29F;
    EXPECT_EQ(histogram(o, logits, 2000).size(), 3U);
    o = plain(1.0F);
    // Entropy 1.2080: surprises 0.69, 1.39, 1.90, 2.30 lie 0.51, 0.18, 0.69, 1.09 away from it.
    o.typical_p = 0.2F;
    auto seen = histogram(o, logits, 500);
    EXPECT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen.count(1), 1U);
    o.typical_p = 0.6F;
    seen = histogram(o, logits, 2000);
    EXPECT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen.count(0), 1U);
}

TEST(Sampler, PenaltiesPushWhatWasSaid) {
    const std::vector<int32_t> text{0, 0, 1};
    SamplerOptions o;
    o.repetition_penalty = 2.0F;
    EXPECT_EQ(*Sampler(o, 3).sample(std::vector<float>{4.0F, 3.0F, 2.5F}, text), 2);
    EXPECT_EQ(*Sampler(o, 3).sample(std::vector<float>{-1.0F, -1.5F, -1.8F}, text), 2);
    o = {};
    o.frequency_penalty = 0.6F;
    EXPECT_EQ(*Sampler(o, 3).sample(std::vector<float>{4.0F, 3.5F, 0.0F}, text), 1);
    o = {};
    o.presence_penalty = 1.0F;
    EXPECT_EQ(*Sampler(o, 3).sample(std::vector<float>{2.0F, 1.0F, 1.5F}, text), 2);
    o.penalty_last_n = 1;
    EXPECT_EQ(*Sampler(o, 3).sample(std::vector<float>{2.0F, 1.0F, 1.5F}, text), 0);
    o.penalty_last_n = 0;
    EXPECT_EQ(*Sampler(o, 3).sample(std::vector<float>{2.0F, 1.0F, 1.5F}, text), 0);
}

TEST(Sampler, TheSameSeedDrawsTheSame) {
    std::vector<float> logits(100);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * 37) % 23) / 5.0F;
    SamplerOptions o;
    o.temperature = 1.3F;
    const auto draw = [&](uint64_t seed) {
        o.seed = seed;
        Sampler sampler(o, 100);
        std::vector<int32_t> out;
        for (int i = 0; i < 200; ++i) out.push_back(*sampler.sample(logits, out));
        return out;
    };
    EXPECT_EQ(draw(7), draw(7));
    EXPECT_NE(draw(7), draw(8));
}

TEST(Sampler, LogitsThatAreNotFiniteAreAnError) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
        const auto result = Sampler(plain(1.0F), 3).sample(std::vector<float>{0.0F, bad, 1.0F}, {});
        ASSERT_FALSE(result);
        EXPECT_NE(result.error().message.find("token 1"), std::string::npos);
    }
}

TEST(Sampler, OptionsOutOfRangeAreNamed) {
    const auto refused = [](auto change) {
        SamplerOptions o;
        change(o);
        const auto result = check(o);
        return result ? std::string() : result.error().message;
    };
    EXPECT_NE(refused([](auto& o) { o.temperature = -1; }).find("temperature"), std::string::npos);
    EXPECT_NE(refused([](auto& o) { o.temperature = std::numeric_limits<float>::quiet_NaN(); }).find("temperature"), std::string::npos);
    EXPECT_NE(refused([](auto& o) { o.top_p = 1.5F; }).find("top_p"), std::string::npos);
    EXPECT_NE(refused([](auto& o) { o.top_k = -1; }).find("top_k"), std::string::npos);
    EXPECT_NE(refused([](auto& o) { o.repetition_penalty = 0; }).find("repetition_penalty"), std::string::npos);
    EXPECT_NE(refused([](auto& o) { o.penalty_last_n = -2; }).find("penalty_last_n"), std::string::npos);
    EXPECT_EQ(refused([](auto&) {}), "");
}

}  // namespace
}  // namespace cellar
