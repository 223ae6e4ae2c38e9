#include "engine/session_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/file.h"

namespace cellar {
namespace {

tl::unexpected<Error> system_error(const std::string& path, const char* what, int error) {
    return fail(error == ENOSPC ? ErrorKind::Full : ErrorKind::System, "{}: {}: {}", path, what, std::strerror(error));
}

std::string folder_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// Between the name of a session and six letters; nobody gives a file of his own such a name.
constexpr std::string_view kUnfinished = ".cellar-unfinished-";

// Nothing yet, or the beginning of a session: no other bytes are ever written under such a name.
bool may_be_session(int fd) {
    std::byte head[kSessionHeaderBytes];
    const ssize_t n = pread(fd, head, sizeof head, 0);
    return n == 0 || (n > 0 && is_session({head, static_cast<size_t>(n)}));
}

// A temporary file that is being written is locked by its writer; one that is not was left by a writer that died.
void remove_abandoned(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string stem = path.substr(slash == std::string::npos ? 0 : slash + 1).append(kUnfinished);
    DIR* folder = opendir(folder_of(path).c_str());
    if (folder == nullptr) return;
    while (const dirent* entry = readdir(folder)) {
        const std::string_view name = entry->d_name;
        if (!name.starts_with(stem) || name.size() != stem.size() + 6) continue;
        const int fd = openat(dirfd(folder), entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0) continue;
        struct stat info {};
        const bool ours = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() && may_be_session(fd);
        if (ours && flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(folder), entry->d_name, 0);
        close(fd);
    }
    closedir(folder);
}

// A session that is not there yet: better said now than after the first turn.
Result<void> check_can_be_made(const std::string& path) {
    struct stat info {};
    const std::string folder = folder_of(path);
    if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return fail("{}: there is no folder {}", path, folder);
    if (access(folder.c_str(), W_OK | X_OK) != 0) return system_error(path, "cannot be created", errno);
    // A save is written beside it first, under a longer name.
    const size_t slash = path.rfind('/');
    const size_t name = path.size() - (slash == std::string::npos ? 0 : slash + 1);
    const size_t most = NAME_MAX - kUnfinished.size() - 6;
    if (name > most) return fail("{}: a session's name may have {} bytes at most, and this has {}", path, most, name);
    return {};
}

enum class Place { Same, Gone, Another };

// What the name leads to now, beside the file that was opened under it.
Place place_of(const std::string& path, int fd) {
    struct stat opened {
    }, named{};
    if (stat(path.c_str(), &named) != 0) return Place::Gone;
    return fstat(fd, &opened) == 0 && opened.st_dev == named.st_dev && opened.st_ino == named.st_ino ? Place::Same : Place::Another;
}

}  // namespace

SessionFile::~SessionFile() {
    if (fd_ >= 0) close(fd_);
}

Result<SessionMap> SessionFile::map(int fd) const {
    if (fault_) {
        if (const Fault fault = fault_(0); fault.error != 0) return system_error(path_, "cannot be mapped", fault.error);
    }
    return SessionMap::make(path_, fd);
}

Result<std::unique_ptr<SessionFile>> SessionFile::open(const std::string& path, Reading reading, Access access) {
    if (path.empty()) return fail("a session needs a file name");
    std::unique_ptr<SessionFile> out(new SessionFile(path, access));
    struct stat link {};
    if (lstat(path.c_str(), &link) != 0) {
        if (errno != ENOENT || access == Access::Read) return system_error(path, "cannot be opened", errno);
        CELLAR_TRY_VOID(check_can_be_made(path));
        remove_abandoned(path);
        return out;
    }
    if (S_ISLNK(link.st_mode)) {
        if (link.st_uid != geteuid()) return fail("{}: it is a link that belongs to another user, which is not followed", path);
        char real[PATH_MAX];
        if (realpath(path.c_str(), real) == nullptr) return system_error(path, "the link leads nowhere", errno);
        out->path_ = real;
    }
    CELLAR_TRY_VOID(out->open_existing());
    if (access == Access::Write) remove_abandoned(out->path_);
    CELLAR_TRY_VOID(out->read(reading));
    return out;
}

Result<void> SessionFile::open_existing() {
    const bool writes = access_ == Access::Write;
    fd_ = ::open(path_.c_str(), (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) return system_error(path_, "cannot be opened", errno);
    struct stat info {};
    if (fstat(fd_, &info) != 0) return system_error(path_, "cannot be opened", errno);
    if (!S_ISREG(info.st_mode)) return fail("{}: it is no regular file", path_);
    // A reader may do without a lock where there are none, as on some file systems.
    const bool locked = flock(fd_, (writes ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0 || (!writes && errno != EWOULDBLOCK);
    // Whoever had the lock may have put another file in the place of the one that was opened here.
    if (!locked || place_of(path_, fd_) != Place::Same) return fail(ErrorKind::System, "{}: another process has this session open", path_);
    return {};
}

Result<void> SessionFile::check_writable() const {
    if (access_ == Access::Read) return fail(ErrorKind::System, "{}: it was opened to be read only", path_);
    return {};
}

Result<void> SessionFile::read(Reading reading) {
    CELLAR_TRY(map_, map(fd_));
    CELLAR_TRY(SessionState state, find_state(map_.bytes(), path_, reading));
    sections_ = std::move(state.alive);
    saves_ = state.saves;
    next_id_ = state.next_id;
    end_ = state.end;
    unread_ = map_.bytes().size() - end_;
    lost_saves_ = state.lost_saves;
    lost_pieces_ = state.lost_pieces;
    exists_ = true;
    remember_end();
    return {};
}

std::span<const std::byte> SessionFile::content(uint64_t id) const {
    const auto found = sections_.find(id);
    CHECK(found != sections_.end());
    return content_of(map_.bytes(), found->second);
}

uint64_t SessionFile::dead_bytes() const {
    uint64_t alive = kSessionHeaderBytes + kSectionHeaderBytes + 16 + kCommitEntryBytes * sections_.size();
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

// Who may read a file that takes the place of this one: whoever may now. A new one is its owner's alone.
bool SessionFile::set_access(int fd) const {
    struct stat now {
    }, made{};
    if (fd_ < 0) return fchmod(fd, 0600) == 0;
    if (fstat(fd_, &now) != 0 || fstat(fd, &made) != 0) return false;
    mode_t mode = now.st_mode & 0777;
    const bool same = made.st_uid == now.st_uid && made.st_gid == now.st_gid;
    // The rights of a group are not for another one.
    if (!same && fchown(fd, now.st_uid, now.st_gid) != 0 && fchown(fd, static_cast<uid_t>(-1), now.st_gid) != 0) mode &= ~mode_t{070};
    return fchmod(fd, mode) == 0;
}

Result<int> SessionFile::create_beside(std::string& name) const {
    for (int attempt = 0; attempt < 8; ++attempt) {
        name = fmt::format("{}{}XXXXXX", path_, kUnfinished);
        const int fd = mkostemp(name.data(), O_CLOEXEC);
        if (fd < 0) return system_error(path_, "cannot be created", errno);
        const bool ready = set_access(fd) && flock(fd, LOCK_EX | LOCK_NB) == 0;
        const int error = errno;
        // Before it was locked it may have looked abandoned to somebody who tidies up.
        if (ready && place_of(name, fd) == Place::Same) return fd;
        close(fd);
        if (ready || error == EWOULDBLOCK) continue;
        unlink(name.c_str());
        return system_error(path_, "cannot be created", error);
    }
    return fail(ErrorKind::System, "{}: cannot be created: somebody removes what is written beside it", path_);
}

// A finished temporary file takes the session's name, and its place here. Where it replaces nothing, it takes the name only if nobody
// else has it by now.
Result<void> SessionFile::publish(int fd, const std::string& temporary, bool replaces) {
    const int error = !replaces ? rename_to_free_name(temporary, path_) : std::rename(temporary.c_str(), path_.c_str()) != 0 ? errno : 0;
    if (error == EEXIST) return fail("{}: another process has made this file meanwhile; choose another name", path_);
    if (error != 0) return system_error(path_, "cannot be renamed into place", error);
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

// The last bytes of the state, to know the file again by.
void SessionFile::remember_end() {
    constexpr uint64_t kRemembered = 64;
    const std::span<const std::byte> state = map_.bytes().first(end_);
    last_bytes_.assign(state.end() - static_cast<std::ptrdiff_t>(std::min(kRemembered, end_)), state.end());
}

// The lock keeps other sessions away, not programs that know nothing of it.
Result<void> SessionFile::check_unchanged() const {
    struct stat info {};
    std::vector<std::byte> now(last_bytes_.size());
    const bool whole = fstat(fd_, &info) == 0 && static_cast<uint64_t>(info.st_size) >= end_ &&
                       pread(fd_, now.data(), now.size(), static_cast<off_t>(end_ - now.size())) == static_cast<ssize_t>(now.size());
    if (whole && now == last_bytes_) return {};
    return fail(ErrorKind::System,
                "{}: another program has changed it since it was opened (it has {} bytes, and had {} at least); nothing is written to it. Save under "
                "another name",
                path_, info.st_size, end_);
}

// Before anything is written: the name may lead elsewhere by now. What was opened is still there, as long as it is held open.
Result<void> SessionFile::look_after_place() {
    switch (place_of(path_, fd_)) {
        case Place::Same:
            return check_unchanged();
        case Place::Another:
            return fail(ErrorKind::System, "{}: another file has taken its place since it was opened, and is left alone; save under another name",
                        path_);
        case Place::Gone:
            break;
    }
    CELLAR_TRY_VOID(rewrite_over(false));
    note_ = fmt::format("{}: the file was deleted or moved away while it was in use; all of it is written anew", path_);
    return {};
}

// What cannot be read of the file may be worth something to somebody. Its bytes get another name, and the session a file of its own.
Result<void> SessionFile::set_aside_damaged() {
    const auto [aside, error] = set_aside(path_, "damaged", link_to_free_name);
    const bool damaged = lost_saves_ > 0 || lost_pieces_ > 0;
    if (error != 0)
        return system_error(
            path_,
            damaged ? "is damaged, and cannot be kept under another name" : "has more than is saved now, and cannot be kept under another name",
            error);
    if (auto written = rewrite_over(true); !written) {
        unlink(aside.c_str());  // the file itself is still there
        return written;
    }
    lost_saves_ = lost_pieces_ = unread_ = 0;
    keep_as_found_ = false;
    note_ = fmt::format("{}: the {} is kept as {}", path_, damaged ? "damaged file" : "file as it was, with all its turns,", aside);
    return {};
}

Result<void> SessionFile::Save::start() {
    CELLAR_TRY_VOID(file_.check_writable());
    if (file_.fd_ < 0) {
        CELLAR_TRY(file_.fd_, file_.create_beside(temporary_));
        end_ = kSessionHeaderBytes;
        return file_.write_at(file_.fd_, 0, session_header());
    }
    CELLAR_TRY_VOID(file_.look_after_place());
    if (file_.loses_something()) CELLAR_TRY_VOID(file_.set_aside_damaged());
    end_ = file_.end_;
    next_id_ = file_.next_id_;
    // What a save that failed left behind the last commit.
    if (ftruncate(file_.fd_, static_cast<off_t>(end_)) != 0) return system_error(file_.path_, "cannot be shortened", errno);
    return {};
}

Result<uint64_t> SessionFile::Save::add(SectionKind kind, uint64_t length, const std::function<Result<void>(const Sink&)>& write) {
    if (failed_) return tl::unexpected<Error>(*failed_);
    const auto remember = [&](Result<void> result) -> Result<void> {
        if (!result) failed_ = result.error();
        return result;
    };
    if (added_.empty()) CELLAR_TRY_VOID(remember(start()));
    Section section;
    section.kind = kind;
    section.id = next_id_;
    section.offset = end_;
    section.length = length;
    std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(), XXH3_freeState);
    XXH3_64bits_reset(hash.get());
    // Small parts are gathered: a system call for each row would cost more than the bytes. Large ones go out from where they lie.
    constexpr size_t kGather = size_t{64} << 10;
    std::vector<std::byte> gathered;
    gathered.reserve(std::min<uint64_t>(padded(length), 2 * kGather));
    uint64_t at = end_ + kSectionHeaderBytes;
    const auto flush = [&]() -> Result<void> {
        if (gathered.empty()) return {};
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
        if (part.size() >= kGather) {
            CELLAR_TRY_VOID(flush());
            CELLAR_TRY_VOID(file_.write_at(file_.fd_, at, part));
            at += part.size();
            return {};
        }
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
    // Before it has its name: a file that has one, but whose end is not known here, would be cut to nothing by the next save.
    CELLAR_TRY(SessionMap map, file_.map(file_.fd_));
    if (!file_.exists_) CELLAR_TRY_VOID(file_.publish(file_.fd_, temporary_, false));
    temporary_.clear();
    file_.map_ = std::move(map);
    file_.sections_ = std::move(state);
    file_.end_ = end_;
    file_.next_id_ = next_id_;
    file_.remember_end();
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
    CELLAR_TRY_VOID(check_writable());
    CELLAR_TRY_VOID(look_after_place());
    return loses_something() ? set_aside_damaged() : rewrite_over(true);
}

Result<void> SessionFile::rewrite_over(bool replaces) {
    std::string temporary;
    CELLAR_TRY(const int fd, create_beside(temporary));
    // Mapped before it has its name: once it has, nothing can fail any more, and what was read and what is read change together.
    struct Copy {
        std::map<uint64_t, Section> sections;
        uint64_t end = 0;
        SessionMap map;
    };
    const auto copy = [&]() -> Result<Copy> {
        CELLAR_TRY_VOID(write_at(fd, 0, session_header()));
        std::map<uint64_t, Section> moved;
        uint64_t at = kSessionHeaderBytes;
        const auto put = [&](Section section, std::span<const std::byte> content) -> Result<Section> {
            section.offset = at;
            CELLAR_TRY_VOID(write_at(fd, at, section_header(section)));
            CELLAR_TRY_VOID(write_at(fd, at + kSectionHeaderBytes, content));
            at += kSectionHeaderBytes + padded(section.length);
            return section;
        };
        for (const auto& [id, section] : sections_) {
            const std::span<const std::byte> bytes = content(id);
            if (XXH3_64bits(bytes.data(), bytes.size()) != section.checksum)
                return fail(ErrorKind::System, "{}: another program has changed what was saved in it, so it cannot be written anew", path_);
            CELLAR_TRY(moved[id], put(section, bytes));
        }
        CELLAR_TRY_VOID(sync(fd));
        const std::vector<std::byte> content = commit_content(saves_, moved);
        const Section commit{SectionKind::Commit, next_id_, 0, content.size(), XXH3_64bits(content.data(), content.size())};
        CELLAR_TRY_VOID(put(commit, content).map([](auto) {}));
        if (ftruncate(fd, static_cast<off_t>(at)) != 0) return system_error(path_, "cannot be written", errno);
        CELLAR_TRY_VOID(sync(fd));
        CELLAR_TRY(SessionMap mapped, map(fd));
        return Copy{std::move(moved), at, std::move(mapped)};
    };
    auto copied = copy();
    Result<void> published = copied ? publish(fd, temporary, replaces) : Result<void>(tl::unexpected<Error>(copied.error()));
    if (!published) {
        close(fd);
        unlink(temporary.c_str());
        return published;
    }
    sections_ = std::move(copied->sections);
    end_ = copied->end;
    map_ = std::move(copied->map);
    ++next_id_;
    remember_end();
    return {};
}

}  // namespace cellar
