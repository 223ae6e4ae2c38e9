#pragma once
// The branches of a chat, and the file they are saved to.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "apps/cells_picture.h"
#include "base/result.h"
#include "engine/conversation.h"
#include "engine/session.h"

namespace cellar::apps {

inline constexpr int kMostBranches = 32;  // open at a time

struct SessionRequest {
    std::string path;                  // empty: nothing is saved until save() names a file
    bool begin_anew = false;           // a file that is there is set aside
    Reading reading = Reading::Whole;  // Prefix: of what is damaged or too long, the beginning
};

class ChatBranches {
  public:
    // Takes up what the file holds, unless it is to begin anew. Errors: what Session::open refuses; the file is then left as it is.
    static Result<ChatBranches> open(Engine& engine, const ConversationOptions& options, const SessionRequest& request);

    [[nodiscard]] Conversation& current() const { return *open_.at(current_); }
    [[nodiscard]] size_t open_branches() const { return open_.size(); }  // 0 only behind a load() that could not go back
    // Branches that are open, the current one marked.
    [[nodiscard]] std::vector<PicturedBranch> pictured() const;

    // All of these say in a line what they did.
    Result<std::string> save(const std::string& path);  // empty: the file that is in use
    // Goes on from another file, and saves there from now on. On an error the chat is the one before; where it cannot be taken up again either, no
    // branch is open, and nothing but the destructor may be called.
    Result<std::string> load(const std::string& path);
    Result<std::string> fork(const std::string& name);   // and goes on there
    Result<std::string> go_to(const std::string& name);  // empty: lists the branches
    Result<std::string> drop(const std::string& name);   // for good, in the file too
    // After whatever changes the current conversation.
    void changed() { dirty_ = true; }
    // Saves what has changed, when a file is in use.
    Result<void> save_changes();

  private:
    ChatBranches(Engine& engine, ConversationOptions options, Reading reading) : engine_(&engine), options_(std::move(options)), reading_(reading) {}
    [[nodiscard]] bool stands_in_file(const std::string& name) const;
    [[nodiscard]] std::vector<Session::OpenBranch> open_now() const;
    Result<void> take_up();
    Result<void> go_back(const std::string& name);
    Result<void> begin();
    Result<std::unique_ptr<Conversation>> restore(const std::string& name);
    Result<std::string> save_elsewhere(const std::string& path);
    Result<Session::Saved> write();

    Engine* engine_;
    ConversationOptions options_;
    Reading reading_;
    std::unique_ptr<Session> session_;
    std::map<std::string, std::unique_ptr<Conversation>> open_;  // by name; others stand in the file alone
    std::set<std::string> dropped_;                              // that still stand in the file
    std::string current_ = "main";
    bool dirty_ = false;  // something is not in the file yet
};

}  // namespace cellar::apps
