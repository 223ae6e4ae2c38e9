#include "apps/answer_printer.h"

#include "apps/terminal.h"

namespace cellar::apps {

void AnswerPrinter::show(std::string_view text, bool is_thought) const {
    if (!is_thought || thinking_ == Thinking::Show) {
        print_text(text);
    } else if (thinking_ == Thinking::Dim) {
        print_dim(text);
    }
}

bool AnswerPrinter::push(std::string_view text) {
    filter_.push(text, [this](std::string_view part, bool is_thought) { show(part, is_thought); });
    return output_error() == 0;
}

void AnswerPrinter::finish() {
    filter_.finish([this](std::string_view part, bool is_thought) { show(part, is_thought); });
}

}  // namespace cellar::apps
