// How a conversation forgets: messages, text, tokens, marks and rows lose the same part, so that the next turn runs only what is new.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "engine/conversation.h"
#include "text/detokenizer.h"

namespace cellar {
namespace {

constexpr size_t kUnknown = SIZE_MAX;

bool begins_character(std::string_view text, size_t at) {
    return at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U;
}

bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

}  // namespace

// Where in the text each token begins, [tokens + 1]; kUnknown where the spelling of tokens does not tell.
std::vector<size_t> Conversation::text_offsets() const {
    const text::Tokenizer& words = *engine_.model().tokenizer();
    std::vector<size_t> out(tokens_.size() + 1, kUnknown);
    size_t at = 0;
    auto mark = marks_.begin();
    for (size_t t = 0; t <= tokens_.size(); ++t) {
        for (; mark != marks_.end() && mark->tokens <= t; ++mark)
            if (mark->tokens == t) at = mark->text;
        out[t] = at;
        if (t == tokens_.size() || at == kUnknown) continue;
        std::string bytes = tokens_[t] < words.size() ? words.decode(tokens_[t], true) : std::string();
        const auto fits = [&] { return text_.compare(at, bytes.size(), bytes) == 0; };
        if (!fits() && t == 0 && words.bos() == tokens_[0]) bytes.clear();  // put there, not spelled
        if (!fits() && bytes.starts_with(' ')) bytes.erase(0, 1);           // a space that the tokenizer put there
        at = fits() ? at + bytes.size() : kUnknown;
    }
    return out;
}

// Lets go the one stretch that the text has and `shorter` lacks, where it begins and ends between tokens. False with nothing done where there
// is no such stretch.
bool Conversation::cut_to(const std::string& shorter) {
    if (shorter.size() >= text_.size()) return false;
    const size_t gone = text_.size() - shorter.size();
    const auto differ = std::mismatch(shorter.begin(), shorter.end(), text_.begin());
    const auto most = static_cast<size_t>(differ.first - shorter.begin());
    if (text_.compare(most + gone, std::string::npos, shorter, most, std::string::npos) != 0) return false;
    // The same stretch may begin earlier where what stands before it also stands before its end.
    size_t least = most;
    while (least > 0 && text_[least - 1] == text_[least - 1 + gone]) --least;
    const text::Tokenizer& words = *engine_.model().tokenizer();
    const std::vector<size_t> offsets = text_offsets();
    std::map<size_t, size_t> token_at;
    for (size_t t = 0; t < offsets.size(); ++t)
        if (offsets[t] != kUnknown) token_at[offsets[t]] = t;
    size_t first = kUnknown;
    size_t last = kUnknown;
    bool at_control = false;
    for (auto entry = token_at.lower_bound(least); entry != token_at.end() && entry->first <= most; ++entry) {
        const auto end = token_at.find(entry->first + gone);
        if (end == token_at.end()) continue;
        const size_t token = entry->second;
        const bool control = token < tokens_.size() && tokens_[token] < words.size() && words.stands_for_itself(tokens_[token]);
        // Where a message begins is better than where one ends, and both are better than the middle of one.
        if (at_control && !control) continue;
        first = token;
        last = end->second;
        at_control = control;
    }
    if (first == kUnknown || last <= first || !let_go(first, last)) return false;
    std::erase_if(marks_, [&](const Mark& mark) { return mark.tokens > first && mark.tokens < last; });
    const size_t text_first = offsets[first];
    for (Mark& mark : marks_) {
        if (mark.tokens < last) continue;
        mark.tokens -= last - first;
        mark.text -= gone;
    }
    std::erase_if(marks_, [&](const Mark& mark) { return mark.tokens == first && mark.text != text_first; });
    tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(first), tokens_.begin() + static_cast<std::ptrdiff_t>(last));
    text_ = shorter;
    return true;
}

