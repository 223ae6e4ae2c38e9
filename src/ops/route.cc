#include "ops/route.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace cellar::ops {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// What the gate makes of a logit, before any choice.
class Gate {
  public:
    Gate(const RouteSpec& spec, const float* logits) : spec_(spec), logits_(logits) {
        if (spec.gate != RouteSpec::Gate::Softmax) return;
        most_ = *std::max_element(logits, logits + spec.experts);
        for (int e = 0; e < spec.experts; ++e) sum_ += std::exp(logits[e] - most_);
    }

    [[nodiscard]] double score(int e) const {
        switch (spec_.gate) {
            case RouteSpec::Gate::Softmax:
                return std::exp(logits_[e] - most_) / sum_;
            case RouteSpec::Gate::Sigmoid:
                return 1.0 / (1.0 + std::exp(-static_cast<double>(logits_[e])));
            case RouteSpec::Gate::SoftmaxOfChosen:
                return logits_[e];
        }
        return 0.0;
    }

    // The score that experts are chosen by.
    [[nodiscard]] double choice(int e, double score) const { return score + (spec_.selection_bias == nullptr ? 0.0 : spec_.selection_bias[e]); }

  private:
    const RouteSpec& spec_;
    const float* logits_;
    double most_ = 0.0;
    double sum_ = 0.0;
};

// The best groups_used groups, ties to the lower index.
std::array<bool, kMostGroups> open_groups(const RouteSpec& spec, const Gate& gate) {
    std::array<bool, kMostGroups> open{};
    const int size = spec.experts / spec.groups;
    std::array<double, kMostGroups> score{};
    for (int g = 0; g < spec.groups; ++g) {
        double first = kNone;
        double second = kNone;
        for (int e = g * size; e < (g + 1) * size; ++e) {
            const double c = gate.choice(e, gate.score(e));
            if (c > first) {
                second = first;
                first = c;
            } else if (c > second) {
                second = c;
            }
        }
        score[static_cast<size_t>(g)] = size == 1 ? first : first + second;
    }
    for (int n = 0; n < spec.groups_used; ++n) {
        int best = -1;
        for (int g = 0; g < spec.groups; ++g) {
            if (open[static_cast<size_t>(g)]) continue;
            if (best < 0 || score[static_cast<size_t>(g)] > score[static_cast<size_t>(best)]) best = g;
        }
        open[static_cast<size_t>(best)] = true;
    }
    return open;
}

struct Candidate {
    double choice = 0.0;
    double score = 0.0;
    int32_t id = 0;
};

// The best experts so far, best first; of equals the first that came.
class Best {
  public:
    explicit Best(int used) : used_(used) {}

    void offer(const Candidate& candidate) {
        int at = count_;
        while (at > 0 && candidate.choice > (*this)[at - 1].choice) --at;
        if (at == used_) return;
        count_ = std::min(count_ + 1, used_);
        for (int i = count_ - 1; i > at; --i) (*this)[i] = (*this)[i - 1];
        (*this)[at] = candidate;
    }
    [[nodiscard]] Candidate& operator[](int i) { return kept_[static_cast<size_t>(i)]; }

  private:
    std::array<Candidate, kMostUsed> kept_{};
    int used_;
    int count_ = 0;
};

}  // namespace

void route_row(const RouteSpec& spec, const float* logits, int32_t* ids, float* weights) {
    CHECK(spec.groups >= 1 && spec.groups <= kMostGroups && spec.experts % spec.groups == 0);
    CHECK(spec.groups_used >= 1 && spec.groups_used <= spec.groups);
    CHECK(spec.used >= 1 && spec.used <= spec.experts / spec.groups * spec.groups_used);
    CHECK_LE(spec.used, kMostUsed);
    const Gate gate(spec, logits);
    const bool all = spec.groups_used == spec.groups;
    const auto open = all ? std::array<bool, kMostGroups>{} : open_groups(spec, gate);
    Best best(spec.used);
    for (int e = 0; e < spec.experts; ++e) {
        if (!all && !open[static_cast<size_t>(e / (spec.experts / spec.groups))]) continue;
        const double score = gate.score(e);
        best.offer({gate.choice(e, score), score, e});
    }

    if (spec.gate == RouteSpec::Gate::SoftmaxOfChosen) {
        double most = kNone;
        for (int j = 0; j < spec.used; ++j) most = std::max(most, best[j].score);
        for (int j = 0; j < spec.used; ++j) best[j].score = std::exp(best[j].score - most);
    }
    double sum = 0.0;
    for (int j = 0; j < spec.used; ++j) sum += best[j].score;
    const bool normalise = spec.normalise || spec.gate == RouteSpec::Gate::SoftmaxOfChosen;
    const double share = normalise && sum > 0.0 ? 1.0 / sum : 1.0;
    for (int j = 0; j < spec.used; ++j) {
        ids[j] = best[j].id;
        weights[j] = static_cast<float>(best[j].score * share * spec.scale);
    }
}

}  // namespace cellar::ops
