#include "engine/session_log.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/bytes.h"

namespace cellar {
namespace {

constexpr char kMagic[8] = {'C', 'E', 'L', 'L', 'A', 'R', '\x1a', 'S'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kMostIds = uint64_t{1} << 62;

// The section whose header stands at this offset, if one does and its content ends within the file.
std::optional<Section> section_at(std::span<const std::byte> file, uint64_t offset) {
    if (offset > file.size() || file.size() - offset < kSectionHeaderBytes) return std::nullopt;
    const std::byte* at = file.data() + offset;
    uint32_t kind = 0;
    uint64_t sum = 0;
    Section out;
    std::memcpy(&kind, at, 4);
    if (kind < static_cast<uint32_t>(SectionKind::Model) || kind > static_cast<uint32_t>(SectionKind::Commit)) return std::nullopt;
    std::memcpy(&out.id, at + 8, 8);
    std::memcpy(&out.length, at + 16, 8);
    std::memcpy(&out.checksum, at + 24, 8);
    std::memcpy(&sum, at + 32, 8);
    if (XXH3_64bits(at, 32) != sum) return std::nullopt;
    if (out.length > file.size() - offset - kSectionHeaderBytes || out.id >= kMostIds) return std::nullopt;
    out.kind = static_cast<SectionKind>(kind);
    out.offset = offset;
    return out;
}

struct Commit {
    Section section;
    uint64_t saves = 0;
    std::vector<Section> alive;
};

std::optional<Commit> read_commit(std::span<const std::byte> file, const Section& section) {
    const auto content = content_of(file, section);
    if (XXH3_64bits(content.data(), content.size()) != section.checksum) return std::nullopt;
    ByteReader in(content, "commit");
    Commit out;
    out.section = section;
    const auto saves = in.read<uint64_t>("saves");
    const auto count = in.read<uint64_t>("sections");
    if (!saves || !count) return std::nullopt;
    out.saves = *saves;
    const auto raw = in.take_records(*count, kCommitEntryBytes, "sections");
    if (!raw || in.remaining() != 0) return std::nullopt;
    for (uint64_t i = 0; i < *count; ++i) {
        const std::byte* at = raw->data() + i * kCommitEntryBytes;
        Section s;
        uint32_t kind = 0;
        std::memcpy(&s.id, at, 8);
        std::memcpy(&s.offset, at + 8, 8);
        std::memcpy(&s.length, at + 16, 8);
        std::memcpy(&s.checksum, at + 24, 8);
        std::memcpy(&kind, at + 32, 4);
        s.kind = static_cast<SectionKind>(kind);
        out.alive.push_back(s);
    }
    return out;
}

// Every save that was ended, in the order of the file; those whose commit cannot be read have none.
struct Saves {
    std::vector<std::optional<Commit>> commits;
    uint64_t next_id = 1;
};

Saves find_saves(std::span<const std::byte> file) {
    Saves out;
    uint64_t at = kSessionHeaderBytes;
    while (at < file.size()) {
        const auto section = section_at(file, at);
        if (!section) {
            // Behind a damaged header the next whole one is looked for: what comes later may be whole.
            at += 8;
            continue;
        }
        out.next_id = std::max(out.next_id, section->id + 1);
        if (section->kind == SectionKind::Commit) out.commits.push_back(read_commit(file, *section));
        at += kSectionHeaderBytes + padded(section->length);
    }
    return out;
}

// Whether sections verify, each looked at once however many commits name it. Sections that were written share no bytes, so all of them
// together are read at most once; where commits name sections that lie within others, no more than the file is read either, and what is
// left does not verify.
class Verifier {
  public:
    explicit Verifier(std::span<const std::byte> file) : file_(file), unread_(file.size()) {}

    // What a commit names is where it says, and whole.
    bool holds(const Section& named, const Section& commit) {
        const auto found = section_at(file_, named.offset);
        return found && found->offset < commit.offset && found->id == named.id && found->kind == named.kind && found->length == named.length &&
               found->checksum == named.checksum && whole(*found);
    }

  private:
    bool whole(const Section& section) {
        const auto known = whole_.find(section.offset);
        if (known != whole_.end()) return known->second;
        if (section.length > unread_) return false;
        unread_ -= section.length;
        const auto content = content_of(file_, section);
        return whole_[section.offset] = XXH3_64bits(content.data(), content.size()) == section.checksum;
    }

    std::span<const std::byte> file_;
    uint64_t unread_;
    std::map<uint64_t, bool> whole_;
};

// Sections that were written stand one behind the other. Of some that share their bytes much more would be in memory than stands in the file.
bool overlap(const std::vector<Section>& sections) {
    std::vector<std::pair<uint64_t, uint64_t>> stretches;
    stretches.reserve(sections.size());
    for (const Section& s : sections) stretches.emplace_back(s.offset, s.offset + kSectionHeaderBytes + padded(s.length));
    std::sort(stretches.begin(), stretches.end());
    return std::adjacent_find(stretches.begin(), stretches.end(), [](const auto& a, const auto& b) { return a.second > b.first; }) != stretches.end();
}

// What of a commit verifies; nothing where that is too little.
std::optional<SessionState> state_of(const Commit& commit, Verifier& verifier, Reading reading) {
    SessionState out;
    if (overlap(commit.alive)) return std::nullopt;
    for (const Section& section : commit.alive) {
        if (verifier.holds(section, commit.section)) {
            out.alive[section.id] = section;
        } else if (reading == Reading::Prefix && section.kind == SectionKind::Piece) {
            ++out.lost_pieces;
        } else {
            return std::nullopt;
        }
    }
    out.saves = commit.saves;
    out.end = commit.section.offset + kSectionHeaderBytes + padded(commit.section.length);
    return out;
}

}  // namespace

std::vector<std::byte> session_header() {
    ByteWriter out;
    out.add_bytes(std::as_bytes(std::span(kMagic)));
    out.add(kVersion);
    out.add(static_cast<uint32_t>(kSessionHeaderBytes));
    for (int i = 0; i < 5; ++i) out.add(uint64_t{0});
    out.add(static_cast<uint64_t>(XXH3_64bits(out.view().data(), out.view().size())));
    return out.take();
}

std::vector<std::byte> section_header(const Section& section) {
    ByteWriter out;
    out.add(static_cast<uint32_t>(section.kind));
    out.add(uint32_t{0});
    out.add(section.id);
    out.add(section.length);
    out.add(section.checksum);
    out.add(static_cast<uint64_t>(XXH3_64bits(out.view().data(), out.view().size())));
    return out.take();
}

std::vector<std::byte> commit_content(uint64_t saves, const std::map<uint64_t, Section>& alive) {
    ByteWriter out;
    out.add(saves);
    out.add(static_cast<uint64_t>(alive.size()));
    for (const auto& [id, s] : alive) {
        out.add(s.id);
        out.add(s.offset);
        out.add(s.length);
        out.add(s.checksum);
        out.add(static_cast<uint32_t>(s.kind));
        out.add(uint32_t{0});
    }
    return out.take();
}

std::span<const std::byte> content_of(std::span<const std::byte> file, const Section& section) {
    return file.subspan(section.offset + kSectionHeaderBytes, section.length);
}

bool is_session(std::span<const std::byte> file) {
    return file.size() >= sizeof kMagic && std::memcmp(file.data(), kMagic, sizeof kMagic) == 0;
}

Result<SessionState> find_state(std::span<const std::byte> file, const std::string& path, Reading reading) {
    if (file.size() < kSessionHeaderBytes || !is_session(file)) return fail("{}: it is no session file", path);
    uint32_t version = 0;
    std::memcpy(&version, file.data() + 8, 4);
    if (version != kVersion) return fail("{}: it is a session file of version {}, this program reads version {}", path, version, kVersion);
    const std::vector<std::byte> header = session_header();
    if (std::memcmp(file.data(), header.data(), header.size()) != 0) return fail("{}: its header is damaged", path);
    const Saves saves = find_saves(file);
    Verifier verifier(file);
    for (auto commit = saves.commits.rbegin(); commit != saves.commits.rend(); ++commit) {
        if (!*commit) continue;
        auto state = state_of(**commit, verifier, reading);
        if (!state) continue;
        state->next_id = saves.next_id;
        state->lost_saves = static_cast<uint64_t>(commit - saves.commits.rbegin());
        return *std::move(state);
    }
    return fail("{}: none of its saved states is whole", path);
}

}  // namespace cellar
