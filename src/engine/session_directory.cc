#include "engine/session_directory.h"

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "base/quote.h"

namespace cellar {
namespace {

constexpr uint32_t kMostTokens = uint32_t{1} << 30;

Result<std::string> read_text(ByteReader& in, std::string_view field) {
    CELLAR_TRY(const uint32_t size, in.read<uint32_t>(field));
    CELLAR_TRY(const std::string_view text, in.take_text(size, field));
    return std::string(text);
}

const Section* find_section(const SessionFile& file, uint64_t id, SectionKind kind) {
    const auto found = file.sections().find(id);
    return found == file.sections().end() || found->second.kind != kind ? nullptr : &found->second;
}

const Section* only_section(const SessionFile& file, SectionKind kind) {
    const Section* out = nullptr;
    for (const auto& [id, section] : file.sections())
        if (section.kind == kind) out = &section;
    return out;
}

Result<Fingerprint> read_model(const SessionFile& file, const Section& section) {
    ByteReader in(file.content(section.id), file.path());
    Fingerprint out;
    CELLAR_TRY(const uint32_t entries, in.read<uint32_t>("model"));
    for (uint32_t i = 0; i < entries; ++i) {
        CELLAR_TRY(const std::string name, read_text(in, "model"));
        CELLAR_TRY(out[name], read_text(in, "model"));
    }
    return out;
}

Result<void> read_parts(ByteReader& in, const SessionFile& file, SessionBranch& branch) {
    CELLAR_TRY(const uint32_t parts, in.read<uint32_t>("parts"));
    int32_t reached = 0;
    bool lost = false;
    for (uint32_t p = 0; p < parts; ++p) {
        SessionBranch::Part part;
        CELLAR_TRY(part.piece, in.read<uint64_t>("piece"));
        CELLAR_TRY(part.lo, in.read<int32_t>("part"));
        CELLAR_TRY(part.hi, in.read<int32_t>("part"));
        const bool there = find_section(file, part.piece, SectionKind::Piece) != nullptr;
        if (part.lo != reached || part.hi <= part.lo || (!there && file.lost_pieces() == 0))
            return fail("{}: branch {}: its part {} is not where it should be", file.path(), quoted(branch.name), p);
        reached = part.hi;
        lost = lost || !there;
        if (!lost) branch.parts.push_back(part);
    }
    if (reached != branch.length)
        return fail("{}: branch {} has {} tokens, but parts for {}", file.path(), quoted(branch.name), branch.length, reached);
    return {};
}

Result<SessionBranch> read_branch(ByteReader& in, const SessionFile& file) {
    SessionBranch out;
    CELLAR_TRY(out.name, read_text(in, "branch name"));
    CELLAR_TRY(out.numbers, read_text(in, "numeric path"));
    CELLAR_TRY(const uint32_t length, in.read<uint32_t>("branch length"));
    CELLAR_TRY(const uint32_t pure, in.read<uint32_t>("branch purity"));
    if (length > kMostTokens || pure > length)
        return fail("{}: branch {} has {} tokens, {} of them pure", file.path(), quoted(out.name), length, pure);
    out.length = static_cast<int32_t>(length);
    out.pure = static_cast<int32_t>(pure);
    CELLAR_TRY(out.host, in.read<uint64_t>("host state"));
    if (find_section(file, out.host, SectionKind::Host) == nullptr) return fail("{}: branch {} lacks its host state", file.path(), quoted(out.name));
    CELLAR_TRY_VOID(read_parts(in, file, out));
    return out;
}

}  // namespace

Result<SessionDirectory> read_directory(const SessionFile& file) {
    const Section* directory = only_section(file, SectionKind::Branches);
    const Section* about = only_section(file, SectionKind::Model);
    if (directory == nullptr || about == nullptr) return fail("{}: it lacks its directory", file.path());
    SessionDirectory out;
    CELLAR_TRY(out.model, read_model(file, *about));
    ByteReader in(file.content(directory->id), file.path());
    CELLAR_TRY(const uint32_t count, in.read<uint32_t>("branches"));
    std::set<std::string_view> names;
    std::set<uint64_t> hosts;
    for (uint32_t i = 0; i < count; ++i) {
        CELLAR_TRY(SessionBranch branch, read_branch(in, file));
        // What several branches named would be in memory several times, but only once in the file.
        if (!hosts.insert(branch.host).second) return fail("{}: branch {} has the host state of another one", file.path(), quoted(branch.name));
        out.branches.push_back(std::move(branch));
    }
    for (const SessionBranch& branch : out.branches)
        if (!names.insert(branch.name).second) return fail("{}: there are two branches {}", file.path(), quoted(branch.name));
    return out;
}

std::string_view host_text(const SessionFile& file, const SessionBranch& branch) {
    const auto text = file.content(branch.host);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
}

std::vector<std::byte> model_content(const Fingerprint& model) {
    ByteWriter out;
    out.add(static_cast<uint32_t>(model.size()));
    for (const auto& [name, value] : model) {
        out.add_text(name);
        out.add_text(value);
    }
    return out.take();
}

std::vector<std::byte> branches_content(std::span<const SessionBranch> branches) {
    ByteWriter out;
    out.add(static_cast<uint32_t>(branches.size()));
    for (const SessionBranch& branch : branches) {
        out.add_text(branch.name);
        out.add_text(branch.numbers);
        out.add(static_cast<uint32_t>(branch.length));
        out.add(static_cast<uint32_t>(branch.pure));
        out.add(branch.host);
        out.add(static_cast<uint32_t>(branch.parts.size()));
        for (const SessionBranch::Part& part : branch.parts) {
            out.add(part.piece);
            out.add(part.lo);
            out.add(part.hi);
        }
    }
    return out.take();
}

Result<void> prune(SessionFile& file, std::span<const std::string> forget) {
    CELLAR_TRY(SessionDirectory directory, read_directory(file));
    std::vector<SessionBranch>& branches = directory.branches;
    for (const std::string& name : forget)
        if (std::erase_if(branches, [&](const SessionBranch& branch) { return branch.name == name; }) == 0)
            return fail("{}: there is no branch {}", file.path(), quoted(name));
    if (branches.empty()) return fail("{}: no branch would be left; delete the file instead", file.path());
    if (!forget.empty()) {
        SessionFile::Save save = file.begin();
        CELLAR_TRY(const uint64_t list, save.add(SectionKind::Branches, branches_content(branches)));
        std::vector<uint64_t> alive{list, only_section(file, SectionKind::Model)->id};
        for (const SessionBranch& branch : branches) {
            alive.push_back(branch.host);
            for (const SessionBranch::Part& part : branch.parts) alive.push_back(part.piece);
        }
        CELLAR_TRY_VOID(save.commit(alive));
    }
    return file.rewrite();
}

}  // namespace cellar
