#pragma once
// The branches of a chat, and the file they are saved to.
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/conversation.h"
#include "engine/session.h"

namespace cellar::apps {

inline constexpr int kMostBranches = 32;  // open at a time

class ChatBranches {
  public:
    // Without a path nothing is saved until save() names one. Takes up what the file holds, unless `begin_anew`. Errors: what Session::open
    // refuses; the file is then left as it is.
    static Result<ChatBranches> open(Engine& engine, const ConversationOptions& options, const std::string& path, bool begin_anew);

    [[nodiscard]] Conversation& current() const { return *open_.at(current_); }

    // All of these say in a line what they did.
    Result<std::string> save(const std::string& path);   // empty: the file that is in use
    Result<std::string> fork(const std::string& name);   // and goes on there
    Result<std::string> go_to(const std::string& name);  // empty: lists the branches
    Result<void> save_if_wanted();                       // after a turn, when a file is in use

  private:
    ChatBranches(Engine& engine, ConversationOptions options) : engine_(&engine), options_(std::move(options)) {}
    Result<void> take_up();
    Result<std::unique_ptr<Conversation>> restore(const std::string& name);
    Result<Session::Saved> write();

    Engine* engine_;
    ConversationOptions options_;
    std::unique_ptr<Session> session_;
    std::map<std::string, std::unique_ptr<Conversation>> open_;  // by name; others stand in the file alone
    std::string current_ = "main";
};

}  // namespace cellar::apps
