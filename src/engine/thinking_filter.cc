#include "engine/thinking_filter.h"

#include <algorithm>

namespace cellar {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";

}  // namespace

void ThinkingFilter::push(std::string_view text, const Take& take) {
    held_ += text;
    while (true) {
        const std::string_view tag = inside_ ? kClose : kOpen;
        const size_t at = held_.find(tag);
        if (at == std::string::npos) break;
        if (inside_) {
            take(std::string_view(held_).substr(0, at + tag.size()), true);
        } else {
            if (at > 0) take(std::string_view(held_).substr(0, at), false);
            take(tag, true);
        }
        held_.erase(0, at + tag.size());
        inside_ = !inside_;
    }
    const std::string_view tag = inside_ ? kClose : kOpen;
    size_t keep = std::min(tag.size() - 1, held_.size());
    while (keep > 0 && !std::string_view(held_).ends_with(tag.substr(0, keep))) --keep;
    if (held_.size() > keep) take(std::string_view(held_).substr(0, held_.size() - keep), inside_);
    held_.erase(0, held_.size() - keep);
}

void ThinkingFilter::finish(const Take& take) {
    if (!held_.empty()) take(held_, inside_);
    held_.clear();
}

}  // namespace cellar
