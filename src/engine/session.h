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
#include "engine/fingerprint.h"
#include "engine/session_directory.h"
#include "engine/session_file.h"

namespace cellar {

class Session {
  public:
    struct Branch {
        std::string name;
        int32_t length = 0;
        int32_t pure = 0;
        int32_t held = 0;     // tokens whose rows are in the file: all, but where pieces are lost
        std::string host;     // what the owner of the branch keeps beside the rows; not looked at here
        std::string numbers;  // the numeric path that its rows were computed on
    };
    struct Restored {
        SeqId seq{};
        int32_t length = 0;          // shorter than the branch only where a prefix is taken
        int32_t shared = 0;          // of these: with an open branch, not read from the file
        bool converted = false;      // rows were stored in another format
        bool other_numbers = false;  // rows were computed on another numeric path
        [[nodiscard]] bool coloured() const { return converted || other_numbers; }
    };
    struct Saved {
        int32_t tokens_written = 0;  // the others stood in the file already
        uint64_t bytes_written = 0;
        uint64_t file_bytes = 0;
        bool rewritten = false;
        std::string note;  // what else had to be done; worth a line where it is not empty
    };
    // One branch to save: rows of seq, and the owner's text. Without a seq: the branch of this name as it stands in the file.
    struct Source {
        std::string name;
        std::optional<SeqId> seq;
        std::string host;
    };
    // A sequence that goes on from a branch of the file: it was restored from it, or saved as it.
    struct OpenBranch {
        std::string name;
        SeqId seq;
    };

    // Opens a file and checks all of it, against the engine's model too. A file that is not there yet is an empty session. Errors: everything
    // that SessionFile::open refuses; another model, named by what differs. Reading::Prefix: of branches that are damaged or longer
    // than the context, what can be used is taken.
    static Result<std::unique_ptr<Session>> open(const std::string& path, Engine& engine, Reading reading = Reading::Whole);

    [[nodiscard]] const std::vector<Branch>& branches() const { return branches_; }
    [[nodiscard]] const Branch* find(const std::string& name) const;
    [[nodiscard]] const std::string& path() const { return file_->path(); }
    [[nodiscard]] SessionFile& file() { return *file_; }

    // Fills an empty sequence with a branch. The context may be another than when it was saved; a branch that
    // is longer is refused with both numbers. What is pure of it is kept for others that begin alike. On an error the sequence is empty.
    Result<Restored> restore(const std::string& name, SeqId seq);
    // The same in a new sequence, which shares with the open branches what they have in common. On an error there is none.
    Result<Restored> restore_beside(const std::string& name, std::span<const OpenBranch> open);

    // Makes these branches the state of the file: old or new, whatever happens meanwhile. Others are forgotten.
    Result<Saved> save(std::span<const Source> sources);

  private:
    Session(Engine& engine, std::unique_ptr<SessionFile> file, Reading reading) : engine_(engine), file_(std::move(file)), reading_(reading) {}

    using Part = SessionBranch::Part;
    using Runs = std::vector<std::vector<kv::Run>>;  // per group: what is held and how it is turned; cells left out
    // What a piece of the file holds, without its rows.
    struct PieceContent {
        kv::Interval positions;
        std::vector<Token> tokens;
        Runs runs;
        bool own_format = false;  // rows are stored as this engine stores them
    };
    // A branch as it stands in the file.
    struct Stored {
        std::vector<Part> parts;
        int32_t pure = 0;  // of rows that this engine would compute itself
        [[nodiscard]] int32_t length() const { return parts.empty() ? 0 : parts.back().hi; }
    };
    // A sequence as it is now.
    struct Content {
        std::vector<Token> tokens;
        Runs runs;
        int32_t pure = 0;
    };

    Result<void> read();
    Result<void> read_piece(uint64_t id);
    Result<Restored> fill(const Branch& branch, SeqId seq);
    [[nodiscard]] Result<int32_t> length_to_fill(const Branch& branch) const;
    [[nodiscard]] Content describe(SeqId seq) const;
    [[nodiscard]] int32_t common_tokens(const Stored& stored, const Content& wanted) const;
    [[nodiscard]] int32_t common_rows(const Stored& stored, const Content& wanted, bool same_branch) const;
    [[nodiscard]] int32_t reusable(const Stored& stored, const Content& wanted, bool same_branch) const;
    [[nodiscard]] int32_t shareable(const Stored& stored, const OpenBranch& open) const;
    void reuse_parts(const Stored& from, int32_t reuse, int32_t length, const std::map<std::string, Stored>& saved, Stored& to) const;
    Result<Stored> add_branch(SessionFile::Save& save, const Source& source, const std::map<std::string, Stored>& saved, Saved& report);
    Result<Saved> write(std::span<const Source> sources);
    void forget_unused_pieces();

    Engine& engine_;
    std::unique_ptr<SessionFile> file_;
    Reading reading_;
    std::vector<Branch> branches_;
    std::map<std::string, Stored> stored_;     // by name
    std::map<uint64_t, PieceContent> pieces_;  // by id, each once however many branches use it
    Fingerprint mine_;                         // of the engine
};

}  // namespace cellar
