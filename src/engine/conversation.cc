#include "engine/conversation.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/template/json_input.h"

namespace cellar {
namespace {

std::string spelling(const text::Tokenizer& words, std::optional<int32_t> id) {
    return id ? words.decode(*id, true) : std::string();
}

std::string spell_answer(const text::Tokenizer& words, const std::vector<int32_t>& tokens) {
    text::Detokenizer detokenizer(words, {true, false});
    std::string out;
    for (const int32_t id : tokens)
        if (id < words.size()) out += detokenizer.push(id);  // a model may have rows for more tokens than its vocabulary
    return out + detokenizer.finish();
}

}  // namespace

std::vector<int32_t> encode_prompt(const text::Tokenizer& words, std::string_view prompt) {
    const std::string bos = spelling(words, words.bos());
    const bool has_bos = !bos.empty() && prompt.starts_with(bos);
    return words.encode(prompt, {!has_bos, true});
}

Conversation::Conversation(Engine& engine, ConversationOptions options, jinja::Template chat, SeqId seq)
    : engine_(engine), options_(std::move(options)), template_(std::move(chat)), seq_(seq) {}

Conversation::~Conversation() {
    if (owns_seq_) engine_.cache().close(seq_);
}

Result<jinja::Template> Conversation::parse(const Engine& engine, const ConversationOptions& options) {
    const model::Model& model = engine.model();
    if (model.tokenizer() == nullptr) return fail("{}", model.why_no_tokenizer());
    if (!options.template_text && !model.chat_template())
        return fail("{}: the file has no chat template (tokenizer.chat_template); give one with --template FILE, or use raw prompts",
                    model.file().path());
    const std::string& source = options.template_text ? *options.template_text : *model.chat_template();
    auto parsed = jinja::Template::parse(source);
    if (!parsed) return fail("the chat template of {}: {}", model.file().path(), parsed.error().message);
    return parsed;
}

Result<std::unique_ptr<Conversation>> Conversation::make(Engine& engine, ConversationOptions options) {
    CELLAR_TRY(jinja::Template chat, parse(engine, options));
    CELLAR_TRY(const SeqId seq, engine.cache().open());
    std::unique_ptr<Conversation> made(new Conversation(engine, std::move(options), std::move(chat), seq));
    made->owns_seq_ = true;
    return made;
}

Result<std::unique_ptr<Conversation>> Conversation::make_on(Engine& engine, ConversationOptions options, SeqId seq) {
    CELLAR_TRY(jinja::Template chat, parse(engine, options));
    return std::unique_ptr<Conversation>(new Conversation(engine, std::move(options), std::move(chat), seq));
}

std::unique_ptr<Conversation> Conversation::copy_on(SeqId seq) const {
    std::unique_ptr<Conversation> copy(new Conversation(engine_, options_, template_, seq));
    copy->messages_ = messages_;
    copy->text_ = text_;
    copy->tokens_ = tokens_;
    copy->marks_ = marks_;
    return copy;
}

bool ends_in_thinking(std::string_view prompt) {
    const size_t open = prompt.rfind("<think>");
    return open != std::string_view::npos && prompt.find("</think>", open) == std::string_view::npos;
}

Result<std::string> Conversation::render() const {
    return render(messages_);
}

Result<std::string> Conversation::render_with(const std::string& text) const {
    std::vector<Message> messages = messages_;
    messages.push_back({"user", text});
    return render(messages);
}

Result<std::string> Conversation::render(const std::vector<Message>& history) const {
    const text::Tokenizer& words = *engine_.model().tokenizer();
    nlohmann::ordered_json variables;
    auto& messages = variables["messages"] = nlohmann::ordered_json::array();
    const auto add = [&](const std::string& role, const std::string& content) { messages.push_back({{"role", role}, {"content", content}}); };
    if (!options_.system.empty()) add("system", options_.system);
    for (const Message& message : history) add(message.role, message.content);
    variables["add_generation_prompt"] = true;
    variables["bos_token"] = spelling(words, words.bos());
    variables["eos_token"] = spelling(words, words.eos());
    if (options_.thinking) variables["enable_thinking"] = *options_.thinking;
    auto text = template_.render(variables);
    if (!text) return fail("the chat template of {}: {}", engine_.model().file().path(), text.error().message);
    return text;
}

// Text after this many tokens can be cut into tokens on its own: nothing would put a space before it that is not there.
bool Conversation::can_cut_after(size_t tokens) const {
    const text::Tokenizer& words = *engine_.model().tokenizer();
    if (tokens == 0 || !words.adds_space()) return true;
    if (tokens_[tokens - 1] >= words.size()) return false;
    const text::TokenType type = words.type(tokens_[tokens - 1]);
    return type == text::TokenType::Control || type == text::TokenType::UserDefined;
}

std::vector<int32_t> Conversation::tokens_of(const std::string& prompt) {
    const text::Tokenizer& words = *engine_.model().tokenizer();
    const auto fits = [&](const Mark& mark) {
        return can_cut_after(mark.tokens) && prompt.compare(0, mark.text, text_, 0, mark.text) == 0 && prompt.size() >= mark.text;
    };
    while (!marks_.empty() && !fits(marks_.back())) marks_.pop_back();
    if (marks_.empty()) {
        tokens_ = encode_prompt(words, prompt);
    } else {
        tokens_.resize(marks_.back().tokens);
        const std::vector<int32_t> rest = words.encode(std::string_view(prompt).substr(marks_.back().text), {false, true});
        tokens_.insert(tokens_.end(), rest.begin(), rest.end());
    }
    text_ = prompt;
    marks_.push_back({text_.size(), tokens_.size()});
    return tokens_;
}

Result<Answer> Conversation::answer(const GenerateOptions& options, const TakeText& take, const Cancel* cancel, const Progress& progress) {
    CELLAR_TRY(const std::string prompt, render());
    const std::vector<int32_t> tokens = tokens_of(prompt);
    CELLAR_TRY(Answer answer, generate(engine_, seq_, tokens, options, take, cancel, progress));
    messages_.push_back({"assistant", answer.text});
    tokens_.insert(tokens_.end(), answer.tokens.begin(), answer.tokens.end());
    text_ += spell_answer(*engine_.model().tokenizer(), answer.tokens);
    marks_.push_back({text_.size(), tokens_.size()});
    return answer;
}

Result<Answer> Conversation::say(std::string text, const GenerateOptions& options, const TakeText& take, const Cancel* cancel,
                                 const Progress& progress) {
    messages_.push_back({"user", std::move(text)});
    auto result = answer(options, take, cancel, progress);
    if (!result) messages_.pop_back();
    return result;
}

Result<Answer> Conversation::again(const GenerateOptions& options, const TakeText& take, const Cancel* cancel, const Progress& progress) {
    const bool answered = !messages_.empty() && messages_.back().role == "assistant";
    if (messages_.empty()) return fail("there is no turn to answer again");
    std::optional<Message> former;
    if (answered) {
        former = std::move(messages_.back());
        messages_.pop_back();
    }
    auto result = answer(options, take, cancel, progress);
    if (!result && former) messages_.push_back(*std::move(former));
    return result;
}

Result<Answer> Conversation::reply(std::vector<Message> messages, const GenerateOptions& options, const TakeText& take, const Cancel* cancel,
                                   const Progress& progress) {
    std::string system;
    const bool has_system = !messages.empty() && messages.front().role == "system";
    if (has_system) {
        system = std::move(messages.front().content);
        messages.erase(messages.begin());
    }
    if (messages.empty()) return fail("there is no message to answer");
    if (messages.back().role == "assistant") return fail("the last message is the assistant's: there is nothing to answer");
    for (size_t i = 0; i < messages.size(); ++i)
        if (messages[i].role == "system")
            return fail("message {} of the conversation is a system message; only the first one may be", i + (has_system ? 1 : 0));
    std::swap(options_.system, system);
    std::swap(messages_, messages);
    auto result = answer(options, take, cancel, progress);
    if (!result) {
        std::swap(options_.system, system);
        std::swap(messages_, messages);
    }
    return result;
}

std::string Conversation::state() const {
    nlohmann::ordered_json out;
    out["version"] = 1;
    out["system"] = options_.system;
    auto& messages = out["messages"] = nlohmann::ordered_json::array();
    for (const Message& message : messages_) messages.push_back({{"role", message.role}, {"content", message.content}});
    out["text"] = text_;
    auto& marks = out["marks"] = nlohmann::ordered_json::array();
    for (const Mark& mark : marks_) marks.push_back({mark.text, mark.tokens});
    // The sequence holds the others.
    const auto held = static_cast<size_t>(engine_.cache().common_prefix(seq_, std::span<const int32_t>(tokens_)));
    out["tokens"] = tokens_.size();
    out["last_tokens"] = std::vector<int32_t>(tokens_.begin() + static_cast<std::ptrdiff_t>(held), tokens_.end());
    return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<void> Conversation::resume(const std::string& state) {
    CELLAR_TRY(const nlohmann::ordered_json json, jinja::parse_json_bounded(state));
    const auto refuse = [](std::string_view what) { return fail("the saved chat is damaged: {}", what); };
    try {
        if (json.at("version") != 1) return refuse("its version is not known");
        std::vector<Message> messages;
        for (const auto& message : json.at("messages")) messages.push_back({message.at("role"), message.at("content")});
        std::string text = json.at("text");
        const std::vector<int32_t> last = json.at("last_tokens");
        const size_t count = json.at("tokens");
        const auto held = static_cast<size_t>(engine_.cache().length(seq_));
        if (count < last.size() || count - last.size() > held) return refuse("its rows are missing");
        std::vector<Token> stored(count - last.size());
        engine_.cache().copy_tokens(seq_, {0, static_cast<int32_t>(stored.size())}, stored);
        std::vector<int32_t> tokens;
        for (const Token& token : stored) tokens.push_back(token.id);
        for (const int32_t id : last) {
            if (id < 0 || id >= engine_.model().config().vocabulary) return refuse("a token is outside the vocabulary");
            tokens.push_back(id);
        }
        std::vector<Mark> marks;
        for (const auto& mark : json.at("marks")) {
            const Mark former = marks.empty() ? Mark{} : marks.back();
            marks.push_back({mark.at(0), mark.at(1)});
            if (marks.back().text < former.text || marks.back().tokens < former.tokens) return refuse("its marks are out of order");
            if (marks.back().text > text.size() || marks.back().tokens > tokens.size()) return refuse("a mark is outside its text");
        }
        std::string system = json.at("system");
        options_.system = std::move(system);
        messages_ = std::move(messages);
        text_ = std::move(text);
        tokens_ = std::move(tokens);
        marks_ = std::move(marks);
        return {};
    } catch (const nlohmann::json::exception& error) {
        return refuse("a field is missing or of another type");
    }
}

Result<std::unique_ptr<Conversation>> Conversation::fork() const {
    CELLAR_TRY(const SeqId seq, engine_.cache().fork(seq_, engine_.cache().length(seq_)));
    std::unique_ptr<Conversation> out(new Conversation(engine_, options_, template_, seq));
    out->messages_ = messages_;
    out->text_ = text_;
    out->tokens_ = tokens_;
    out->marks_ = marks_;
    return out;
}

bool Conversation::undo() {
    if (messages_.empty()) return false;
    while (!messages_.empty() && messages_.back().role == "assistant") messages_.pop_back();
    if (!messages_.empty()) messages_.pop_back();
    return true;
}

void Conversation::clear() {
    messages_.clear();
}

void Conversation::set_system(std::string text) {
    options_.system = std::move(text);
}

}  // namespace cellar
