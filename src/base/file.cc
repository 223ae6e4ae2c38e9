#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/fault_guard.h"
#include "base/quote.h"

namespace cellar {
namespace {

// Paths are shown whole, but on one line.
std::string shown(const std::string& path) {
    return escaped(path, 4096);
}

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

tl::unexpected<Error> system_error(const char* what, const std::string& path, int number) {
    if (number == ENOENT) return fail("{}: no such file", shown(path));
    if (number == EACCES || number == EPERM) return fail("{}: no permission to {} it", shown(path), what);
    if (number == ENOTDIR) return fail("{}: a part of this path is not a folder", shown(path));
    return fail(ErrorKind::System, "{}: cannot {} it: {}", shown(path), what, std::strerror(number));
}

// What an open descriptor leads to; a folder is an error.
Result<struct stat> look_at(int descriptor, const std::string& name) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) return system_error("read", name, errno);
    if (S_ISDIR(status.st_mode)) return fail("{}: is a folder, not a file", shown(name));
    return status;
}

struct Opened {
    Descriptor descriptor;
    struct stat status;
};

// O_NONBLOCK keeps the open of a pipe without a writer from waiting for ever; it changes nothing for regular files.
Result<Opened> open_to_read(const std::string& path, int flags) {
    if (path.empty()) return fail("the path of the file is empty");
    // The system reads a path up to the first zero byte: what it opened would not be what was named.
    if (path.find('\0') != std::string::npos) return fail("{}: a path cannot contain a zero byte", shown(path));
    Opened opened{Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)), {}};
    if (opened.descriptor.get() < 0) return system_error("read", path, errno);
    CELLAR_TRY(opened.status, look_at(opened.descriptor.get(), path));
    return opened;
}

std::string folder_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
    CELLAR_TRY(const Opened file, open_to_read(path, O_NONBLOCK));
    if (!S_ISREG(file.status.st_mode)) return fail("{}: is not a regular file", shown(path));
    if (file.status.st_size == 0) return fail("{}: is empty", shown(path));
    const auto size = static_cast<size_t>(file.status.st_size);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor.get(), 0);
    if (data == MAP_FAILED) return system_error("map", path, errno);
    MappedFile map;
    map.path_ = path;
    map.data_ = static_cast<const std::byte*>(data);
    map.size_ = size;
    map.guard_ = watch_mapping(path, map.bytes());
    return map;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      guard_(std::exchange(other.guard_, nullptr)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    if (this != &other) {
        close();
        path_ = std::move(other.path_);
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
        guard_ = std::exchange(other.guard_, nullptr);
    }
    return *this;
}

MappedFile::~MappedFile() {
    close();
}

void MappedFile::close() noexcept {
    if (data_ == nullptr) return;
    if (guard_ != nullptr) unwatch_mapping(guard_);  // none: memory ran out while it was opened
    ::munmap(const_cast<std::byte*>(data_), size_);
    data_ = nullptr;
}

void MappedFile::drop(std::span<const std::byte> range) const {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto map_begin = reinterpret_cast<uintptr_t>(data_);
    const auto range_begin = reinterpret_cast<uintptr_t>(range.data());
    const uintptr_t begin = std::max(map_begin, range_begin) / page * page;  // the map begins at a page
    const uintptr_t end = std::min(map_begin + size_, range_begin + range.size());
    if (data_ == nullptr || begin >= end) return;
    // Whole pages go, also those that the range shares with its neighbours: who reads them gets them again from the file.
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
    CELLAR_TRY(const Opened file, open_to_read(path, 0));
    return read_descriptor(file.descriptor.get(), path, max_bytes);
}

