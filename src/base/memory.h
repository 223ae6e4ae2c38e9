#pragma once
// How much memory this process uses and may use. Bytes; 0 or nothing where the system does not say.
#include <cstdint>
#include <optional>
#include <string>

namespace cellar {

// Resident now, and the most it ever was.
uint64_t resident_bytes();
uint64_t peak_resident_bytes();

// What the machine can give without swapping. `root` stands before /proc: "" on a real machine.
std::optional<uint64_t> available_memory(const std::string& root = "");

// available_memory(), cut to what is left of the limit of the process's control groups.
std::optional<uint64_t> usable_memory(const std::string& root = "");

}  // namespace cellar
