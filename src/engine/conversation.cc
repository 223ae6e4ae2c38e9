#include "engine/conversation.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/template/json_input.h"
#include "text/template/unicode.h"

namespace cellar {
namespace {

std::string spell_answer(const text::Tokenizer& words, const std::vector<int32_t>& tokens) {
    text::Detokenizer detokenizer(words, {true, false});
    std::string out;
    for (const int32_t id : tokens)
        if (id < words.size()) out += detokenizer.push(id);  // a model may have rows for more tokens than its vocabulary
    return out + detokenizer.finish();
}

nlohmann::ordered_json to_json(const std::vector<Message>& messages) {
    auto out = nlohmann::ordered_json::array();
    for (const Message& message : messages) out.push_back({{"role", message.role}, {"content", message.content}});
    return out;
}

std::vector<Message> messages_in(const nlohmann::ordered_json& json) {
    std::vector<Message> out;
    for (const auto& message : json) out.push_back({message.at("role"), message.at("content")});
    return out;
}

}  // namespace

Conversation::Conversation(Engine& engine, ConversationOptions options, jinja::Template chat, SeqId seq)
    : engine_(engine), options_(std::move(options)), template_(std::move(chat)), seq_(seq) {
    const text::Tokenizer& words = *engine_.model().tokenizer();
    for (int32_t id = 0; id < words.size(); ++id) {
        const bool only_when_asked = words.type(id) == text::TokenType::Control || words.type(id) == text::TokenType::Unknown;
        if (only_when_asked && !words.piece(id).empty()) control_.emplace_back(words.piece(id));
    }
}

Conversation::~Conversation() {
    if (!owns_seq_) return;
    engine_.keep(seq_);
    engine_.cache().close(seq_);
}

std::string Conversation::template_name(const Engine& engine, const ConversationOptions& options) {
    if (!options.template_text) return "the chat template of " + engine.model().file().path();
    return options.template_name.empty() ? "the chat template that was given" : options.template_name;
}

Result<jinja::Template> Conversation::parse(const Engine& engine, const ConversationOptions& options) {
    const model::Model& model = engine.model();
    if (model.tokenizer() == nullptr) return fail("{}", model.why_no_tokenizer());
    if (!options.template_text && !model.chat_template())
        return fail("{}: the file has no chat template (tokenizer.chat_template); give one with --template FILE, or use raw prompts",
                    model.file().path());
    const std::string& source = options.template_text ? *options.template_text : *model.chat_template();
    auto parsed = jinja::Template::parse(source);
    if (!parsed) return fail("{}: {}", template_name(engine, options), parsed.error().message);
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

Result<std::unique_ptr<Conversation>> Conversation::adopt(Engine& engine, ConversationOptions options, SeqId seq) {
    auto made = make_on(engine, std::move(options), seq);
    if (made) {
        (*made)->owns_seq_ = true;
    } else {
        engine.cache().close(seq);
    }
    return made;
}

std::unique_ptr<Conversation> Conversation::copy_on(SeqId seq) const {
    std::unique_ptr<Conversation> copy(new Conversation(engine_, options_, template_, seq));
    copy->settings_ = settings_;
    copy->messages_ = messages_;
    copy->text_ = text_;
    copy->tokens_ = tokens_;
    copy->marks_ = marks_;
    copy->said_ = said_;
    copy->said_whole_ = said_whole_;
    return copy;
}

Result<std::string> Conversation::render() const {
    return render(messages_);
}

Result<std::string> Conversation::render_with(const std::string& text) const {
    std::vector<Message> messages = messages_;
    messages.push_back({"user", text});
    return render(messages);
}

// The template's text with contents[i] in place of what message i says; the system text, if there is one, is message 0.
Result<std::string> Conversation::render(const std::vector<Message>& history) const {
    if (const auto bad = jinja::invalid_utf8_at(options_.system)) return fail("the system text is not UTF-8 at byte {}", *bad);
    for (const Message& message : history)
        if (const auto bad = jinja::invalid_utf8_at(message.content)) return fail("the {}'s message is not UTF-8 at byte {}", message.role, *bad);
    return render_as(history, contents_of(history));
}

std::vector<std::string> Conversation::contents_of(const std::vector<Message>& history) const {
    std::vector<std::string> out;
    if (!options_.system.empty()) out.push_back(options_.system);
    for (const Message& message : history) out.push_back(message.content);
    return out;
}

Result<std::string> Conversation::render_as(const std::vector<Message>& history, const std::vector<std::string>& contents) const {
    const text::Tokenizer& words = *engine_.model().tokenizer();
    nlohmann::ordered_json variables;
    auto& messages = variables["messages"] = nlohmann::ordered_json::array();
    size_t next = 0;
    const auto add = [&](const std::string& role) { messages.push_back({{"role", role}, {"content", contents[next++]}}); };
    if (!options_.system.empty()) add("system");
    for (const Message& message : history) add(message.role);
    variables["add_generation_prompt"] = true;
    variables["bos_token"] = spelling(words, words.bos());
    variables["eos_token"] = spelling(words, words.eos());
    if (options_.thinking) variables["enable_thinking"] = *options_.thinking;
    auto text = template_.render(variables);
    if (!text) return fail("{}: {}", template_name(engine_, options_), text.error().message);
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

// What people said of a prompt, where it spells control tokens; empty where it spells none, as nearly always.
std::vector<TextSpan> Conversation::plain_parts(const std::string& prompt, const std::vector<Message>& history) const {
    const std::vector<std::string> contents = contents_of(history);
    const auto spells_control = [&](const std::string& content) {
        return std::any_of(control_.begin(), control_.end(), [&](const std::string& piece) { return content.find(piece) != std::string::npos; });
    };
    if (std::none_of(contents.begin(), contents.end(), spells_control)) return {};
    std::vector<std::string> marks;
    for (size_t i = 0; i < contents.size(); ++i) marks.push_back(content_mark(i));
    const auto skeleton = render_as(history, marks);
    if (!skeleton) return {};
    return plain_spans(prompt, *skeleton, contents).value_or(std::vector<TextSpan>());
}

// Tokens of the text from `begin` on. In plain parts nothing becomes a control token.
std::vector<int32_t> Conversation::encode_from(size_t begin, const std::string& prompt, const std::vector<TextSpan>& plain) const {
    const text::Tokenizer& words = *engine_.model().tokenizer();
    const std::string_view text = prompt;
    std::vector<int32_t> out;
    const auto add = [&](size_t end, bool is_plain) {
        if (end <= begin) return;
        const std::string_view part = text.substr(begin, end - begin);
        const std::vector<int32_t> ids = begin == 0 ? encode_prompt(words, part, !is_plain) : words.encode(part, {false, !is_plain});
        out.insert(out.end(), ids.begin(), ids.end());
        begin = end;
    };
    for (const TextSpan& span : plain) {
        add(span.begin, false);
        add(span.end, true);
    }
    add(text.size(), false);
    return out;
}

Result<std::vector<int32_t>> Conversation::encode_with(const std::string& text) const {
    std::vector<Message> messages = messages_;
    messages.push_back({"user", text});
    CELLAR_TRY(const std::string prompt, render(messages));
    return encode_from(0, prompt, plain_parts(prompt, messages));
}

// What the next prompt begins with, as far as that can be known. Some templates refuse what does not end with a message of the user: then it is what
// they write before one, whatever it says.
std::string Conversation::beginning_of_next() const {
    if (auto prompt = render()) return *std::move(prompt);
    const auto one = render_with("0");
    const auto other = render_with("1");
    if (!one || !other) return "";
    return {one->begin(), std::mismatch(one->begin(), one->end(), other->begin(), other->end()).first};
}

// Lets go of text and tokens behind the last mark that the prompt begins with.
void Conversation::keep_beginning_of(const std::string& prompt) {
    const auto fits = [&](const Mark& mark) {
        return can_cut_after(mark.tokens) && prompt.compare(0, mark.text, text_, 0, mark.text) == 0 && prompt.size() >= mark.text;
    };
    while (!marks_.empty() && !fits(marks_.back())) marks_.pop_back();
    const Mark end = marks_.empty() ? Mark{} : marks_.back();
    text_.resize(end.text);
    tokens_.resize(end.tokens);
}

void Conversation::tokens_of(const std::string& prompt, const std::vector<Message>& history) {
    const std::vector<TextSpan> plain = plain_parts(prompt, history);
    keep_beginning_of(prompt);
    if (marks_.empty()) {
        tokens_ = encode_from(0, prompt, plain);
    } else {
        const std::vector<int32_t> rest = encode_from(marks_.back().text, prompt, plain);
        tokens_.insert(tokens_.end(), rest.begin(), rest.end());
    }
    text_ = prompt;
    marks_.push_back({text_.size(), tokens_.size()});
}

Result<Answer> Conversation::answer(const GenerateOptions& options, const TakeText& take, const Cancel* cancel, const Progress& progress) {
    forgotten_ = {};
    answer_gone_ = 0;
    CELLAR_TRY(const std::string prompt, render());
    tokens_of(prompt, messages_);
    CELLAR_TRY_VOID(fit());
    GenerateOptions inner = options;
    inner.make_room = [this](std::span<const int32_t> so_far) { return make_room(so_far); };
    auto result = generate(engine_, seq_, std::vector<int32_t>(tokens_), inner, take, cancel, progress);
    // The context suffices, but cells or budget do not: then the oldest turns go all the same.
    const auto is_full = [&] { return !result && result.error().kind == ErrorKind::Full && options_.overflow != Overflow::Stop; };
    while (is_full() && turns_hold_room() && forget(tokens_to_free(engine_, Overflow::DropTurns)) > 0)
        result = generate(engine_, seq_, std::vector<int32_t>(tokens_), inner, take, cancel, progress);
    if (!result) return result;
    const std::vector<int32_t> left(result->tokens.begin() + static_cast<std::ptrdiff_t>(answer_gone_), result->tokens.end());
    messages_.push_back({"assistant", remembered(*result, options)});
    said_.push_back({"assistant", result->text});
    tokens_.insert(tokens_.end(), left.begin(), left.end());
    text_ += spell_answer(*engine_.model().tokenizer(), left);
    marks_.push_back({text_.size(), tokens_.size()});
    result->forgotten = forgotten_;
    return result;
}

Result<Answer> Conversation::say(std::string text, const GenerateOptions& options, const TakeText& take, const Cancel* cancel,
                                 const Progress& progress) {
    // Behind a turn that failed nothing is forgotten: the rows of old turns are read anew, their words could not be had again.
    std::vector<Message> former = messages_;
    const int32_t held = engine_.cache().length(seq_);
    said_.push_back({"user", std::move(text)});
    messages_.push_back(said_.back());
    auto result = answer(options, take, cancel, progress);
    if (!result) {
        messages_ = std::move(former);
        said_.pop_back();
        forgotten_ = {};
        let_go_of_refused(held);
    }
    return result;
}

Result<Answer> Conversation::again(const GenerateOptions& options, const TakeText& take, const Cancel* cancel, const Progress& progress) {
    if (messages_.empty()) return fail("there is no turn to answer again");
    std::vector<Message> former = messages_;
    std::optional<Message> former_answer;
    if (messages_.back().role == "assistant") {
        messages_.pop_back();
        former_answer = std::move(said_.back());
        said_.pop_back();
    }
    auto result = answer(options, take, cancel, progress);
    if (!result) {
        messages_ = std::move(former);
        if (former_answer) said_.push_back(*std::move(former_answer));
        forgotten_ = {};
    }
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
    std::vector<Message> former = messages_;
    const int32_t held = engine_.cache().length(seq_);
    std::vector<Message> former_said = said_;
    take_over(std::move(messages));
    std::swap(options_.system, system);
    auto result = answer(options, take, cancel, progress);
    said_whole_ = said_whole_ || result;
    if (!result) {
        std::swap(options_.system, system);
        messages_ = std::move(former);
        said_ = std::move(former_said);
        forgotten_ = {};
        let_go_of_refused(held);
    }
    return result;
}

std::string Conversation::state() const {
    nlohmann::ordered_json out;
    out["version"] = 1;
    out["system"] = options_.system;
    out["messages"] = to_json(messages_);
    // Only for a caller who will say them again: what was forgotten should not stay in a file for nothing.
    if (said_whole_) out["said"] = to_json(said_);
    out["settings"] = settings_;
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
        std::vector<Message> messages = messages_in(json.at("messages"));
        const bool said_whole = json.contains("said");
        std::vector<Message> said = said_whole ? messages_in(json.at("said")) : messages;
        if (said.size() < messages.size()) return refuse("it remembers more messages than were said");
        std::string text = json.at("text");
        const std::vector<int32_t> last = json.at("last_tokens");
        const size_t count = json.at("tokens");
        const auto held = static_cast<size_t>(engine_.cache().length(seq_));
        if (count < last.size()) return refuse("it has fewer tokens than it says");
        const bool whole = count - last.size() <= held;
        std::vector<Token> stored(std::min(count - last.size(), held));
        engine_.cache().copy_tokens(seq_, {0, static_cast<int32_t>(stored.size())}, stored);
        std::vector<int32_t> tokens;
        tokens.reserve(stored.size() + last.size());
        for (const Token& token : stored) tokens.push_back(token.id);
        for (const int32_t id : last) {
            if (id < 0 || id >= engine_.model().config().vocabulary) return refuse("a token is outside the vocabulary");
            if (whole) tokens.push_back(id);
        }
        std::vector<Mark> marks;
        for (const auto& mark : json.at("marks")) {
            const Mark former = marks.empty() ? Mark{} : marks.back();
            marks.push_back({mark.at(0), mark.at(1)});
            if (marks.back().text < former.text || marks.back().tokens < former.tokens) return refuse("its marks are out of order");
            if (marks.back().text > text.size() || marks.back().tokens > count) return refuse("a mark is outside its text");
        }
        // Text without its tokens is cut into tokens anew.
        while (!marks.empty() && marks.back().tokens > tokens.size()) marks.pop_back();
        if (!whole) {
            text.resize(marks.empty() ? 0 : marks.back().text);
            tokens.resize(marks.empty() ? 0 : marks.back().tokens);
        }
        std::map<std::string, std::string> settings;
        if (json.contains("settings")) settings = json.at("settings").get<std::map<std::string, std::string>>();
        std::string system = json.at("system");
        options_.system = std::move(system);
        settings_ = std::move(settings);
        said_ = std::move(said);
        said_whole_ = said_whole;
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
    std::unique_ptr<Conversation> out = copy_on(seq);
    out->owns_seq_ = true;
    return out;
}

int Conversation::turns() const {
    return static_cast<int>(std::count_if(messages_.begin(), messages_.end(), [](const Message& message) { return message.role == "user"; }));
}

void Conversation::rewind(int turns) {
    CHECK_GE(turns, 0);
    int seen = 0;
    const auto end =
        std::find_if(messages_.begin(), messages_.end(), [&](const Message& message) { return message.role == "user" && seen++ == turns; });
    said_.resize(said_.size() - static_cast<size_t>(messages_.end() - end));
    if (end == messages_.end()) return;
    messages_.erase(end, messages_.end());
    let_go_of_rest();
}

// What the conversation does not say any more holds no cells and gets into no file. Until somebody needs the room, whoever says it again
// finds its rows.
void Conversation::let_go_of_rest() {
    keep_beginning_of(beginning_of_next());
    engine_.keep(seq_);
    kv::Cache& cache = engine_.cache();
    cache.trim(seq_, cache.common_prefix(seq_, std::span<const int32_t>(tokens_)));
}

// The same behind a message that got no answer. Where none of it was run, the sequence stays as its owner left it.
void Conversation::let_go_of_refused(int32_t held_before) {
    if (engine_.cache().length(seq_) != held_before) return let_go_of_rest();
    keep_beginning_of(beginning_of_next());
}

bool Conversation::undo() {
    if (turns() == 0) return false;
    rewind(turns() - 1);
    return true;
}

void Conversation::clear() {
    messages_.clear();
    said_.clear();
    text_.clear();
    tokens_.clear();
    marks_.clear();
    // Whoever needs the room has it now; until then the next conversation with this system text finds its rows.
    engine_.keep(seq_);
    engine_.cache().trim(seq_, 0);
}

void Conversation::set_system(std::string text) {
    options_.system = std::move(text);
    let_go_of_rest();
}

}  // namespace cellar
