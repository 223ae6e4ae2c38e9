#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace cellar {

Result<void> check(const SamplerOptions& o) {
    const auto in_range = [](std::string_view name, float value, float low, float high) -> Result<void> {
        if (value >= low && value <= high) return {};
        return fail("{} is {}, but must lie in [{}, {}]", name, value, low, high);
    };
    CELLAR_TRY_VOID(in_range("temperature", o.temperature, 0.0F, 100.0F));
    CELLAR_TRY_VOID(in_range("top_p", o.top_p, 0.0F, 1.0F));
    CELLAR_TRY_VOID(in_range("min_p", o.min_p, 0.0F, 1.0F));
    CELLAR_TRY_VOID(in_range("typical_p", o.typical_p, 0.0F, 1.0F));
    CELLAR_TRY_VOID(in_range("repetition_penalty", o.repetition_penalty, 0.01F, 100.0F));
    CELLAR_TRY_VOID(in_range("presence_penalty", o.presence_penalty, -100.0F, 100.0F));
    CELLAR_TRY_VOID(in_range("frequency_penalty", o.frequency_penalty, -100.0F, 100.0F));
    if (o.top_k < 0) return fail("top_k is {}, but must be 0 (all) or more", o.top_k);
    if (o.penalty_last_n < -1) return fail("penalty_last_n is {}, but must be -1 (the whole text), 0 (none) or more", o.penalty_last_n);
    return {};
}

Sampler::Sampler(const SamplerOptions& options, int64_t vocabulary) : options_(options) {
    logits_.resize(static_cast<size_t>(vocabulary));
    counts_.resize(static_cast<size_t>(vocabulary));
    candidates_.reserve(static_cast<size_t>(vocabulary));
    reseed(options.seed);
}

void Sampler::reseed(uint64_t seed) {
    options_.seed = seed;
    state_ = seed;
}

// splitmix64: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
double Sampler::uniform() {
    state_ += 0x9E3779B97F4A7C15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * 0x1.0p-53;
}

void Sampler::penalise(std::span<const int32_t> text) {
    const bool wanted = options_.repetition_penalty != 1.0F || options_.presence_penalty != 0.0F || options_.frequency_penalty != 0.0F;
    if (!wanted || options_.penalty_last_n == 0) return;
    if (options_.penalty_last_n > 0 && text.size() > static_cast<size_t>(options_.penalty_last_n))
        text = text.last(static_cast<size_t>(options_.penalty_last_n));
    const auto known = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < counts_.size(); };
    for (const int32_t id : text)
        if (known(id)) ++counts_[static_cast<size_t>(id)];
    for (const int32_t id : text) {
        if (!known(id) || counts_[static_cast<size_t>(id)] == 0) continue;
        float& logit = logits_[static_cast<size_t>(id)];
        logit = logit > 0.0F ? logit / options_.repetition_penalty : logit * options_.repetition_penalty;
        logit -= static_cast<float>(counts_[static_cast<size_t>(id)]) * options_.frequency_penalty + options_.presence_penalty;
        counts_[static_cast<size_t>(id)] = 0;
    }
}

void Sampler::softmax(float temperature) {
    const float most = candidates_.front().logit;
    double sum = 0.0;
    for (Candidate& c : candidates_) {
        c.probability = std::exp((c.logit - most) / temperature);
        sum += static_cast<double>(c.probability);
    }
    for (Candidate& c : candidates_) c.probability = static_cast<float>(static_cast<double>(c.probability) / sum);
}

void Sampler::keep_typical() {
    double entropy = 0.0;
    for (const Candidate& c : candidates_)
        if (c.probability > 0.0F) entropy -= static_cast<double>(c.probability) * std::log(static_cast<double>(c.probability));
    const auto distance = [entropy](const Candidate& c) { return std::abs(-std::log(static_cast<double>(c.probability)) - entropy); };
    std::erase_if(candidates_, [](const Candidate& c) { return c.probability <= 0.0F; });
    std::sort(candidates_.begin(), candidates_.end(), [&](const Candidate& a, const Candidate& b) {
        const double da = distance(a);
        const double db = distance(b);
        return da != db ? da < db : a.id < b.id;
    });
    double sum = 0.0;
    size_t kept = 0;
    while (kept < candidates_.size() && (kept == 0 || sum < static_cast<double>(options_.typical_p)))
        sum += static_cast<double>(candidates_[kept++].probability);
    candidates_.resize(kept);
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; });
}

int32_t Sampler::draw() {
    const auto better = [](const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; };
    candidates_.clear();
    for (size_t i = 0; i < logits_.size(); ++i) candidates_.push_back({static_cast<int32_t>(i), logits_[i], 0.0F});
    const size_t k = options_.top_k == 0 ? candidates_.size() : std::min(candidates_.size(), static_cast<size_t>(options_.top_k));
    std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k), candidates_.end(), better);
    candidates_.resize(k);
    softmax(1.0F);
    if (options_.typical_p < 1.0F) keep_typical();
    if (options_.top_p < 1.0F) {
        double sum = 0.0;
        size_t kept = 0;
        while (kept < candidates_.size() && (kept == 0 || sum < static_cast<double>(options_.top_p)))
            sum += static_cast<double>(candidates_[kept++].probability);
        candidates_.resize(kept);
    }
    if (options_.min_p > 0.0F) {
        const float least = candidates_.front().probability * options_.min_p;
        std::erase_if(candidates_, [least](const Candidate& c) { return c.probability < least; });
    }
    softmax(options_.temperature);
    double at = uniform();
    for (const Candidate& c : candidates_) {
        at -= static_cast<double>(c.probability);
        if (at < 0.0) return c.id;
    }
    return candidates_.back().id;
}

Result<int32_t> Sampler::sample(std::span<const float> logits, std::span<const int32_t> text) {
    CHECK_EQ(logits.size(), logits_.size());
    const auto bad = std::find_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
    if (bad != logits.end())
        return fail(
            ErrorKind::Input,
            "the model computed {} as the logit of token {} behind {} tokens: its weights or the cache are damaged (--check-finite names the layer)",
            *bad, bad - logits.begin(), text.size());
    std::copy(logits.begin(), logits.end(), logits_.begin());
    penalise(text);
    if (options_.temperature == 0.0F) return static_cast<int32_t>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
    return draw();
}

}  // namespace cellar
