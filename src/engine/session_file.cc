#include "engine/session_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"

namespace cellar {
namespace {

constexpr char kMagic[8] = {'C', 'E', 'L', 'L', 'A', 'R', '\x1a', 'S'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kHeaderBytes = 64;
constexpr uint64_t kSectionHeaderBytes = 40;
constexpr uint64_t kCommitEntryBytes = 40;

uint64_t padded(uint64_t bytes) {
    return (bytes + 7) / 8 * 8;
}

tl::unexpected<Error> system_error(const std::string& path, const char* what, int error) {
    return fail(error == ENOSPC ? ErrorKind::Full : ErrorKind::System, "{}: {}: {}", path, what, std::strerror(error));
}

std::vector<std::byte> file_header() {
    ByteWriter out;
    out.add_bytes(std::as_bytes(std::span(kMagic)));
    out.add(kVersion);
    out.add(static_cast<uint32_t>(kHeaderBytes));
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

// The section whose header stands at this offset, if one does and its content ends within the file.
std::optional<Section> section_at(std::span<const std::byte> file, uint64_t offset) {
    if (offset > file.size() || file.size() - offset < kSectionHeaderBytes) return std::nullopt;
    const std::byte* at = file.data() + offset;
    uint32_t kind = 0;
    uint64_t sum = 0;
    Section out;
    std::memcpy(&kind, at, 4);
    std::memcpy(&out.id, at + 8, 8);
    std::memcpy(&out.length, at + 16, 8);
    std::memcpy(&out.checksum, at + 24, 8);
    std::memcpy(&sum, at + 32, 8);
    if (XXH3_64bits(at, 32) != sum) return std::nullopt;
    if (out.length > file.size() - offset - kSectionHeaderBytes) return std::nullopt;
    out.kind = static_cast<SectionKind>(kind);
    out.offset = offset;
    return out;
}

std::span<const std::byte> content_of(std::span<const std::byte> file, const Section& section) {
    return file.subspan(section.offset + kSectionHeaderBytes, section.length);
}

bool verifies(std::span<const std::byte> file, const Section& section) {
    const auto content = content_of(file, section);
    return XXH3_64bits(content.data(), content.size()) == section.checksum;
}

struct Commit {
    Section section;
    uint64_t saves = 0;
    std::vector<Section> alive;
};

std::optional<Commit> read_commit(std::span<const std::byte> file, const Section& section) {
    if (!verifies(file, section)) return std::nullopt;
    ByteReader in(content_of(file, section), "commit");
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

// Everything that a commit names is where it says, and whole.
bool holds(std::span<const std::byte> file, const Commit& commit) {
    return std::all_of(commit.alive.begin(), commit.alive.end(), [&](const Section& s) {
        const auto found = section_at(file, s.offset);
        return found && found->offset < commit.section.offset && found->id == s.id && found->kind == s.kind && found->length == s.length &&
               found->checksum == s.checksum && verifies(file, *found);
    });
}

std::string folder_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

SessionFile::~SessionFile() {
    unmap();
    if (fd_ >= 0) close(fd_);
}

void SessionFile::unmap() {
    if (map_ != nullptr) munmap(const_cast<std::byte*>(map_), mapped_);
    map_ = nullptr;
    mapped_ = 0;
}

Result<void> SessionFile::map() {
    struct stat info {};
    if (fstat(fd_, &info) != 0) return system_error(path_, "cannot be read", errno);
    if (info.st_size == 0) return unmap(), Result<void>{};
    void* at = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd_, 0);
    if (at == MAP_FAILED) return system_error(path_, "cannot be mapped", errno);
    unmap();
    map_ = static_cast<const std::byte*>(at);
    mapped_ = static_cast<size_t>(info.st_size);
    return {};
}

Result<std::unique_ptr<SessionFile>> SessionFile::open(const std::string& path) {
    if (path.empty()) return fail("a session needs a file name");
    std::unique_ptr<SessionFile> out(new SessionFile(path));
    struct stat link {};
    if (lstat(path.c_str(), &link) != 0) {
        if (errno != ENOENT) return system_error(path, "cannot be opened", errno);
        return out;
    }
    if (S_ISLNK(link.st_mode)) {
        if (link.st_uid != geteuid()) return fail("{}: it is a link that belongs to another user, which is not followed", path);
        char real[PATH_MAX];
        if (realpath(path.c_str(), real) == nullptr) return system_error(path, "the link leads nowhere", errno);
        out->path_ = real;
    }
    out->fd_ = ::open(out->path_.c_str(), O_RDWR | O_CLOEXEC);
    if (out->fd_ < 0) return system_error(path, "cannot be opened", errno);
    struct stat info {};
    if (fstat(out->fd_, &info) != 0) return system_error(path, "cannot be opened", errno);
    if (!S_ISREG(info.st_mode)) return fail("{}: it is no regular file", path);
    struct stat named {};
    const bool locked = flock(out->fd_, LOCK_EX | LOCK_NB) == 0;
    // Whoever had the lock may have put another file in the place of the one that was opened here.
    const bool same = stat(out->path_.c_str(), &named) == 0 && named.st_dev == info.st_dev && named.st_ino == info.st_ino;
    if (!locked || !same) return fail(ErrorKind::System, "{}: another process has this session open", path);
    CELLAR_TRY_VOID(out->read());
    return out;
}

Result<void> SessionFile::read() {
    CELLAR_TRY_VOID(map());
    const std::span<const std::byte> file(map_, mapped_);
    if (file.size() < kHeaderBytes || std::memcmp(file.data(), kMagic, sizeof kMagic) != 0) return fail("{}: it is no session file", path_);
    uint32_t version = 0;
    std::memcpy(&version, file.data() + 8, 4);
    if (version != kVersion) return fail("{}: it is a session file of version {}, this program reads version {}", path_, version, kVersion);
    const std::vector<std::byte> header = file_header();
    if (std::memcmp(file.data(), header.data(), header.size()) != 0) return fail("{}: its header is damaged", path_);
    std::vector<Commit> commits;
    uint64_t at = kHeaderBytes;
    while (const auto section = section_at(file, at)) {
        if (section->id >= uint64_t{1} << 62) break;
        next_id_ = std::max(next_id_, section->id + 1);
        if (section->kind == SectionKind::Commit)
            if (auto commit = read_commit(file, *section)) commits.push_back(*std::move(commit));
        at += kSectionHeaderBytes + padded(section->length);
    }
    while (!commits.empty() && !holds(file, commits.back())) commits.pop_back();
    if (commits.empty()) return fail("{}: none of its saved states is whole", path_);
    const Commit& last = commits.back();
    for (const Section& section : last.alive) sections_[section.id] = section;
    saves_ = last.saves;
    end_ = last.section.offset + kSectionHeaderBytes + padded(last.section.length);
    unread_ = file.size() - end_;
    exists_ = true;
    return {};
}

std::span<const std::byte> SessionFile::content(uint64_t id) const {
    const auto found = sections_.find(id);
    CHECK(found != sections_.end());
    return content_of({map_, mapped_}, found->second);
}

uint64_t SessionFile::dead_bytes() const {
    uint64_t alive = kHeaderBytes + kSectionHeaderBytes + 16 + kCommitEntryBytes * sections_.size();
    for (const auto& [id, section] : sections_) alive += kSectionHeaderBytes + padded(section.length);
    return end_ > alive ? end_ - alive : 0;
}

Result<void> SessionFile::write_at(int fd, uint64_t offset, std::span<const std::byte> bytes) const {
    int injected = 0;
    if (fault_) {
        const Fault fault = fault_(bytes.size());
        injected = fault.error;
        bytes = bytes.first(std::min(bytes.size(), fault.allowed));
    }
    while (!bytes.empty()) {
        const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return system_error(path_, "cannot be written", n == 0 ? ENOSPC : errno);
        bytes = bytes.subspan(static_cast<size_t>(n));
        offset += static_cast<uint64_t>(n);
    }
    if (injected != 0) return system_error(path_, "cannot be written", injected);
    return {};
}

Result<void> SessionFile::sync(int fd) const {
    if (fault_) {
        if (const Fault fault = fault_(0); fault.error != 0) return system_error(path_, "cannot be synced", fault.error);
    }
    if (fdatasync(fd) != 0) return system_error(path_, "cannot be synced", errno);
    return {};
}

Result<int> SessionFile::create_beside(std::string& name) const {
    name = path_ + ".new-XXXXXX";
    const int fd = mkostemp(name.data(), O_CLOEXEC);
    if (fd < 0) return system_error(path_, "cannot be created", errno);
    if (fchmod(fd, 0600) != 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        const int error = errno;
        close(fd);
        unlink(name.c_str());
        return system_error(path_, "cannot be created", error);
    }
    return fd;
}

// A finished temporary file takes the session's name, and its place here.
Result<void> SessionFile::publish(int fd, const std::string& temporary) {
    // A first save takes the name only if nobody else has it by now.
    const unsigned flags = exists_ ? 0 : RENAME_NOREPLACE;
    if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path_.c_str(), flags) != 0) {
        if (errno == EEXIST) return fail("{}: another process has made this file meanwhile; choose another name", path_);
        return system_error(path_, "cannot be renamed into place", errno);
    }
    const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
    if (fd_ >= 0 && fd_ != fd) close(fd_);
    fd_ = fd;
    exists_ = true;
    return {};
}

Result<uint64_t> SessionFile::Save::add(SectionKind kind, uint64_t length, const std::function<Result<void>(const Sink&)>& write) {
    if (failed_) return tl::unexpected<Error>(*failed_);
    const auto remember = [&](Result<void> result) -> Result<void> {
        if (!result) failed_ = result.error();
        return result;
    };
    if (file_.fd_ < 0) {
        auto fd = file_.create_beside(temporary_);
        if (!fd) return failed_ = fd.error(), pass(std::move(fd));
        file_.fd_ = *fd;
        CELLAR_TRY_VOID(remember(file_.write_at(file_.fd_, 0, file_header())));
        end_ = kHeaderBytes;
    } else if (added_.empty() && ftruncate(file_.fd_, static_cast<off_t>(end_)) != 0) {
        // What a save that failed left behind the last commit.
        CELLAR_TRY_VOID(remember(system_error(file_.path_, "cannot be shortened", errno)));
    }
    Section section;
    section.kind = kind;
    section.id = next_id_;
    section.offset = end_;
    section.length = length;
    std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(), XXH3_freeState);
    XXH3_64bits_reset(hash.get());
    // Small writes are gathered: a system call for each row would cost more than the bytes.
    constexpr size_t kGather = size_t{1} << 20;
    std::vector<std::byte> gathered;
    uint64_t at = end_ + kSectionHeaderBytes;
    const auto flush = [&]() -> Result<void> {
        CELLAR_TRY_VOID(file_.write_at(file_.fd_, at, gathered));
        at += gathered.size();
        gathered.clear();
        return {};
    };
    uint64_t seen = 0;
    CELLAR_TRY_VOID(remember(write([&](std::span<const std::byte> part) -> Result<void> {
        seen += part.size();
        CHECK_LE(seen, length);
        XXH3_64bits_update(hash.get(), part.data(), part.size());
        gathered.insert(gathered.end(), part.begin(), part.end());
        return gathered.size() >= kGather ? flush() : Result<void>{};
    })));
    CHECK_EQ(seen, length);
    gathered.resize(gathered.size() + (padded(length) - length));
    CELLAR_TRY_VOID(remember(flush()));
    section.checksum = XXH3_64bits_digest(hash.get());
    CELLAR_TRY_VOID(remember(file_.write_at(file_.fd_, section.offset, section_header(section))));
    end_ += kSectionHeaderBytes + padded(length);
    ++next_id_;
    added_[section.id] = section;
    return section.id;
}

Result<uint64_t> SessionFile::Save::add(SectionKind kind, std::span<const std::byte> content) {
    return add(kind, content.size(), [&](const Sink& sink) { return sink(content); });
}

Result<void> SessionFile::Save::commit(std::span<const uint64_t> alive) {
    if (failed_) return tl::unexpected<Error>(*failed_);
    std::map<uint64_t, Section> state;
    for (const uint64_t id : alive) {
        const auto added = added_.find(id);
        const auto old = file_.sections_.find(id);
        CHECK(added != added_.end() || old != file_.sections_.end());
        state[id] = added != added_.end() ? added->second : old->second;
    }
    CHECK(file_.fd_ >= 0);
    CELLAR_TRY_VOID(file_.sync(file_.fd_));
    const std::vector<std::byte> content = commit_content(file_.saves_ + 1, state);
    CELLAR_TRY_VOID(add(SectionKind::Commit, content).map([](auto) {}));
    CELLAR_TRY_VOID(file_.sync(file_.fd_));
    if (!file_.exists_) CELLAR_TRY_VOID(file_.publish(file_.fd_, temporary_));
    temporary_.clear();
    CELLAR_TRY_VOID(file_.map());
    file_.sections_ = std::move(state);
    file_.end_ = end_;
    file_.next_id_ = next_id_;
    ++file_.saves_;
    return {};
}

SessionFile::Save::~Save() {
    if (temporary_.empty()) return;
    // A first save that did not end leaves nothing behind.
    unlink(temporary_.c_str());
    if (!file_.exists_) {
        close(file_.fd_);
        file_.fd_ = -1;
    }
}

Result<void> SessionFile::rewrite() {
    CHECK(exists_);
    std::string temporary;
    CELLAR_TRY(const int fd, create_beside(temporary));
    const auto copy = [&]() -> Result<std::pair<std::map<uint64_t, Section>, uint64_t>> {
        CELLAR_TRY_VOID(write_at(fd, 0, file_header()));
        std::map<uint64_t, Section> moved;
        uint64_t at = kHeaderBytes;
        const auto put = [&](Section section, std::span<const std::byte> content) -> Result<Section> {
            section.offset = at;
            CELLAR_TRY_VOID(write_at(fd, at, section_header(section)));
            CELLAR_TRY_VOID(write_at(fd, at + kSectionHeaderBytes, content));
            at += kSectionHeaderBytes + padded(section.length);
            return section;
        };
        for (const auto& [id, section] : sections_) {
            CELLAR_TRY(moved[id], put(section, content(id)));
        }
        CELLAR_TRY_VOID(sync(fd));
        const std::vector<std::byte> content = commit_content(saves_, moved);
        const Section commit{SectionKind::Commit, next_id_, 0, content.size(), XXH3_64bits(content.data(), content.size())};
        CELLAR_TRY_VOID(put(commit, content).map([](auto) {}));
        if (ftruncate(fd, static_cast<off_t>(at)) != 0) return system_error(path_, "cannot be written", errno);
        CELLAR_TRY_VOID(sync(fd));
        return std::pair{std::move(moved), at};
    };
    auto copied = copy();
    Result<void> published = copied ? publish(fd, temporary) : Result<void>(tl::unexpected<Error>(copied.error()));
    if (!published) {
        close(fd);
        unlink(temporary.c_str());
        return published;
    }
    sections_ = std::move(copied->first);
    end_ = copied->second;
    ++next_id_;
    return map();
}

}  // namespace cellar
