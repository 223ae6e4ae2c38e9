#pragma once
// A session file: a log of checksummed sections. Each save appends what is new and ends with a commit that names the sections that are alive, so a
// crash at any instant leaves the state before or the state after. docs/file.md describes every byte.
//
//   header | section | section | ... | commit | section | ... | commit
//
// Reading takes the last commit whose sections all verify, before anything is handed out. A file that could not be read is never written to,
// and one of which a newer state is damaged is kept under another name before anything is written.
//
// Thread rule: one thread. The file is locked while it is open: a second process is refused, unless both read.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/session_log.h"
#include "engine/session_map.h"

namespace cellar {

// For tests: called before each write of so many bytes, each sync and each mapping of what was written (0 bytes). Returns how many bytes really go
// out, then an error number that the call fails with, 0 for none.
struct Fault {
    size_t allowed = SIZE_MAX;
    int error = 0;
};
using FaultHook = std::function<Fault(size_t bytes)>;

// Reading: the file need not be writable, and stays as it is; several may read it at once, while nobody writes.
enum class Access : uint8_t { Write, Read };

class SessionFile {
  public:
    // Opens an existing file, or prepares a new one that appears with the first save. Refuses a file that is locked, is no session file, is of
    // an unknown version, has no commit that verifies, or is a link that belongs to somebody else; and a new one where none can be made.
    // Removes what saves that were killed have left beside it. To read, there must be a file; it is never saved to, and nothing is removed.
    static Result<std::unique_ptr<SessionFile>> open(const std::string& path, Reading reading = Reading::Whole, Access access = Access::Write);
    ~SessionFile();
    SessionFile(const SessionFile&) = delete;
    SessionFile& operator=(const SessionFile&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] bool is_new() const { return !exists_; }
    // The sections that are alive, by id.
    [[nodiscard]] const std::map<uint64_t, Section>& sections() const { return sections_; }
    // Content of a section that is alive, verified. Valid until the next save.
    [[nodiscard]] std::span<const std::byte> content(uint64_t id) const;
    [[nodiscard]] uint64_t file_bytes() const { return end_; }
    [[nodiscard]] uint64_t dead_bytes() const;
    [[nodiscard]] uint64_t saves() const { return saves_; }
    // Bytes behind the state that was found: a save that did not end. The next save takes their place.
    [[nodiscard]] uint64_t unread_bytes() const { return unread_; }
    // Newer saves that were ended and are damaged, and pieces of this state that are. The first save then keeps the file as it was found
    // under another name.
    [[nodiscard]] uint64_t lost_saves() const { return lost_saves_; }
    [[nodiscard]] uint64_t lost_pieces() const { return lost_pieces_; }
    // Its owner goes on with less than what is in it: the next save keeps the file as it is under another name, as a damaged one.
    void keep_as_found() { keep_as_found_ = true; }
    // What the last save had to do beside saving, for the owner to say; empty where nothing.
    [[nodiscard]] std::string take_note() { return std::exchange(note_, {}); }

    // One save: sections are added, then commit() makes them the state. Without commit the file keeps its state; when
    // commit fails, it has the old state or the new one.
    class Save {
      public:
        // Writes a section; its content comes through the sink, exactly `length` bytes of it. Returns its id.
        using Sink = std::function<Result<void>(std::span<const std::byte>)>;
        Result<uint64_t> add(SectionKind kind, uint64_t length, const std::function<Result<void>(const Sink&)>& write);
        Result<uint64_t> add(SectionKind kind, std::span<const std::byte> content);
        ~Save();
        Save(const Save&) = delete;
        Save& operator=(const Save&) = delete;
        // The state from now on: these sections, old or new.
        Result<void> commit(std::span<const uint64_t> alive);

      private:
        friend class SessionFile;
        Result<void> start();
        explicit Save(SessionFile& file) : file_(file), end_(file.end_), next_id_(file.next_id_) {}
        SessionFile& file_;
        uint64_t end_;
        uint64_t next_id_;
        std::map<uint64_t, Section> added_;
        std::optional<Error> failed_;
        std::string temporary_;  // of a file that has no name of its own yet
    };
    Save begin() { return Save(*this); }

    // Writes the file anew without its dead sections: to a temporary file beside it, synced, then renamed.
    Result<void> rewrite();

    void set_fault_hook(FaultHook hook) { fault_ = std::move(hook); }

  private:
    SessionFile(std::string path, Access access) : path_(std::move(path)), access_(access) {}
    Result<void> open_existing();
    [[nodiscard]] Result<void> check_writable() const;
    Result<void> read(Reading reading);
    Result<SessionMap> map(int fd) const;
    Result<void> look_after_place();
    void remember_end();
    [[nodiscard]] Result<void> check_unchanged() const;
    [[nodiscard]] bool loses_something() const { return lost_saves_ > 0 || lost_pieces_ > 0 || keep_as_found_; }
    Result<void> set_aside_damaged();
    Result<int> create_beside(std::string& name) const;
    [[nodiscard]] bool set_access(int fd) const;
    Result<void> write_at(int fd, uint64_t offset, std::span<const std::byte> bytes) const;
    Result<void> sync(int fd) const;
    Result<void> publish(int fd, const std::string& temporary, bool replaces);
    Result<void> rewrite_over(bool replaces);

    std::string path_;
    Access access_;
    std::vector<std::byte> last_bytes_;  // of the state
    int fd_ = -1;
    bool exists_ = false;
    uint64_t end_ = 0;  // behind the last commit
    uint64_t next_id_ = 1;
    uint64_t saves_ = 0;
    uint64_t unread_ = 0;
    uint64_t lost_saves_ = 0;
    uint64_t lost_pieces_ = 0;
    bool keep_as_found_ = false;
    std::map<uint64_t, Section> sections_;
    SessionMap map_;  // of fd_; sections_ lie in it
    std::string note_;
    FaultHook fault_;
};

}  // namespace cellar
