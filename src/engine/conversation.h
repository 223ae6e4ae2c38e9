#pragma once
// A chat: messages, the template that turns them into a prompt, and the tokens that were really sampled.
//
// The answers of earlier turns keep the tokens that the model produced, also where their text would be cut into others now, so
// that a turn runs only what is new. Where a template rewrites what was said, the tokens are kept up to the last
// boundary that the new prompt still begins with.
//
// What overflows is forgotten from messages, text, tokens and rows alike; rows behind it are turned, not run again, and coloured.
//
// Thread rule: as the engine's.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/generate.h"
#include "engine/overflow.h"
#include "engine/plain_spans.h"
#include "engine/prompt.h"
#include "text/template/template.h"

namespace cellar {

struct ConversationOptions {
    std::string system;                        // empty: no system message
    std::optional<std::string> template_text;  // instead of the model's own
    std::string template_name = {};            // where template_text comes from, for messages
    std::optional<bool> thinking;              // the template's variable enable_thinking; unset: its default
    Overflow overflow = Overflow::Stop;
};

class Conversation {
  public:
    // Refuses models without a vocabulary or without a template.
    static Result<std::unique_ptr<Conversation>> make(Engine& engine, ConversationOptions options);
    // The same on a sequence that the caller owns and closes after the conversation. Whatever the caller does with it between turns,
    // a turn reuses of it what its prompt begins with.
    static Result<std::unique_ptr<Conversation>> make_on(Engine& engine, ConversationOptions options, SeqId seq);
    // The same on a sequence that the conversation closes when it ends; also when it cannot be made.
    static Result<std::unique_ptr<Conversation>> adopt(Engine& engine, ConversationOptions options, SeqId seq);
    // The same turns on another sequence that the caller owns, such as a fork of this one.
    [[nodiscard]] std::unique_ptr<Conversation> copy_on(SeqId seq) const;
    ~Conversation();
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    [[nodiscard]] const std::vector<Message>& messages() const { return messages_; }
    [[nodiscard]] const std::string& system() const { return options_.system; }
    [[nodiscard]] SeqId seq() const { return seq_; }
    [[nodiscard]] Overflow overflow() const { return options_.overflow; }
    // In the last turn; nothing when it ended with an error.
    [[nodiscard]] const Forgotten& forgotten() const { return forgotten_; }

    // Adds what the user said and lets the model answer. On an error everything said before is as it was, also what had to go for this message;
    // the answer of a cancelled turn, as far as it came, is kept.
    Result<Answer> say(std::string text, const GenerateOptions& options, const TakeText& take = {}, const Cancel* cancel = nullptr,
                       const Progress& progress = {});
    // Answers the last user message again. Refuses when there is none.
    Result<Answer> again(const GenerateOptions& options, const TakeText& take = {}, const Cancel* cancel = nullptr, const Progress& progress = {});

    // Answers the last of these messages, which replace all that was said; a system message among them only as the first. On an error
    // everything is as it was.
    Result<Answer> reply(std::vector<Message> messages, const GenerateOptions& options, const TakeText& take = {}, const Cancel* cancel = nullptr,
                         const Progress& progress = {});

    [[nodiscard]] int turns() const;    // messages of the user, answered or not
    void rewind(int turns);             // takes back all turns but the first so many
    bool undo();                        // takes back the last turn; false when there is none
    void clear();                       // forgets all turns and empties the sequence, keeps the system text
    void set_system(std::string text);  // from the next turn on

    // What the owner wants back with the chat, by name; not looked at here.
    void set_settings(std::map<std::string, std::string> settings) { settings_ = std::move(settings); }
    [[nodiscard]] const std::map<std::string, std::string>& settings() const { return settings_; }

    // What belongs to the chat beside the rows of its sequence, as text: messages, settings, system text, the tokens behind the text.
    [[nodiscard]] std::string state() const;
    // Takes a state over, into a chat whose sequence already holds the rows that were saved with it, or the first of them: the next turn then
    // reads the others anew. Refuses what is no state; the chat is then as it was.
    Result<void> resume(const std::string& state);
    // A chat that goes on from here on its own, and shares every row so far.
    [[nodiscard]] Result<std::unique_ptr<Conversation>> fork() const;

    // The prompt as the template renders it, with the system message and everything said so far.
    [[nodiscard]] Result<std::string> render() const;
    // As it would be after the user said this.
    [[nodiscard]] Result<std::string> render_with(const std::string& text) const;
    // The same as tokens. Text of a message that spells a control token is text; only what the template writes can be one.
    [[nodiscard]] Result<std::vector<int32_t>> encode_with(const std::string& text) const;

  private:
    Conversation(Engine& engine, ConversationOptions options, jinja::Template chat, SeqId seq);
    static std::string template_name(const Engine& engine, const ConversationOptions& options);
    static Result<jinja::Template> parse(const Engine& engine, const ConversationOptions& options);
    [[nodiscard]] Result<std::string> render(const std::vector<Message>& messages) const;
    Result<Answer> answer(const GenerateOptions& options, const TakeText& take, const Cancel* cancel, const Progress& progress);
    [[nodiscard]] std::vector<std::string> contents_of(const std::vector<Message>& history) const;
    [[nodiscard]] Result<std::string> render_as(const std::vector<Message>& history, const std::vector<std::string>& contents) const;
    [[nodiscard]] std::vector<TextSpan> plain_parts(const std::string& prompt, const std::vector<Message>& history) const;
    [[nodiscard]] std::vector<int32_t> encode_from(size_t begin, const std::string& prompt, const std::vector<TextSpan>& plain) const;
    [[nodiscard]] std::string beginning_of_next() const;
    void keep_beginning_of(const std::string& prompt);
    void let_go_of_rest();
    void let_go_of_refused(int32_t held_before);
    void tokens_of(const std::string& prompt, const std::vector<Message>& history);
    [[nodiscard]] bool can_cut_after(size_t tokens) const;

    // A place where text and tokens are known to belong together.
    struct Mark {
        size_t text = 0;
        size_t tokens = 0;
    };

    // conversation_overflow.cc
    [[nodiscard]] std::vector<size_t> text_offsets() const;
    [[nodiscard]] size_t oldest_turn() const;
    [[nodiscard]] int32_t oldest_turn_tokens() const;
    bool cut_to(const std::string& shorter);
    bool let_go(size_t first, size_t last);
    int32_t become(std::vector<Message> messages);
    int32_t forget_turn();
    int32_t forget_within_turn(int32_t wanted);
    int32_t forget(int32_t wanted);
    [[nodiscard]] bool turns_hold_room() const;
    bool make_room(std::span<const int32_t> answer);
    Result<void> fit();
    void take_over(std::vector<Message> messages);
    [[nodiscard]] std::string remembered(const Answer& answer, const GenerateOptions& options) const;

    Engine& engine_;
    ConversationOptions options_;
    jinja::Template template_;
    SeqId seq_;
    bool owns_seq_ = false;
    std::map<std::string, std::string> settings_;
    std::vector<Message> messages_;  // without the system message, and without what was forgotten
    std::vector<Message> said_;      // the same as it was said, and before it the turns that are gone, for a caller who says all of it again
    bool said_whole_ = false;        // the caller says the whole conversation each time
    std::string text_;               // what the last turn's prompt and answer spell
    std::vector<int32_t> tokens_;    // of text_
    std::vector<Mark> marks_;        // ascending
    Forgotten forgotten_;
    size_t answer_gone_ = 0;  // tokens of the answer in progress
    bool answering_ = false;
    std::vector<std::string> control_;  // spellings of control tokens
};

}  // namespace cellar
