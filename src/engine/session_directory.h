#pragma once
// What stands in a session file beside rows: the model it belongs to, and its branches. Needs no model to be read.
//
// Thread rule: free functions; whoever owns the file.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/fingerprint.h"
#include "engine/session_file.h"

namespace cellar {

struct SessionBranch {
    // Positions [lo, hi) of a branch, out of a piece that may hold more.
    struct Part {
        uint64_t piece = 0;
        int32_t lo = 0;
        int32_t hi = 0;
        friend bool operator==(const Part&, const Part&) = default;
    };
    std::string name;
    std::string numbers;  // the numeric path that its rows were computed on
    int32_t length = 0;
    int32_t pure = 0;
    uint64_t host = 0;        // section
    std::vector<Part> parts;  // of [0, length) without gaps; fewer where pieces are lost
    [[nodiscard]] int32_t held() const { return parts.empty() ? 0 : parts.back().hi; }
};

struct SessionDirectory {
    Fingerprint model;
    std::vector<SessionBranch> branches;
};

// Everything is checked but the inside of pieces: names and host sections belong to one branch each, parts follow one another. Where the file
// has lost pieces, branches have the parts before the first of these.
Result<SessionDirectory> read_directory(const SessionFile& file);
// What the owner of a branch keeps beside its rows. A view into the file, valid until its next save.
std::string_view host_text(const SessionFile& file, const SessionBranch& branch);

std::vector<std::byte> model_content(const Fingerprint& model);
std::vector<std::byte> branches_content(std::span<const SessionBranch> branches);

// Makes a file forget all branches but these, and writes it anew without what nobody needs. Without names: all are kept. Refuses names
// that are not there, and to forget every branch.
Result<void> prune(SessionFile& file, std::span<const std::string> forget);

}  // namespace cellar
