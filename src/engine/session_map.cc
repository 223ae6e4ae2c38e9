#include "engine/session_map.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/fault_guard.h"

namespace cellar {

Result<SessionMap> SessionMap::make(const std::string& path, int fd) {
    SessionMap out;
    struct stat info {};
    if (fstat(fd, &info) != 0) return fail(ErrorKind::System, "{}: cannot be read: {}", path, std::strerror(errno));
    if (info.st_size == 0) return out;
    const auto size = static_cast<size_t>(info.st_size);
    void* at = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return fail(ErrorKind::System, "{}: cannot be mapped: {}", path, std::strerror(errno));
    out.bytes_ = {static_cast<const std::byte*>(at), size};
    out.guard_ = watch_mapping(path, out.bytes_);
    return out;
}

SessionMap::SessionMap(SessionMap&& other) noexcept : bytes_(std::exchange(other.bytes_, {})), guard_(std::exchange(other.guard_, nullptr)) {}

SessionMap& SessionMap::operator=(SessionMap&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(guard_, other.guard_);
    return *this;
}

SessionMap::~SessionMap() {
    if (guard_ != nullptr) unwatch_mapping(guard_);
    if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace cellar
