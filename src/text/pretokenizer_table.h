#pragma once
// The names of pre-tokenizers with their expressions: data for pretokenizer.cc.
#include <span>
#include <string_view>
#include <vector>

#include "text/pretokenizer.h"

namespace cellar::text {

enum class StepKind {
    Matches,          // the matches are words, and so is what lies between them
    GroupsFromRight,  // as Matches, and each match is cut into groups of three characters, counted from its end
};

// `\s` and `\S` mean Unicode's White_Space; the rest is PCRE2 with Unicode properties. No expression may go back over more than
// single characters and classes, so that any text costs linear time and no stack.
struct PatternStep {
    std::string_view pattern;
    StepKind kind = StepKind::Matches;
};

struct PretokenizerEntry {
    std::vector<std::string_view> names;
    std::vector<PatternStep> steps;
    PretokenizerTraits traits = {};
};

[[nodiscard]] const std::vector<PretokenizerEntry>& pretokenizer_table();

}  // namespace cellar::text
