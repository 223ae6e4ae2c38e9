#include "text/detokenizer.h"

#include <algorithm>

#include "text/utf8.h"

namespace cellar::text {

void Utf8Stream::push(std::string_view bytes, std::string& out) {
    std::string joined;
    if (!held_.empty()) {
        joined = std::move(held_);
        joined += bytes;
        held_.clear();
        bytes = joined;
    }
    while (!bytes.empty()) {
        if (const size_t length = utf8_character(bytes); length > 0) {
            out += bytes.substr(0, length);
            bytes.remove_prefix(length);
            continue;
        }
        if (utf8_unfinished(bytes)) {
            held_ = bytes;
            return;
        }
        // The longest beginning of a character is one mistake, and so is a byte that begins none.
        size_t bad = std::min<size_t>(bytes.size(), 3);
        while (bad > 1 && !utf8_unfinished(bytes.substr(0, bad))) --bad;
        out += kReplacement;
        bytes.remove_prefix(bad);
    }
}

void Utf8Stream::finish(std::string& out) {
    if (!held_.empty()) out += kReplacement;
    held_.clear();
}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, DetokenizeOptions options)
    : tokenizer_(&tokenizer), options_(options), drop_space_(tokenizer.adds_space() && options.at_start) {}

std::string Detokenizer::push(int32_t id) {
    std::string bytes = tokenizer_->decode(id, options_.render_special);
    if (tokenizer_->stands_for_itself(id)) {
        drop_space_ = tokenizer_->adds_space();
    } else if (!bytes.empty()) {
        if (drop_space_ && bytes.front() == ' ') bytes.erase(0, 1);
        drop_space_ = false;
    }
    std::string out;
    stream_.push(bytes, out);
    return out;
}

std::string Detokenizer::finish() {
    std::string out;
    stream_.finish(out);
    drop_space_ = tokenizer_->adds_space() && options_.at_start;
    return out;
}

}  // namespace cellar::text
