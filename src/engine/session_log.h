#pragma once
// The bytes of a session file: header, sections and commits, written, and looked for in what may be damaged. docs/file.md describes every byte.
//
// Thread rule: free functions.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace cellar {

enum class SectionKind : uint32_t { Model = 1, Piece = 2, Host = 3, Branches = 4, Commit = 5 };

struct Section {
    SectionKind kind{};
    uint64_t id = 0;
    uint64_t offset = 0;  // of its header
    uint64_t length = 0;  // of its content
    uint64_t checksum = 0;
};

inline constexpr uint64_t kSessionHeaderBytes = 64;
inline constexpr uint64_t kSectionHeaderBytes = 40;
inline constexpr uint64_t kCommitEntryBytes = 40;

// Content is followed by zeros up to a multiple of 8.
constexpr uint64_t padded(uint64_t bytes) {
    return (bytes + 7) / 8 * 8;
}

std::vector<std::byte> session_header();
std::vector<std::byte> section_header(const Section& section);
std::vector<std::byte> commit_content(uint64_t saves, const std::map<uint64_t, Section>& alive);

std::span<const std::byte> content_of(std::span<const std::byte> file, const Section& section);

// True for the first bytes of a session file of any version.
bool is_session(std::span<const std::byte> file);

enum class Reading {
    Whole,   // a state counts only if all of it verifies
    Prefix,  // pieces that do not verify are left out: what comes before them may still be of use
};

// What a file holds: the newest of its states that counts.
struct SessionState {
    std::map<uint64_t, Section> alive;  // by id; all of them verify
    uint64_t saves = 0;                 // number of the save
    uint64_t end = 0;                   // behind its commit
    uint64_t next_id = 1;               // above every id in the file
    uint64_t lost_saves = 0;            // newer saves that were ended, and are damaged
    uint64_t lost_pieces = 0;           // pieces of this state that do not verify
};
// Refuses what is no session file, another version, and a file without any state that counts.
Result<SessionState> find_state(std::span<const std::byte> file, const std::string& path, Reading reading);

}  // namespace cellar
