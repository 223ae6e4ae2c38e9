#include "text/vocabulary.h"

namespace cellar::text {

void StringPool::reserve(size_t strings, size_t bytes) {
    ends_.reserve(strings);
    bytes_.reserve(bytes);
}

void StringPool::add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(bytes_.size());
}

}  // namespace cellar::text
