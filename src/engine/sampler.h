#pragma once
// From logits to the next token.
//
// The order is fixed:
//   1. penalties   on tokens among the last `penalty_last_n` of the text: repetition (divides positive logits, multiplies negative
//                  ones), then frequency times the count, then presence once
//   2. greedy      temperature 0 takes the largest logit, the lowest id among equals, and nothing below applies
//   3. top_k       the k largest logits
//   4. softmax     of what is left, at temperature 1
//   5. typical     the tokens whose surprise is closest to the average, until their probabilities reach typical_p
//   6. top_p       the most likely tokens until their probabilities reach top_p
//   7. min_p       tokens at least min_p times as likely as the most likely
//   8. temperature on the logits of what is left, then one draw
//
// The same options, the same seed and the same logits give the same tokens, on every run.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace cellar {

struct SamplerOptions {
    float temperature = 0.0F;         // 0: greedy
    int top_k = 40;                   // 0: all
    float top_p = 0.95F;              // 1: all
    float min_p = 0.05F;              // 0: all
    float typical_p = 1.0F;           // 1: all
    float repetition_penalty = 1.0F;  // 1: none
    float presence_penalty = 0.0F;
    float frequency_penalty = 0.0F;
    int penalty_last_n = 64;  // 0: none, -1: the whole text
    uint64_t seed = 0;
};

// Which option is out of its range, with the range.
Result<void> check(const SamplerOptions& options);

class Sampler {
  public:
    // Requires: check(options).
    Sampler(const SamplerOptions& options, int64_t vocabulary);

    // `text` is everything before the token that is wanted, for the penalties. Refuses logits that are not finite.
    Result<int32_t> sample(std::span<const float> logits, std::span<const int32_t> text);

    [[nodiscard]] const SamplerOptions& options() const { return options_; }
    void reseed(uint64_t seed);

  private:
    struct Candidate {
        int32_t id;
        float logit;
        float probability;
    };
    void penalise(std::span<const int32_t> text);
    int32_t draw();
    void keep_typical();
    void softmax(float temperature);
    double uniform();

    SamplerOptions options_;
    uint64_t state_ = 0;
    std::vector<float> logits_;          // [vocabulary]
    std::vector<int32_t> counts_;        // [vocabulary] of the penalised window, zero between calls
    std::vector<Candidate> candidates_;  // reserved for the vocabulary
};

}  // namespace cellar
