#pragma once
// Prints an answer while it comes, and what the model thinks before it as the user wants it.
#include <string_view>

#include "apps/commands.h"
#include "engine/thinking_filter.h"

namespace cellar::apps {

class AnswerPrinter {
  public:
    // `inside`: the prompt ended within the thinking already.
    AnswerPrinter(Thinking thinking, bool inside) : thinking_(thinking), filter_(inside) {}

    // False when stdout takes no more.
    bool push(std::string_view text);
    // What was held back.
    void finish();

  private:
    void show(std::string_view text, bool is_thought) const;

    Thinking thinking_;
    ThinkingFilter filter_;
};

}  // namespace cellar::apps
