#pragma once
// Holds text back while it could be the beginning of a stop string.
#include <string>
#include <string_view>
#include <vector>

namespace cellar {

class StopStrings {
  public:
    explicit StopStrings(std::vector<std::string> stops);

    // Takes more text; returns what can be shown now. After a stop string was met (stopped()), returns what stood before it,
    // once, and nothing from then on.
    std::string push(std::string_view text);
    // What is still held back when nothing more comes.
    std::string finish();
    [[nodiscard]] bool stopped() const { return stopped_; }

  private:
    std::vector<std::string> stops_;  // not empty ones
    std::string held_;
    bool stopped_ = false;
};

}  // namespace cellar
