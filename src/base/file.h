#pragma once
// Files: read-only maps of large ones, whole reads of small ones, and writes that a crash cannot leave half done.
//
// Thread rule: a MappedFile may be read by many threads; opening and closing different maps at once is safe.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cellar {

// Exit code of a process whose mapped file became shorter, or could not be read any more, while it was in use.
inline constexpr int kExitFileLost = 74;

struct FaultGuard;

// A regular file, mapped read-only. The bytes stay at their address until the object dies, also when it is moved.
//
// A map cannot answer "no": when somebody cuts the file while it is mapped, touching the missing part raises SIGBUS.
// The first open() installs a handler that ends the process with kExitFileLost and a line naming the file; faults at
// other addresses go to the handler that was there before.
class MappedFile {
  public:
    // Errors: missing, a folder, not a regular file, empty, no permission.
    [[nodiscard]] static Result<MappedFile> open(const std::string& path);

    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
    [[nodiscard]] size_t size() const { return size_; }
    [[nodiscard]] const std::string& path() const { return path_; }

    // Takes the pages of `range` out of this process's resident memory; reading them again brings them back.
    // A range that is not inside the map is cut to it.
    void drop(std::span<const std::byte> range) const;

  private:
    MappedFile() = default;
    void close() noexcept;

    std::string path_;
    const std::byte* data_ = nullptr;
    size_t size_ = 0;
    FaultGuard* guard_ = nullptr;  // what the SIGBUS handler knows of this map
};

// The whole file (or pipe), at most max_bytes of it. Errors: as MappedFile::open (an empty file is fine), too large.
[[nodiscard]] Result<std::string> read_file(const std::string& path, size_t max_bytes);

// The same for what is open already, from where it stands; `name` stands in errors.
[[nodiscard]] Result<std::string> read_descriptor(int descriptor, const std::string& name, size_t max_bytes);

enum class FileMode {
    Shared,   // what the umask allows
    Private,  // 0600: its owner alone
};

// A file that appears under its name only when it is complete. Bytes go to a temporary file in the same folder;
// commit() syncs it, renames it over `path` (a link there is replaced, not followed) and syncs the folder. Without commit() the temporary file is
// removed.
class AtomicFile {
  public:
    [[nodiscard]] static Result<AtomicFile> create(const std::string& path, FileMode mode = FileMode::Shared);

    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&& other) noexcept;
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile();

    [[nodiscard]] Result<void> write(std::span<const std::byte> bytes);
    [[nodiscard]] Result<void> commit();

  private:
    AtomicFile() = default;
    void abandon() noexcept;

    std::string path_;
    std::string temporary_;
    int fd_ = -1;
};

// Renames a file unless the new name is taken; then nothing is done. 0 or an error number: EEXIST for a name that is taken.
[[nodiscard]] int rename_to_free_name(const std::string& from, const std::string& to);
// The same for file systems that cannot refuse a taken name while they rename: the file gets its second name, then loses its first.
[[nodiscard]] int rename_by_link(const std::string& from, const std::string& to);
// A second name, unless it is taken; returns the same.
[[nodiscard]] int link_to_free_name(const std::string& from, const std::string& to);

// Gives a file the first of the names "FILE.ENDING", "FILE.ENDING2", "FILE.ENDING3"... that is free, by one of the three above: what was set
// aside before is not lost.
struct SetAside {
    std::string name;
    int error = 0;  // EEXIST: a thousand names are taken
};
[[nodiscard]] SetAside set_aside(const std::string& path, std::string_view ending, int (*give)(const std::string& from, const std::string& to));

[[nodiscard]] Result<void> write_file_atomically(const std::string& path, std::span<const std::byte> bytes, FileMode mode = FileMode::Shared);

}  // namespace cellar
