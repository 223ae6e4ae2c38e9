#pragma once
// Turns a fault in a mapped file into a message. See MappedFile.
#include <cstddef>
#include <span>
#include <string>

namespace cellar {

struct FaultGuard;

// From now until unwatch(), a SIGBUS at an address in `range` ends the process with kExitFileLost and a line with `path`.
FaultGuard* watch_mapping(const std::string& path, std::span<const std::byte> range);
void unwatch_mapping(FaultGuard* guard);

}  // namespace cellar
