#include "engine/session.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/check.h"
#include "kv/snapshot.h"

namespace cellar {
namespace {

// A file is written anew when more of it than this is dead.
constexpr uint64_t kDeadShare = 8;
constexpr uint64_t kSmallFile = 64 << 10;

Result<std::string> read_text(ByteReader& in, std::string_view field) {
    CELLAR_TRY(const uint32_t size, in.read<uint32_t>(field));
    CELLAR_TRY(const std::string_view text, in.take_text(size, field));
    return std::string(text);
}

// A few bytes of every tensor: another model, or other weights of the same one, hash differently.
uint64_t weight_hash(const gguf::File& file) {
    constexpr size_t kSamples = 16;
    constexpr size_t kSample = 64;
    uint64_t hash = 0;
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        hash = XXH3_64bits_withSeed(tensor.name.data(), tensor.name.size(), hash);
        const auto type = static_cast<uint64_t>(tensor.type);
        hash = XXH3_64bits_withSeed(&type, sizeof type, hash);
        hash = XXH3_64bits_withSeed(tensor.dims.data(), sizeof tensor.dims, hash);
        for (size_t i = 0; i < kSamples; ++i) {
            const size_t at = tensor.bytes <= kSample ? 0 : (tensor.bytes - kSample) / (kSamples - 1) * i;
            hash = XXH3_64bits_withSeed(tensor.data + at, std::min(kSample, tensor.bytes), hash);
        }
    }
    return hash;
}

bool decides_use(const std::string& name) {
    return !name.starts_with("format.") && name != "numbers";
}

std::vector<kv::Run> without_cells(std::span<const kv::Run> runs) {
    std::vector<kv::Run> out;
    for (kv::Run run : runs) {
        run.cell = 0;
        if (!out.empty() && out.back().end() == run.pos && out.back().turn == run.turn) {
            out.back().len += run.len;
        } else {
            out.push_back(run);
        }
    }
    return out;
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

}  // namespace

Fingerprint fingerprint(const Engine& engine) {
    const model::Model& model = engine.model();
    const model::Config& c = model.config();
    Fingerprint out;
    out["architecture"] = c.architecture;
    out["layers"] = fmt::to_string(c.layers);
    out["embedding"] = fmt::to_string(c.embedding);
    out["vocabulary"] = fmt::to_string(c.vocabulary);
    uint64_t keys = 0;
    for (const gguf::Key& key : model.file().keys()) {
        if (!key.name.starts_with(c.architecture + ".") || key.name.ends_with(".context_length")) continue;
        keys = XXH3_64bits_withSeed(key.name.data(), key.name.size(), keys);
        keys = XXH3_64bits_withSeed(key.data, key.bytes, keys);
    }
    out["keys"] = fmt::format("{:016x}", keys);
    out["weights"] = fmt::format("{:016x}", weight_hash(model.file()));
    for (size_t i = 0; i < engine.ropes().size(); ++i) {
        const model::Rope& rope = engine.ropes()[i];
        const uint64_t hash = XXH3_64bits(rope.frequency.data(), rope.frequency.size() * sizeof(double));
        out[fmt::format("rope.{}", i)] = fmt::format("{:016x} {:a}", hash, rope.magnitude);
    }
    const kv::CacheSpec& spec = engine.cache().spec();
    for (size_t g = 0; g < spec.groups.size(); ++g) {
        const kv::GroupSpec& group = spec.groups[g];
        std::string rows =
            fmt::format("keeps {} {} {}, {} layers", static_cast<int>(group.keep.kind), group.keep.size, group.keep.sinks, group.planes);
        for (const kv::RowSpec& row : group.rows) {
            rows += fmt::format(", {} {}x{}", row.name, row.heads, row.width);
            out[fmt::format("format.{}.{}", g, row.name)] = std::string(kv::name(row.format));
        }
        out[fmt::format("rows.{}", g)] = rows;
    }
    out["numbers"] = engine.options().reference_kernels ? "reference" : std::string(ops::cpu_target());
    return out;
}

Result<std::unique_ptr<Session>> Session::open(const std::string& path, Engine& engine) {
    CELLAR_TRY(auto file, SessionFile::open(path));
    std::unique_ptr<Session> out(new Session(engine, std::move(file)));
    out->mine_ = fingerprint(engine);
    if (!out->file_->is_new()) CELLAR_TRY_VOID(out->read());
    return out;
}

const Session::Branch* Session::find(const std::string& name) const {
    const auto found = std::find_if(branches_.begin(), branches_.end(), [&](const Branch& b) { return b.name == name; });
    return found == branches_.end() ? nullptr : &*found;
}

Result<void> Session::read() {
    Fingerprint theirs;
    const Section* directory = nullptr;
    const Section* about = nullptr;
    for (const auto& [id, section] : file_->sections()) {
        if (section.kind == SectionKind::Branches) directory = &section;
        if (section.kind == SectionKind::Model) about = &section;
    }
    if (directory == nullptr || about == nullptr) return fail("{}: it lacks its directory", path());
    ByteReader model(file_->content(about->id), path());
    CELLAR_TRY(const uint32_t entries, model.read<uint32_t>("model"));
    for (uint32_t i = 0; i < entries; ++i) {
        CELLAR_TRY(const std::string name, read_text(model, "model"));
        CELLAR_TRY(std::string value, read_text(model, "model"));
        theirs[name] = std::move(value);
    }
    for (const auto& [name, value] : mine_) {
        if (!decides_use(name)) continue;
        const auto found = theirs.find(name);
        const std::string other = found == theirs.end() ? "nothing" : found->second;
        if (other != value) return fail("{}: it was saved with another model: {} is '{}' there and '{}' here", path(), name, other, value);
    }
    ByteReader in(file_->content(directory->id), path());
    CELLAR_TRY(const uint32_t count, in.read<uint32_t>("branches"));
    for (uint32_t i = 0; i < count; ++i) {
        Branch branch;
        CELLAR_TRY(branch.name, read_text(in, "branch name"));
        CELLAR_TRY(branch.numbers, read_text(in, "numeric path"));
        CELLAR_TRY(const uint32_t length, in.read<uint32_t>("branch length"));
        CELLAR_TRY(const uint32_t pure, in.read<uint32_t>("branch purity"));
        CELLAR_TRY(const uint64_t host, in.read<uint64_t>("host state"));
        CELLAR_TRY(const uint32_t parts, in.read<uint32_t>("parts"));
        if (length > (uint32_t{1} << 30) || pure > length)
            return fail("{}: branch '{}' has {} tokens, {} of them pure", path(), branch.name, length, pure);
        branch.length = static_cast<int32_t>(length);
        branch.pure = static_cast<int32_t>(pure);
        const auto host_section = file_->sections().find(host);
        if (host_section == file_->sections().end() || host_section->second.kind != SectionKind::Host)
            return fail("{}: branch '{}' lacks its host state", path(), branch.name);
        const auto text = file_->content(host);
        branch.host.assign(reinterpret_cast<const char*>(text.data()), text.size());
        Stored stored;
        stored.pure = branch.pure;
        int32_t reached = 0;
        for (uint32_t p = 0; p < parts; ++p) {
            Part part;
            CELLAR_TRY(part.piece, in.read<uint64_t>("piece"));
            CELLAR_TRY(part.lo, in.read<int32_t>("part"));
            CELLAR_TRY(part.hi, in.read<int32_t>("part"));
            const auto section = file_->sections().find(part.piece);
            if (section == file_->sections().end() || section->second.kind != SectionKind::Piece || part.lo != reached || part.hi <= part.lo)
                return fail("{}: branch '{}': its part {} is not where it should be", path(), branch.name, p);
            // Everything is looked at now, before anything is used.
            CELLAR_TRY(const kv::Piece piece, kv::parse_piece(file_->content(part.piece), path(), engine_.cache().spec()));
            if (part.lo < piece.positions.lo || part.hi > piece.positions.hi)
                return fail("{}: branch '{}': its part {} is not in its piece", path(), branch.name, p);
            const int64_t vocabulary = engine_.model().config().vocabulary;
            for (const Token& token : piece.tokens)
                if (token.id < 0 || token.id >= vocabulary) return fail("{}: token {} is outside the vocabulary of {}", path(), token.id, vocabulary);
            for (int32_t at = part.lo; at < part.hi; ++at) stored.tokens.push_back(piece.tokens[static_cast<size_t>(at - piece.positions.lo)]);
            part.unused = piece.positions.length() - (part.hi - part.lo);
            stored.parts.push_back(part);
            reached = part.hi;
        }
        if (reached != branch.length) return fail("{}: branch '{}' has {} tokens, but parts for {}", path(), branch.name, branch.length, reached);
        stored_[branch.name] = std::move(stored);
        branches_.push_back(std::move(branch));
    }
    return {};
}

Result<Session::Restored> Session::restore(const std::string& name, SeqId seq) {
    kv::Cache& cache = engine_.cache();
    CHECK_EQ(cache.length(seq), 0);
    const Branch* branch = find(name);
    if (branch == nullptr) return fail("{}: there is no branch '{}'", path(), name);
    const int32_t length = branch->length;
    if (length > engine_.context())
        return fail(ErrorKind::Full, "{}: branch '{}' has {} tokens, but the context holds {}: raise --ctx", path(), name, length, engine_.context());
    Restored out;
    Stored& stored = stored_[name];
    for (const Part& part : stored.parts) {
        auto piece = kv::parse_piece(file_->content(part.piece), path(), cache.spec());
        if (!piece) return pass(std::move(piece));
        out.converted = out.converted || kv::converts(*piece, cache.spec());
        if (auto done = kv::append_piece(cache, seq, *piece, part.hi); !done) {
            cache.trim(seq, 0);
            return pass(std::move(done));
        }
    }
    out.other_numbers = branch->numbers != mine_.at("numbers");
    cache.colour(seq, out.coloured() ? 0 : branch->pure);
    out.length = length;
    if (!out.coloured()) {
        Stored now = describe(seq);
        now.parts = stored.parts;
        now.own_format = true;
        stored = std::move(now);
    }
    return out;
}

Session::Stored Session::describe(SeqId seq) const {
    const kv::Cache& cache = engine_.cache();
    Stored out;
    out.tokens.resize(static_cast<size_t>(cache.length(seq)));
    cache.copy_tokens(seq, {0, cache.length(seq)}, out.tokens);
    for (size_t g = 0; g < cache.spec().groups.size(); ++g) out.runs.push_back(without_cells(cache.runs(seq, static_cast<int>(g))));
    out.pure = cache.pure(seq);
    return out;
}

// How many positions from the first on stand in the file as they are wanted.
int32_t Session::reusable(const Stored& stored, const Stored& wanted, bool same_branch) {
    if (!stored.own_format) return 0;
    const auto common = std::mismatch(stored.tokens.begin(), stored.tokens.end(), wanted.tokens.begin(), wanted.tokens.end());
    auto n = static_cast<int32_t>(common.first - stored.tokens.begin());
    // Pure rows of the same tokens are the same rows, whoever computed them. Others are only known to be the same in the same branch.
    if (!same_branch || wanted.pure > stored.pure) n = std::min({n, stored.pure, wanted.pure});
    // What was removed or turned since then has to be written as it is now. Rows that a window let go do no harm.
    for (size_t g = 0; g < wanted.runs.size(); ++g) {
        std::vector<kv::Run> old = stored.runs[g];
        if (!wanted.runs[g].empty()) {
            const int32_t first = wanted.runs[g].front().pos;
            std::erase_if(old, [&](const kv::Run& run) { return run.end() <= first; });
            if (!old.empty() && old.front().pos < first) {
                old.front().len -= first - old.front().pos;
                old.front().pos = first;
            }
        }
        int32_t until = same_until(old, wanted.runs[g]);
        n = std::min(n, until);
    }
    return n;
}

Result<Session::Stored> Session::add_branch(SessionFile::Save& save, const Source& source, const std::map<std::string, Stored>& saved,
                                            Saved& report) {
    const kv::Cache& cache = engine_.cache();
    Stored wanted = describe(*source.seq);
    wanted.own_format = true;
    const Stored* best = nullptr;
    int32_t reuse = 0;
    const auto consider = [&](const std::map<std::string, Stored>& candidates) {
        for (const auto& [name, stored] : candidates) {
            const int32_t n = reusable(stored, wanted, name == source.name);
            if (n > reuse) {
                reuse = n;
                best = &stored;
            }
        }
    };
    consider(stored_);
    consider(saved);
    const int32_t length = cache.length(*source.seq);
    if (best != nullptr) {
        // A piece of which little is used would keep the rest of it in the file. It is then better written anew, unless another branch needs it.
        const auto needed_elsewhere = [&](uint64_t piece) {
            return std::any_of(saved.begin(), saved.end(), [&](const auto& other) {
                return std::any_of(other.second.parts.begin(), other.second.parts.end(), [&](const Part& part) { return part.piece == piece; });
            });
        };
        int64_t waste = 0;
        for (Part part : best->parts) {
            if (part.lo >= reuse) break;
            part.unused += std::max(0, part.hi - reuse);
            part.hi = std::min(part.hi, reuse);
            if (!needed_elsewhere(part.piece)) waste += part.unused;
            if (waste * static_cast<int64_t>(kDeadShare) > length) {
                reuse = part.lo;
                break;
            }
            wanted.parts.push_back(part);
        }
    }
    if (reuse < length) {
        const kv::Interval rest{reuse, length};
        const uint64_t bytes = kv::piece_bytes(cache, *source.seq, rest);
        CELLAR_TRY(const uint64_t piece, save.add(SectionKind::Piece, bytes, [&](const SessionFile::Save::Sink& sink) {
            return kv::write_piece(cache, *source.seq, rest, sink);
        }));
        wanted.parts.push_back({piece, reuse, length, 0});
        report.tokens_written += length - reuse;
        report.bytes_written += bytes;
    }
    return wanted;
}

Result<Session::Saved> Session::save(std::span<const Source> sources) {
    Saved report;
    std::map<std::string, Stored> saved;
    std::vector<Branch> branches;
    std::vector<uint64_t> alive;
    {
        SessionFile::Save save = file_->begin();
        ByteWriter about;
        about.add(static_cast<uint32_t>(mine_.size()));
        for (const auto& [name, value] : mine_) {
            about.add_text(name);
            about.add_text(value);
        }
        CELLAR_TRY(const uint64_t model, save.add(SectionKind::Model, about.view()));
        alive.push_back(model);
        ByteWriter directory;
        directory.add(static_cast<uint32_t>(sources.size()));
        for (const Source& source : sources) {
            const Branch* kept = source.seq ? nullptr : find(source.name);
            CHECK(source.seq || kept != nullptr);
            Stored stored;
            if (kept != nullptr) {
                stored = stored_[source.name];
            } else {
                CELLAR_TRY(stored, add_branch(save, source, saved, report));
            }
            const std::string& text = kept != nullptr ? kept->host : source.host;
            const std::string& numbers = kept != nullptr ? kept->numbers : mine_.at("numbers");
            CELLAR_TRY(const uint64_t host, save.add(SectionKind::Host, std::as_bytes(std::span(text))));
            alive.push_back(host);
            directory.add_text(source.name);
            directory.add_text(numbers);
            directory.add(static_cast<uint32_t>(stored.tokens.size()));
            directory.add(static_cast<uint32_t>(stored.pure));
            directory.add(host);
            directory.add(static_cast<uint32_t>(stored.parts.size()));
            for (const Part& part : stored.parts) {
                directory.add(part.piece);
                directory.add(part.lo);
                directory.add(part.hi);
                alive.push_back(part.piece);
            }
            branches.push_back({source.name, static_cast<int32_t>(stored.tokens.size()), stored.pure, text, numbers});
            saved[source.name] = std::move(stored);
        }
        CELLAR_TRY(const uint64_t list, save.add(SectionKind::Branches, directory.view()));
        alive.push_back(list);
        CELLAR_TRY_VOID(save.commit(alive));
    }
    stored_ = std::move(saved);
    branches_ = std::move(branches);
    // What was saved is saved; without room for a second copy the file stays larger than it need be, and the next save tries again.
    if (file_->dead_bytes() > kSmallFile && file_->dead_bytes() > file_->file_bytes() / kDeadShare) report.rewritten = file_->rewrite().has_value();
    report.file_bytes = file_->file_bytes();
    return report;
}

}  // namespace cellar