Result<std::string> read_descriptor(int descriptor, const std::string& name, size_t max_bytes) {
    CELLAR_TRY(const struct stat status, look_at(descriptor, name));
    std::string text;
    // The size is a hint only: a pipe has none, and a file may grow.
    size_t step = 65536;
    if (S_ISREG(status.st_mode)) {
        const auto size = static_cast<uint64_t>(status.st_size);
        if (size > max_bytes) return fail("{}: has {} bytes, at most {} are accepted here", shown(name), size, max_bytes);
        step = static_cast<size_t>(size) + 1;
    }
    size_t used = 0;
    while (true) {
        text.resize(used + step);
        const ssize_t got = ::read(descriptor, text.data() + used, step);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return system_error("read", name, errno);
        if (got == 0) break;
        used += static_cast<size_t>(got);
        if (used > max_bytes) return fail("{}: has more than the {} bytes that are accepted here", shown(name), max_bytes);
        step = std::max<size_t>(65536, used / 2);
    }
    text.resize(used);
    return text;
}

Result<AtomicFile> AtomicFile::create(const std::string& path, FileMode mode) {
    if (path.empty()) return fail("the path of the file is empty");
    if (path.find('\0') != std::string::npos) return fail("{}: a path cannot contain a zero byte", shown(path));
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return fail("{}: is there and is not a regular file", shown(path));
    static std::atomic<uint64_t> counter = 0;
    AtomicFile file;
    file.path_ = path;
    const mode_t bits = mode == FileMode::Private ? 0600 : 0666;
    // A name that is taken belongs to another writer, or to one that crashed.
    for (int attempt = 0; attempt < 100 && file.fd_ < 0; ++attempt) {
        std::string temporary = fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter.fetch_add(1));
        file.fd_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, bits);
        if (file.fd_ >= 0) file.temporary_ = std::move(temporary);
        if (file.fd_ < 0 && errno != EEXIST) break;
    }
    if (file.fd_ >= 0) return file;
    if (errno == ENOENT) return fail("{}: there is no folder {}", shown(path), shown(folder_of(path)));
    return system_error("write", path, errno);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})), fd_(std::exchange(other.fd_, -1)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
    if (this != &other) {
        abandon();
        path_ = std::move(other.path_);
        temporary_ = std::exchange(other.temporary_, {});
        fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
}

AtomicFile::~AtomicFile() {
    abandon();
}

void AtomicFile::abandon() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
    CHECK(fd_ >= 0);
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return system_error("write", path_, errno);
        bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
}

Result<void> AtomicFile::commit() {
    CHECK(fd_ >= 0);
    const bool synced = ::fsync(fd_) == 0;
    const int sync_error = errno;
    const bool closed = ::close(std::exchange(fd_, -1)) == 0;
    if (!synced) return system_error("write", path_, sync_error);
    if (!closed) return system_error("write", path_, errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return system_error("replace", path_, errno);
    temporary_.clear();
    // The new name is durable only when the folder is. Some file systems cannot sync a folder and say EINVAL.
    const Descriptor folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() >= 0 && ::fsync(folder.get()) != 0 && errno != EINVAL) return system_error("sync the folder of", path_, errno);
    return {};
}

int rename_to_free_name(const std::string& from, const std::string& to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    return errno == EINVAL || errno == ENOSYS ? rename_by_link(from, to) : errno;
}

int rename_by_link(const std::string& from, const std::string& to) {
    if (const int error = link_to_free_name(from, to); error != 0) return error;
    if (::unlink(from.c_str()) == 0) return 0;
    const int error = errno;
    ::unlink(to.c_str());
    return error;
}

int link_to_free_name(const std::string& from, const std::string& to) {
    return ::link(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

SetAside set_aside(const std::string& path, std::string_view ending, int (*give)(const std::string& from, const std::string& to)) {
    SetAside out{{}, EEXIST};
    for (int i = 1; out.error == EEXIST && i <= 1000; ++i) {
        out.name = fmt::format("{}.{}{}", path, ending, i == 1 ? "" : std::to_string(i));
        out.error = give(path, out.name);
    }
    return out;
}

Result<void> write_file_atomically(const std::string& path, std::span<const std::byte> bytes, FileMode mode) {
    CELLAR_TRY(AtomicFile file, AtomicFile::create(path, mode));
    CELLAR_TRY_VOID(file.write(bytes));
    return file.commit();
}

}  // namespace cellar
