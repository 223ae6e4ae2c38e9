#pragma once
// Text to text, as Python's str does it: shared by the filters and the methods of str. Results keep the markup of what they came from.
#include <string_view>

#include "text/template/heap.h"

namespace cellar::jinja {

// All: Requires `text` is a String.
Value upper(Heap& heap, const Value& text);
Value lower(Heap& heap, const Value& text);
Value capitalize(Heap& heap, const Value& text);
Value strip(Heap& heap, const Value& text, const Value& chars, bool left, bool right);                         // chars: None for whitespace
Value replace(Heap& heap, const Value& text, std::string_view from, std::string_view to, std::int64_t count);  // count < 0: all
Value strip_tags(Heap& heap, std::string_view text);  // no tags, entities read, runs of space as one; plain text comes out

// Whether the text has a letter that is `wanted` and none that is `refused`: is_upper and is_lower, or the other way round.
bool is_cased(const Value& text, bool (*wanted)(char32_t), bool (*refused)(char32_t));

enum class Side { Left, Right, Both };  // where the padding goes
Value pad(Heap& heap, const Value& text, std::int64_t width, char32_t fill, Side side);

// The lines of a text, without their breaks: \n, \r\n, \r and the rarer ones that Python knows.
class Lines {
  public:
    explicit Lines(std::string_view text) : rest_(text) {}
    bool next(std::string_view& line);
    bool ended_with_break() const { return break_size_ > 0; }  // whether the line just given had one
    std::size_t break_size() const { return break_size_; }

  private:
    std::string_view rest_;
    std::size_t break_size_ = 0;
};

}  // namespace cellar::jinja
