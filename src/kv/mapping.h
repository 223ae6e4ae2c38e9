#pragma once
// Address space whose pages cost nothing until they are touched; fresh pages are zero.
#include <cstddef>
#include <utility>

#include "base/result.h"

namespace cellar::kv {

class Mapping {
  public:
    // System error when the operating system refuses the address space.
    static Result<Mapping> make(size_t bytes);
    Mapping() = default;
    ~Mapping();
    Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Mapping& operator=(Mapping&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] size_t size() const { return size_; }

    // Gives back the whole pages within [offset, offset + bytes); they read as zero afterwards.
    void discard(size_t offset, size_t bytes) const;

    static constexpr size_t page = 4096;

  private:
    std::byte* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace cellar::kv
