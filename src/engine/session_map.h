#pragma once
// The bytes of a session file that is open.
#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace cellar {

struct FaultGuard;

// Mapped for as long as this lives. A file that another program cuts meanwhile ends the process, by a line with its name (base/file.h).
class SessionMap {
  public:
    // `path` stands in errors; an empty file has no bytes.
    static Result<SessionMap> make(const std::string& path, int fd);
    SessionMap() = default;
    SessionMap(SessionMap&& other) noexcept;
    SessionMap& operator=(SessionMap&& other) noexcept;
    ~SessionMap();
    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  private:
    std::span<const std::byte> bytes_;
    FaultGuard* guard_ = nullptr;
};

}  // namespace cellar