// Rows of tokens [first, last) of the prompt. False with nothing done where an answer in progress would lose rows that it stands on.
bool Conversation::let_go(size_t first, size_t last) {
    kv::Cache& cache = engine_.cache();
    const int32_t common = cache.common_prefix(seq_, std::span<const int32_t>(tokens_));
    // Behind a prompt that is all there comes its answer; otherwise what comes is of another one.
    if (static_cast<size_t>(common) < tokens_.size()) cache.trim(seq_, common);
    const auto lo = static_cast<int32_t>(first);
    const auto hi = static_cast<int32_t>(last);
    if (hi > cache.length(seq_)) {
        cache.trim(seq_, std::min(lo, cache.length(seq_)));
    } else if (!cache.remove_and_shift(seq_, {lo, hi})) {
        if (answering_) return false;
        cache.trim(seq_, lo);  // a window would have to reach back: what is behind is run again
    }
    return true;
}

// How many messages the oldest turn has; 0 when it is the one that is being answered.
size_t Conversation::oldest_turn() const {
    for (size_t i = 1; i < messages_.size(); ++i)
        if (messages_[i].role == "user") return i;
    return 0;
}

// Makes `messages` all that is remembered and returns how many tokens that freed; 0 with nothing done. Cuts where that can be done; else
// the prompt is cut into tokens anew, and rows are kept as far as it begins with what was there. That cannot be done in the middle of an answer.
int32_t Conversation::become(std::vector<Message> messages) {
    auto shorter = render(messages);
    if (!shorter) return 0;
    const size_t before = tokens_.size();
    if (!cut_to(*shorter)) {
        if (answering_) return 0;
        std::string text = text_;
        std::vector<int32_t> tokens = tokens_;
        std::vector<Mark> marks = marks_;
        tokens_of(*shorter, messages);
        // A template may write more for fewer messages.
        if (tokens_.size() >= before) {
            text_ = std::move(text);
            tokens_ = std::move(tokens);
            marks_ = std::move(marks);
            return 0;
        }
    }
    messages_ = std::move(messages);
    return static_cast<int32_t>(before - tokens_.size());
}

int32_t Conversation::forget_turn() {
    const size_t count = oldest_turn();
    if (count == 0) return 0;
    const int32_t freed = become({messages_.begin() + static_cast<std::ptrdiff_t>(count), messages_.end()});
    if (freed > 0) ++forgotten_.turns;
    return freed;
}

// The beginning of the first message of the oldest turn that has any left, about `wanted` tokens of it.
int32_t Conversation::forget_within_turn(int32_t wanted) {
    const size_t count = oldest_turn();
    const std::vector<size_t> offsets = text_offsets();
    const size_t system = text_.find(options_.system);
    size_t from = system == std::string::npos ? 0 : system + options_.system.size();
    for (size_t i = 0; i < count; ++i) {
        const std::string& content = messages_[i].content;
        const size_t begin = content.empty() ? std::string::npos : text_.find(content, from);
        if (begin == std::string::npos) continue;
        // The end of the token before which enough is gone, but never in a character, nor before a space that a template might drop.
        size_t cut = content.size();
        int32_t seen = 0;
        for (const size_t offset : offsets) {
            if (offset == kUnknown || offset <= begin || offset >= begin + content.size()) continue;
            if (++seen < wanted || !begins_character(text_, offset) || is_space(text_[offset])) continue;
            cut = offset - begin;
            break;
        }
        std::vector<Message> messages = messages_;
        messages[i].content = content.substr(cut);
        if (const int32_t freed = become(std::move(messages)); freed > 0) return freed;
        from = begin;
    }
    return 0;
}

// Lets go at least `wanted` tokens of turns before the current one, as far as there are any. Returns how many went.
int32_t Conversation::forget(int32_t wanted) {
    int32_t freed = 0;
    const bool whole_turns = options_.overflow == Overflow::DropTurns;
    while (freed < wanted && oldest_turn() != 0) {
        int32_t now = 0;
        if (!whole_turns && oldest_turn_tokens() > wanted - freed) now = forget_within_turn(wanted - freed);
        if (now == 0) now = forget_turn();
        if (now == 0) break;
        freed += now;
    }
    forgotten_.tokens += freed;
    return freed;
}

// About how many tokens forgetting the oldest turn would free.
int32_t Conversation::oldest_turn_tokens() const {
    size_t bytes = 0;
    for (size_t i = 0; i < oldest_turn(); ++i) bytes += messages_[i].content.size();
    return static_cast<int32_t>(tokens_.size() * bytes / std::max<size_t>(text_.size(), 1));
}

