#pragma once
// What reading a prompt costs on this engine, learned from the steps that it has run: seconds for each token, and for each pair of
// tokens of which one attends to the other.
#include <cstdint>

#include "kv/index.h"

namespace cellar {

class PrefillMeter {
  public:
    // A step ran the tokens of positions [from, to) in so many seconds.
    void add(int32_t from, int32_t to, double seconds);
    [[nodiscard]] bool has_measured() const { return tokens2_ > 0.0; }
    // The cost that fits best, by least squares, neither part negative; a guess until something was measured.
    [[nodiscard]] kv::PrefillCost cost() const;

  private:
    // Sums of products over all steps, of tokens, pairs and seconds.
    double tokens2_ = 0.0;
    double pairs2_ = 0.0;
    double tokens_pairs_ = 0.0;
    double tokens_seconds_ = 0.0;
    double pairs_seconds_ = 0.0;
};

}  // namespace cellar
