#pragma once
// Parts an answer into what the model thinks, between <think> and </think>, and what it says.
#include <functional>
#include <string>
#include <string_view>

namespace cellar {

class ThinkingFilter {
  public:
    // `inside`: the prompt ended within the thinking already.
    explicit ThinkingFilter(bool inside) : inside_(inside) {}

    // Hands on all text that cannot be the beginning of a tag; the tags themselves count as thinking.
    // take(text, thinking) is called with pieces of one kind, in order.
    using Take = std::function<void(std::string_view text, bool thinking)>;
    void push(std::string_view text, const Take& take);
    void finish(const Take& take);
    [[nodiscard]] bool inside() const { return inside_; }

  private:
    bool inside_;
    std::string held_;
};

}  // namespace cellar
