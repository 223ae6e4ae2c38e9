#pragma once
// Text under construction, charged to the budget as it grows.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/template/heap.h"

namespace cellar::jinja {

class Builder {
  public:
    explicit Builder(Heap& heap) : heap_(heap) {}
    Builder(Heap& heap, std::uint64_t most) : heap_(heap), most_(most) {}  // for the output, which has a limit of its own
    ~Builder() { heap_.budget().refund(charged_); }
    Builder(const Builder&) = delete;
    Builder& operator=(const Builder&) = delete;

    void append(std::string_view text) {
        pay(text.size());
        text_.append(text);
    }
    void append(std::size_t count, char c) {
        pay(count);
        text_.append(count, c);
    }
    void append_point(char32_t code);
    const std::string& text() const { return text_; }
    Heap& heap() const { return heap_; }
    std::string take();
    Value finish(bool markup = false) { return heap_.string(take(), markup); }

  private:
    void pay(std::size_t bytes);

    Heap& heap_;
    std::string text_;
    std::uint64_t charged_ = 0;
    std::uint64_t most_ = 0;  // 0: that of a value
};

}  // namespace cellar::jinja
