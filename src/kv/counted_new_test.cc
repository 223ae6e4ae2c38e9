// Counts what the test program allocates. In a file of its own, so that the compiler does not pair these with its built-in knowledge.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

static std::atomic<int64_t> allocations{0};

int64_t count_allocations() {
    return allocations;
}

void* operator new(size_t bytes) {
    ++allocations;
    void* data = std::malloc(bytes == 0 ? 1 : bytes);
    if (data == nullptr) throw std::bad_alloc();
    return data;
}
void operator delete(void* data) noexcept {
    std::free(data);
}
void operator delete(void* data, size_t) noexcept {
    std::free(data);
}
