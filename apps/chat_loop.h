#pragma once
// The loop of cellar chat: messages and commands in, answers out.
#include <optional>
#include <random>
#include <string>

#include "apps/chat_branches.h"
#include "apps/commands.h"

namespace cellar::apps {

class ChatLoop {
  public:
    struct Settings {
        SamplingSettings sampling;
        int64_t max_tokens = -1;
        Thinking thinking = Thinking::Dim;
        bool verbose = false;
    };
    ChatLoop(Engine& engine, ChatBranches& branches, const Settings& settings);

    // Until the input ends; gives the exit code.
    int loop();

  private:
    enum class Turn { Say, Again };
    struct Input {
        std::string text;
        bool quoted = false;  // never a command
    };
    static Result<std::optional<Input>> read_message();
    void answer(Turn turn, const std::string& text);
    void say_what_is_full(const std::string& what) const;
    void save_changes();

    // chat_commands.cc
    bool command(const std::string& line);  // false: leave
    void show_stats() const;
    void show_turns() const;
    void go_to_turn(const std::string& rest);
    void set(const std::string& rest);
    void take_settings();
    void leave_settings();
    bool load(const std::string& path);  // false: leave
    void undo();
    void change_system(const std::string& text);

    Engine& engine_;
    ChatBranches& branches_;
    Settings settings_;
    std::optional<Answer> last_;
    std::string unsaved_;  // why the last save failed
    int exit_ = kExitOk;
    std::mt19937_64 seeds_{std::random_device{}()};
};

}  // namespace cellar::apps
