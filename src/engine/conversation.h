#pragma once
// A chat: messages, the template that turns them into a prompt, and the tokens that were really sampled.
//
// The answers of earlier turns keep the tokens that the model produced, also where their text would be cut into others now, so
// that a turn runs only what is new. Where a template rewrites what was said, the tokens are kept up to the last
// boundary that the new prompt still begins with.
//
// Thread rule: as the engine's.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/generate.h"
#include "text/template/template.h"

namespace cellar {

struct Message {
    std::string role;  // "system", "user", "assistant"
    std::string content;
    friend bool operator==(const Message&, const Message&) = default;
};

struct ConversationOptions {
    std::string system;                        // empty: no system message
    std::optional<std::string> template_text;  // instead of the model's own
    std::optional<bool> thinking;              // the template's variable enable_thinking; unset: its default
};

class Conversation {
  public:
    // Refuses models without a vocabulary or without a template.
    static Result<std::unique_ptr<Conversation>> make(Engine& engine, ConversationOptions options);
    // The same on a sequence that the caller owns and closes after the conversation. Whatever the caller does with it between turns,
    // a turn reuses of it what its prompt begins with.
    static Result<std::unique_ptr<Conversation>> make_on(Engine& engine, ConversationOptions options, SeqId seq);
    // The same turns on another sequence that the caller owns, such as a fork of this one.
    [[nodiscard]] std::unique_ptr<Conversation> copy_on(SeqId seq) const;
    ~Conversation();
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    [[nodiscard]] const std::vector<Message>& messages() const { return messages_; }
    [[nodiscard]] const std::string& system() const { return options_.system; }
    [[nodiscard]] SeqId seq() const { return seq_; }

    // Adds what the user said and lets the model answer. On an error the message is taken back; the answer of a cancelled turn,
    // as far as it came, is kept.
    Result<Answer> say(std::string text, const GenerateOptions& options, const TakeText& take = {}, const Cancel* cancel = nullptr,
                       const Progress& progress = {});
    // Answers the last user message again. Refuses when there is none.
    Result<Answer> again(const GenerateOptions& options, const TakeText& take = {}, const Cancel* cancel = nullptr, const Progress& progress = {});

    // Answers the last of these messages, which replace all that was said; a system message among them only as the first. On an error
    // everything is as it was.
    Result<Answer> reply(std::vector<Message> messages, const GenerateOptions& options, const TakeText& take = {}, const Cancel* cancel = nullptr,
                         const Progress& progress = {});

    bool undo();                        // takes back the last turn; false when there is none
    void clear();                       // forgets all turns, keeps the system text
    void set_system(std::string text);  // from the next turn on

    // What belongs to the chat beside the rows of its sequence, as text: messages, system text, the tokens behind the text.
    [[nodiscard]] std::string state() const;
    // Takes a state over, into a chat whose sequence already holds the rows that were saved with it. Refuses what is no state, or does not
    // belong to these rows; the chat is then as it was.
    Result<void> resume(const std::string& state);
    // A chat that goes on from here on its own, and shares every row so far.
    [[nodiscard]] Result<std::unique_ptr<Conversation>> fork() const;

    // The prompt as the template renders it, with the system message and everything said so far.
    [[nodiscard]] Result<std::string> render() const;
    // As it would be after the user said this.
    [[nodiscard]] Result<std::string> render_with(const std::string& text) const;

  private:
    Conversation(Engine& engine, ConversationOptions options, jinja::Template chat, SeqId seq);
    static Result<jinja::Template> parse(const Engine& engine, const ConversationOptions& options);
    [[nodiscard]] Result<std::string> render(const std::vector<Message>& messages) const;
    Result<Answer> answer(const GenerateOptions& options, const TakeText& take, const Cancel* cancel, const Progress& progress);
    [[nodiscard]] std::vector<int32_t> tokens_of(const std::string& prompt);
    [[nodiscard]] bool can_cut_after(size_t tokens) const;

    // A place where text and tokens are known to belong together.
    struct Mark {
        size_t text = 0;
        size_t tokens = 0;
    };

    Engine& engine_;
    ConversationOptions options_;
    jinja::Template template_;
    SeqId seq_;
    bool owns_seq_ = false;
    std::vector<Message> messages_;  // without the system message
    std::string text_;               // what the last turn's prompt and answer spell
    std::vector<int32_t> tokens_;    // of text_
    std::vector<Mark> marks_;        // ascending
};

// A prompt's tokens: the template's text parsed with special tokens, BOS put before it only where the text does not begin with it.
std::vector<int32_t> encode_prompt(const text::Tokenizer& words, std::string_view prompt);

// True when a prompt leaves the model in the middle of its thinking: the last <think> is open.
bool ends_in_thinking(std::string_view prompt);

}  // namespace cellar
