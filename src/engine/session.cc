#include "engine/session.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/quote.h"
#include "kv/snapshot.h"

namespace cellar {
namespace {

// A file is written anew when more of it than this is dead.
constexpr uint64_t kDeadShare = 8;
constexpr uint64_t kSmallFile = 64 << 10;

void add_run(std::vector<kv::Run>& runs, kv::Run run) {
    run.cell = 0;
    if (!runs.empty() && runs.back().end() == run.pos && runs.back().turn == run.turn) {
        runs.back().len += run.len;
    } else {
        runs.push_back(run);
    }
}

// What of the runs lies in [lo, hi), without cells.
void add_runs_within(std::span<const kv::Run> runs, kv::Interval positions, std::vector<kv::Run>& out) {
    for (const kv::Run& run : kv::runs_within(runs, positions)) add_run(out, run);
}

// The first position at which two descriptions of a group differ, or the shorter one ends.
int32_t same_until(const std::vector<kv::Run>& a, const std::vector<kv::Run>& b) {
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
        if (i >= a.size()) return b[i].pos;
        if (i >= b.size()) return a[i].pos;
        if (a[i].pos != b[i].pos || a[i].turn != b[i].turn) return std::min(a[i].pos, b[i].pos);
        if (a[i].len != b[i].len) return std::min(a[i].end(), b[i].end());
    }
    return INT32_MAX;
}

Result<void> check_model(const std::string& path, const Fingerprint& theirs, const Fingerprint& mine) {
    for (const auto& [name, value] : mine) {
        if (!decides_use(name)) continue;
        const auto found = theirs.find(name);
        const std::string other = found == theirs.end() ? "nothing" : found->second;
        if (other != value) return fail("{}: it was saved with another model: {} is '{}' there and '{}' here", path, name, escaped(other), value);
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const std::string& path, Engine& engine, Reading reading) {
    CELLAR_TRY(auto file, SessionFile::open(path, reading));
    std::unique_ptr<Session> out(new Session(engine, std::move(file), reading));
    out->mine_ = fingerprint(engine);
    if (!out->file_->is_new()) CELLAR_TRY_VOID(out->read());
    return out;
}

const Session::Branch* Session::find(const std::string& name) const {
    const auto found = std::find_if(branches_.begin(), branches_.end(), [&](const Branch& b) { return b.name == name; });
    return found == branches_.end() ? nullptr : &*found;
}

// Everything is looked at now, before anything is used.
Result<void> Session::read() {
    CELLAR_TRY(const SessionDirectory directory, read_directory(*file_));
    CELLAR_TRY_VOID(check_model(path(), directory.model, mine_));
    for (const SessionBranch& branch : directory.branches) {
        Stored stored;
        stored.parts = branch.parts;
        bool own = branch.numbers == mine_.at("numbers");
        for (const Part& part : branch.parts) {
            if (!pieces_.contains(part.piece)) CELLAR_TRY_VOID(read_piece(part.piece));
            const PieceContent& piece = pieces_.at(part.piece);
            if (part.lo < piece.positions.lo || part.hi > piece.positions.hi)
                return fail("{}: branch {}: positions [{}, {}) are not in their piece", path(), quoted(branch.name), part.lo, part.hi);
            own = own && piece.own_format;
        }
        stored.pure = own ? std::min(branch.pure, branch.held()) : 0;
        stored_[branch.name] = std::move(stored);
        branches_.push_back({branch.name, branch.length, branch.pure, branch.held(), std::string(host_text(*file_, branch)), branch.numbers});
    }
    return {};
}

Result<void> Session::read_piece(uint64_t id) {
    CELLAR_TRY(kv::Piece piece, kv::parse_piece(file_->content(id), path(), engine_.cache().spec()));
    const int64_t vocabulary = engine_.model().config().vocabulary;
    for (const Token& token : piece.tokens)
        if (token.id < 0 || token.id >= vocabulary) return fail("{}: token {} is outside the vocabulary of {}", path(), token.id, vocabulary);
    PieceContent content;
    content.positions = piece.positions;
    content.tokens = std::move(piece.tokens);
    for (const kv::Piece::Group& group : piece.groups) add_runs_within(group.runs, piece.positions, content.runs.emplace_back());
    content.own_format = !kv::converts(piece, engine_.cache().spec());
    pieces_[id] = std::move(content);
    return {};
}

// All of the branch, or what of it is held and fits where a prefix will do. Groups that let go of old rows have what a next token needs only
// where a save found them.
Result<int32_t> Session::length_to_fill(const Branch& branch) const {
    const int64_t context = engine_.context();
    if (branch.held == branch.length && branch.length <= context) return branch.length;
    if (reading_ == Reading::Whole)
        return fail(ErrorKind::Full,
                    "{}: branch {} has {} tokens, but the context holds {}: raise --ctx, or take its beginning with --session-prefix", path(),
                    quoted(branch.name), branch.length, context);
    const auto limit = static_cast<int32_t>(std::min<int64_t>(branch.held, context));
    const auto& groups = engine_.cache().spec().groups;
    const bool keeps_all = std::all_of(groups.begin(), groups.end(), [](const kv::GroupSpec& g) { return g.keep == kv::Keep::all(); });
    if (keeps_all) return limit;
    int32_t out = 0;
    for (const Part& part : stored_.at(branch.name).parts)
        if (part.hi <= limit && part.hi == pieces_.at(part.piece).positions.hi) out = part.hi;
    return out;
}

Result<Session::Restored> Session::fill(const Branch& branch, SeqId seq) {
    kv::Cache& cache = engine_.cache();
    CELLAR_TRY(const int32_t until, length_to_fill(branch));
    Restored out;
    out.seq = seq;
    out.shared = cache.length(seq);
    for (const Part& part : stored_.at(branch.name).parts) {
        out.converted = out.converted || !pieces_.at(part.piece).own_format;
        const int32_t end = std::min(part.hi, until);
        if (end <= cache.length(seq)) continue;
        CELLAR_TRY(const kv::Piece piece, kv::parse_piece(file_->content(part.piece), path(), cache.spec()));
        CELLAR_TRY_VOID(kv::append_piece(cache, seq, piece, end));
    }
    out.other_numbers = branch.numbers != mine_.at("numbers");
    cache.colour(seq, out.coloured() ? 0 : std::min(branch.pure, until));
    out.length = cache.length(seq);
    if (out.length < branch.length) file_->keep_as_found();
    // Whoever says the same from another sequence finds it too; nothing is copied.
    engine_.keep(seq);
    return out;
}

Result<Session::Restored> Session::restore(const std::string& name, SeqId seq) {
    CHECK_EQ(engine_.cache().length(seq), 0);
    const Branch* branch = find(name);
    if (branch == nullptr) return fail("{}: there is no branch {}", path(), quoted(name));
    auto out = fill(*branch, seq);
    if (!out) engine_.cache().trim(seq, 0);
    return out;
}

Result<Session::Restored> Session::restore_beside(const std::string& name, std::span<const OpenBranch> open) {
    const Branch* branch = find(name);
    if (branch == nullptr) return fail("{}: there is no branch {}", path(), quoted(name));
    const OpenBranch* best = nullptr;
    int32_t shared = 0;
    for (const OpenBranch& other : open) {
        const int32_t n = shareable(stored_.at(name), other);
        if (n > shared) {
            shared = n;
            best = &other;
        }
    }
    kv::Cache& cache = engine_.cache();
    if (best != nullptr) {
        CELLAR_TRY(const int32_t until, length_to_fill(*branch));
        shared = std::min(shared, until);
    }
    CELLAR_TRY(const SeqId seq, best != nullptr ? cache.fork(best->seq, shared) : cache.open());
    auto out = fill(*branch, seq);
    if (!out) cache.close(seq);
    return out;
}

Session::Content Session::describe(SeqId seq) const {
    const kv::Cache& cache = engine_.cache();
    const kv::Interval all{0, cache.length(seq)};
    Content out;
    out.tokens.resize(static_cast<size_t>(all.hi));
    cache.copy_tokens(seq, all, out.tokens);
    for (size_t g = 0; g < cache.spec().groups.size(); ++g) add_runs_within(cache.runs(seq, static_cast<int>(g)), all, out.runs.emplace_back());
    out.pure = cache.pure(seq);
    return out;
}

int32_t Session::common_tokens(const Stored& stored, const Content& wanted) const {
    for (const Part& part : stored.parts) {
        const PieceContent& piece = pieces_.at(part.piece);
        for (int32_t at = part.lo; at < part.hi; ++at) {
            const auto i = static_cast<size_t>(at);
            if (i >= wanted.tokens.size() || wanted.tokens[i] != piece.tokens[static_cast<size_t>(at - piece.positions.lo)]) return at;
        }
    }
    return stored.length();
}

// How many positions from the first on have the same rows here and there.
int32_t Session::common_rows(const Stored& stored, const Content& wanted, bool same_branch) const {
    int32_t n = common_tokens(stored, wanted);
    // Pure rows of the same tokens are the same rows, whoever computed them. Others are only known to be the same in the same branch.
    if (!same_branch || wanted.pure > stored.pure) n = std::min({n, stored.pure, wanted.pure});
    // What was removed or turned since then is another row. Rows that a window let go do no harm.
    for (size_t g = 0; g < wanted.runs.size(); ++g) {
        const int32_t first = wanted.runs[g].empty() ? 0 : wanted.runs[g].front().pos;
        std::vector<kv::Run> old;
        for (const Part& part : stored.parts) add_runs_within(pieces_.at(part.piece).runs[g], {std::max(part.lo, first), part.hi}, old);
        n = std::min(n, same_until(old, wanted.runs[g]));
    }
    return n;
}

// How many positions from the first on stand in the file as they are wanted.
int32_t Session::reusable(const Stored& stored, const Content& wanted, bool same_branch) const {
    int32_t n = common_rows(stored, wanted, same_branch);
    for (const Part& part : stored.parts)
        if (!pieces_.at(part.piece).own_format) n = std::min(n, part.lo);
    return n;
}

// How many positions of a branch an open one holds: as the pure rows that they are, or since both come from the same pieces.
int32_t Session::shareable(const Stored& stored, const OpenBranch& open) const {
    const Content now = describe(open.seq);
    const int32_t pure = reusable(stored, now, false);
    const auto other = stored_.find(open.name);
    if (other == stored_.end()) return pure;
    int32_t same = 0;
    for (size_t i = 0; i < std::min(stored.parts.size(), other->second.parts.size()); ++i) {
        const Part& a = stored.parts[i];
        const Part& b = other->second.parts[i];
        if (a.piece != b.piece) break;
        same = std::min(a.hi, b.hi);
        if (a.hi != b.hi) break;
    }
    return std::max(pure, std::min(same, common_rows(other->second, now, true)));
}

// Takes over the parts of [0, reuse). A piece of which little is used would keep the rest of it in the file; it is then better written anew,
// unless another branch needs it.
void Session::reuse_parts(const Stored& from, int32_t reuse, int32_t length, const std::map<std::string, Stored>& saved, Stored& to) const {
    const auto needed_elsewhere = [&](uint64_t piece) {
        return std::any_of(saved.begin(), saved.end(), [&](const auto& other) {
            return std::any_of(other.second.parts.begin(), other.second.parts.end(), [&](const Part& part) { return part.piece == piece; });
        });
    };
    int64_t waste = 0;
    for (Part part : from.parts) {
        if (part.lo >= reuse) break;
        part.hi = std::min(part.hi, reuse);
        if (!needed_elsewhere(part.piece)) waste += pieces_.at(part.piece).positions.length() - (part.hi - part.lo);
        if (waste * static_cast<int64_t>(kDeadShare) > length) break;
        to.parts.push_back(part);
    }
}

Result<Session::Stored> Session::add_branch(SessionFile::Save& save, const Source& source, const std::map<std::string, Stored>& saved,
                                            Saved& report) {
    const kv::Cache& cache = engine_.cache();
    Content wanted = describe(*source.seq);
    const Stored* best = nullptr;
    int32_t reuse = 0;
    for (const auto* candidates : {&std::as_const(stored_), &saved}) {
        for (const auto& [name, stored] : *candidates) {
            const int32_t n = reusable(stored, wanted, name == source.name);
            if (n > reuse) {
                reuse = n;
                best = &stored;
            }
        }
    }
    const int32_t length = cache.length(*source.seq);
    Stored out;
    out.pure = wanted.pure;
    if (best != nullptr) reuse_parts(*best, reuse, length, saved, out);
    const kv::Interval rest{out.length(), length};
    if (rest.length() == 0) return out;
    const uint64_t bytes = kv::piece_bytes(cache, *source.seq, rest);
    CELLAR_TRY(const uint64_t id, save.add(SectionKind::Piece, bytes,
                                           [&](const SessionFile::Save::Sink& sink) { return kv::write_piece(cache, *source.seq, rest, sink); }));
    PieceContent piece;
    piece.positions = rest;
    piece.tokens.assign(wanted.tokens.begin() + rest.lo, wanted.tokens.end());
    for (const std::vector<kv::Run>& runs : wanted.runs) add_runs_within(runs, rest, piece.runs.emplace_back());
    piece.own_format = true;
    pieces_[id] = std::move(piece);
    out.parts.push_back({id, rest.lo, rest.hi});
    report.tokens_written += rest.length();
    report.bytes_written += bytes;
    return out;
}

void Session::forget_unused_pieces() {
    std::set<uint64_t> used;
    for (const auto& [name, stored] : stored_)
        for (const Part& part : stored.parts) used.insert(part.piece);
    std::erase_if(pieces_, [&](const auto& piece) { return !used.contains(piece.first); });
}

Result<Session::Saved> Session::save(std::span<const Source> sources) {
    auto out = write(sources);
    forget_unused_pieces();
    if (!out) return out;
    out->note = file_->take_note();
    // What was saved is saved; without room for a second copy the file stays larger than it need be, and the next save tries again.
    if (file_->dead_bytes() > kSmallFile && file_->dead_bytes() > file_->file_bytes() / kDeadShare) out->rewritten = file_->rewrite().has_value();
    out->file_bytes = file_->file_bytes();
    return out;
}

Result<Session::Saved> Session::write(std::span<const Source> sources) {
    Saved report;
    std::map<std::string, Stored> saved;
    std::vector<Branch> branches;
    std::vector<SessionBranch> directory;
    SessionFile::Save save = file_->begin();
    CELLAR_TRY(const uint64_t model, save.add(SectionKind::Model, model_content(mine_)));
    std::vector<uint64_t> alive{model};
    for (const Source& source : sources) {
        const Branch* kept = source.seq ? nullptr : find(source.name);
        CHECK(source.seq || kept != nullptr);
        Stored stored;
        Branch branch;
        if (kept != nullptr) {
            stored = stored_.at(source.name);
            branch = *kept;
            branch.pure = std::min(branch.pure, branch.held);
        } else {
            CELLAR_TRY(stored, add_branch(save, source, saved, report));
            branch = {source.name, 0, stored.pure, 0, source.host, mine_.at("numbers")};
        }
        branch.length = branch.held = stored.length();
        CELLAR_TRY(const uint64_t host, save.add(SectionKind::Host, std::as_bytes(std::span(branch.host))));
        alive.push_back(host);
        for (const Part& part : stored.parts) alive.push_back(part.piece);
        directory.push_back({branch.name, branch.numbers, branch.length, branch.pure, host, stored.parts});
        branches.push_back(std::move(branch));
        saved[source.name] = std::move(stored);
    }
    CELLAR_TRY(const uint64_t list, save.add(SectionKind::Branches, branches_content(directory)));
    alive.push_back(list);
    CELLAR_TRY_VOID(save.commit(alive));
    stored_ = std::move(saved);
    branches_ = std::move(branches);
    return report;
}

}  // namespace cellar
