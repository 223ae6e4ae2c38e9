#include "kv/mapping.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace cellar::kv {

Result<Mapping> Mapping::make(size_t bytes) {
    CHECK_GT(bytes, 0U);
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        return fail(ErrorKind::System, "cache: cannot reserve {} bytes of address space ({}); choose a smaller context", bytes, std::strerror(errno));
    }
    // A huge page would make one token cost 2 MB in every head of every layer. Kernels without huge pages refuse the advice, which is as good.
    (void)madvise(data, bytes, MADV_NOHUGEPAGE);
    Mapping mapping;
    mapping.data_ = static_cast<std::byte*>(data);
    mapping.size_ = bytes;
    return mapping;
}

Mapping::~Mapping() {
    if (data_ != nullptr) munmap(data_, size_);
}

void Mapping::discard(size_t offset, size_t bytes) const {
    CHECK_LE(offset + bytes, size_);
    const size_t first = (offset + page - 1) / page * page;
    const size_t last = (offset + bytes) / page * page;
    if (first >= last) return;
    CHECK_EQ(madvise(data_ + first, last - first, MADV_DONTNEED), 0);
}

}  // namespace cellar::kv
