#pragma once
// Sequences and chats in a session file: named branches whose shared rows are written once.
//
// Thread rule: as the engine's.
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/session_file.h"

namespace cellar {

// What rows depend on, beside tokens: one value for each name, compared as text.
using Fingerprint = std::map<std::string, std::string>;
// architecture, shapes, rope regime and a hash of sampled weights must be equal for rows to be of any use; formats and the numeric path may differ.
Fingerprint fingerprint(const Engine& engine);

class Session {
  public:
    struct Branch {
        std::string name;
        int32_t length = 0;
        int32_t pure = 0;
        std::string host;     // what the owner of the branch keeps beside the rows; not looked at here
        std::string numbers;  // the numeric path that its rows were computed on
    };
    struct Restored {
        int32_t length = 0;
        bool converted = false;      // rows were stored in another format
        bool other_numbers = false;  // rows were computed on another numeric path
        [[nodiscard]] bool coloured() const { return converted || other_numbers; }
    };
    struct Saved {
        int32_t tokens_written = 0;  // the others stood in the file already
        uint64_t bytes_written = 0;
        uint64_t file_bytes = 0;
        bool rewritten = false;
    };
    // One branch to save: rows of seq, and the owner's text. Without a seq: the branch of this name as it stands in the file.
    struct Source {
        std::string name;
        std::optional<SeqId> seq;
        std::string host;
    };

    // Opens a file and checks all of it, against the engine's model too. A file that is not there yet is an empty session. Errors: everything
    // that SessionFile::open refuses; another model, named by what differs.
    static Result<std::unique_ptr<Session>> open(const std::string& path, Engine& engine);

    [[nodiscard]] const std::vector<Branch>& branches() const { return branches_; }
    [[nodiscard]] const Branch* find(const std::string& name) const;
    [[nodiscard]] const std::string& path() const { return file_->path(); }
    [[nodiscard]] SessionFile& file() { return *file_; }

    // Fills an empty sequence with a branch. The context may be another than when it was saved; a branch that
    // is longer is refused with both numbers. On an error the sequence is empty.
    Result<Restored> restore(const std::string& name, SeqId seq);

    // Makes these branches the state of the file: old or new, whatever happens meanwhile. Others are forgotten.
    Result<Saved> save(std::span<const Source> sources);

  private:
    Session(Engine& engine, std::unique_ptr<SessionFile> file) : engine_(engine), file_(std::move(file)) {}
    Result<void> read();

    // Positions [lo, hi) of a branch, out of a piece that may hold more.
    struct Part {
        uint64_t piece = 0;
        int32_t lo = 0;
        int32_t hi = 0;
        int32_t unused = 0;  // positions of the piece that are not in [lo, hi)
    };
    struct Stored {
        std::vector<Part> parts;
        std::vector<Token> tokens;
        std::vector<std::vector<kv::Run>> runs;  // per group: what is held and how it is turned; cells left out
        int32_t pure = 0;
        bool own_format = false;  // stored as this engine stores and computes
    };
    [[nodiscard]] Stored describe(SeqId seq) const;
    [[nodiscard]] static int32_t reusable(const Stored& stored, const Stored& wanted, bool same_branch);
    Result<Stored> add_branch(SessionFile::Save& save, const Source& source, const std::map<std::string, Stored>& saved, Saved& report);

    Engine& engine_;
    std::unique_ptr<SessionFile> file_;
    std::vector<Branch> branches_;
    std::map<std::string, Stored> stored_;  // by name
    Fingerprint mine_;                      // of the engine
};

}  // namespace cellar