// Whether cells get free when turns before the current one are forgotten. They do not while other sequences hold them too.
bool Conversation::turns_hold_room() const {
    const kv::Cache& cache = engine_.cache();
    const auto before = std::find_if(marks_.rbegin(), marks_.rend(), [&](const Mark& mark) { return mark.tokens < tokens_.size(); });
    const auto end = static_cast<int32_t>(before == marks_.rend() ? tokens_.size() : before->tokens);
    // What is not there need not be read. The last token of an answer is always read with what follows it.
    if (end > cache.common_prefix(seq_, std::span<const int32_t>(tokens_)) + 1) return true;
    const int32_t cells = cache.limits().block;
    for (int group = 0; group < static_cast<int>(cache.spec().groups.size()); ++group) {
        std::map<int32_t, int32_t> last;  // of each block, the last position that lies in it
        for (const kv::Run& run : cache.runs(seq_, group))
            for (int32_t at = 0; at < run.len; at += cells - (run.cell + at) % cells)
                last[(run.cell + at) / cells] = std::min(run.end(), run.pos + at + cells - (run.cell + at) % cells) - 1;
        for (const auto& [block, pos] : last)
            if (pos < end && cache.holders(group, block) == 1) return true;
    }
    return false;
}

// Makes room behind an answer in progress. False when nothing may go.
bool Conversation::make_room(std::span<const int32_t> answer) {
    if (options_.overflow == Overflow::Stop) return false;
    int32_t freed = 0;
    if (engine_.cache().length(seq_) >= engine_.context() || turns_hold_room()) {
        answering_ = true;
        freed = forget(tokens_to_free(engine_, options_.overflow));
        answering_ = false;
    }
    if (freed > 0) return true;
    const std::span<const int32_t> held = answer.subspan(answer_gone_, answer.size() - 1 - answer_gone_);
    const int32_t gone = forget_of_answer(engine_, seq_, static_cast<int32_t>(tokens_.size()), held, options_.overflow);
    answer_gone_ += static_cast<size_t>(gone);
    forgotten_.tokens += gone;
    return gone > 0;
}

// Makes the prompt fit before it is run, with an eighth of the context to spare where that can be had.
Result<void> Conversation::fit() {
    const int64_t context = engine_.context();
    const auto size = [&] { return static_cast<int64_t>(tokens_.size()); };
    if (options_.overflow == Overflow::Stop || size() < context) return {};
    size_t last = messages_.size();
    while (last > 0 && messages_[last - 1].role != "user") --last;
    CELLAR_TRY(const std::string alone, render({messages_.begin() + static_cast<std::ptrdiff_t>(last == 0 ? 0 : last - 1), messages_.end()}));
    const size_t least = encode_prompt(*engine_.model().tokenizer(), alone).size();
    if (static_cast<int64_t>(least) >= context)
        return fail(ErrorKind::Full,
                    "with nothing but the system text this message makes a prompt of {} tokens, but the context holds {}: shorten it, or raise --ctx",
                    least, context);
    forget(static_cast<int32_t>(size() - context) + std::max<int32_t>(tokens_to_free(engine_, Overflow::DropTurns), 1));
    return {};
}

// Goes on with messages that replace all that was said. A caller who repeats the whole conversation also repeats what was forgotten of it,
// which stays forgotten.
void Conversation::take_over(std::vector<Message> messages) {
    const bool repeats = messages.size() > said_.size() && std::equal(said_.begin(), said_.end(), messages.begin());
    if (repeats) {
        messages_.insert(messages_.end(), messages.begin() + static_cast<std::ptrdiff_t>(said_.size()), messages.end());
    } else {
        messages_ = messages;
    }
    said_ = std::move(messages);
}

// What the conversation remembers of an answer whose beginning was let go.
std::string Conversation::remembered(const Answer& answer, const GenerateOptions& options) const {
    if (answer_gone_ == 0) return answer.text;
    const text::Tokenizer& words = *engine_.model().tokenizer();
    text::Detokenizer gone(words, {options.render_special, !options.continues_text});
    size_t bytes = 0;
    for (size_t i = 0; i < answer_gone_; ++i)
        if (answer.tokens[i] < words.size()) bytes += gone.push(answer.tokens[i]).size();
    return answer.text.substr(std::min(bytes, answer.text.size()));
}

}  // namespace cellar
