#include "text/pretokenizer.h"

#include <algorithm>
#include <optional>
#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/ranges.h>
#include <pcre2.h>

#include "base/check.h"
#include "base/quote.h"
#include "text/pretokenizer_table.h"
#include "text/utf8.h"

namespace cellar::text {

namespace {

template <auto free>
struct Free {
    template <class T>
    void operator()(T* object) const {
        free(object);
    }
};
using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>>;

// What a match needs besides the expression: one for each thread.
struct Workspace {
    MatchData match{pcre2_match_data_create(1, nullptr)};
    MatchContext context{pcre2_match_context_create(nullptr)};
    JitStack stack{pcre2_jit_stack_create(32 * 1024, 8 * 1024 * 1024, nullptr)};

    Workspace() {
        CHECK(match && context && stack);
        pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
        pcre2_set_match_limit(context.get(), UINT32_MAX);
        pcre2_set_heap_limit(context.get(), UINT32_MAX);
    }
};

Workspace& workspace() {
    static thread_local Workspace workspace;
    return workspace;
}

// PCRE2's own \s has a character more than Unicode's White_Space.
std::string with_white_space(std::string_view pattern) {
    constexpr std::string_view kWhiteSpace = R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
    std::string out;
    bool in_class = false;
    for (size_t i = 0; i < pattern.size(); ++i) {
        const char c = pattern[i];
        if (c == '\\') {
            const char escaped = pattern[++i];
            if (escaped == 's') {
                out += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
            } else if (escaped == 'S') {
                CHECK(!in_class);
                out += fmt::format("[^{}]", kWhiteSpace);
            } else {
                out += c;
                out += escaped;
            }
            continue;
        }
        if (c == '[') in_class = true;
        if (c == ']') in_class = false;
        out += c;
    }
    return out;
}

Result<const PretokenizerEntry*> find_entry(std::string_view name) {
    if (name.empty()) name = "default";
    for (const PretokenizerEntry& entry : pretokenizer_table()) {
        if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end()) return &entry;
    }
    return fail(ErrorKind::Unsupported, "vocabulary: unknown pre-tokenizer {}; known are: {}", quoted(name), fmt::join(known_pretokenizers(), ", "));
}

Code compile(std::string_view pattern) {
    const std::string expanded = with_white_space(pattern);
    int error = 0;
    size_t at = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE, &error,
                            &at, nullptr));
    if (!code) check_failed(__FILE__, __LINE__, "pcre2_compile", fmt::format("{} in {} at {}", error, expanded, at));
    // Without it matching is slower but the same, so a machine that forbids it is fine.
    (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    return code;
}

struct Range {
    size_t begin, end;
};

// The next match at or behind `from`.
std::optional<Range> match(const pcre2_code* code, std::string_view text, size_t from) {
    Workspace& work = workspace();
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int found = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, work.match.get(), work.context.get());
    if (found < PCRE2_ERROR_NOMATCH) {  // the JIT's stack is too small: the interpreter takes memory as it needs it
        found = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, work.match.get(), work.context.get());
    }
    if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
    CHECK_GE(found, 0);
    const size_t* const range = pcre2_get_ovector_pointer(work.match.get());
    return Range{range[0], range[1]};
}

// Appends the ends of groups of three characters, counted from the end of text[range).
void group_from_right(std::string_view text, Range range, std::vector<size_t>& ends) {
    const size_t first = ends.size();
    size_t characters = 0;
    for (size_t at = range.end; at > range.begin;) {
        if (characters % 3 == 0) ends.push_back(at);
        ++characters;
        do --at;
        while (at > range.begin && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
    }
    std::reverse(ends.begin() + static_cast<std::ptrdiff_t>(first), ends.end());
}

}  // namespace

Result<PretokenizerTraits> pretokenizer_traits(std::string_view name) {
    CELLAR_TRY(const PretokenizerEntry* const entry, find_entry(name));
    return entry->traits;
}

struct Pretokenizer::Step {
    Code code;
    StepKind kind;
};

Pretokenizer::Pretokenizer() = default;
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

Result<Pretokenizer> Pretokenizer::make(std::string_view name) {
    CELLAR_TRY(const PretokenizerEntry* const entry, find_entry(name));
    Pretokenizer pretokenizer;
    pretokenizer.traits_ = entry->traits;
    for (const PatternStep& step : entry->steps) pretokenizer.steps_.push_back(Step{compile(step.pattern), step.kind});
    return pretokenizer;
}

void Pretokenizer::split(std::string_view text, std::vector<size_t>& ends) const {
    ends.clear();
    std::string readable;     // the text with U+FFFD for each bad byte; empty as long as there is none
    std::vector<size_t> bad;  // places in `readable` behind each of them
    size_t copied = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t length = utf8_character(text.substr(at));
        if (length == 0) {
            readable.append(text, copied, at - copied).append(kReplacement);
            bad.push_back(readable.size());
            copied = at + 1;
        }
        at += std::max<size_t>(length, 1);
    }
    if (bad.empty()) return split_utf8(text, ends);
    readable.append(text, copied);
    split_utf8(readable, ends);
    size_t before = 0;
    for (size_t& end : ends) {
        while (before < bad.size() && bad[before] <= end) ++before;
        end -= before * (kReplacement.size() - 1);
    }
}

void Pretokenizer::split_utf8(std::string_view text, std::vector<size_t>& ends) const {
    if (text.empty()) return;
    ends.push_back(text.size());
    std::vector<size_t> previous;
    for (const Step& step : steps_) {
        previous.swap(ends);
        ends.clear();
        size_t begin = 0;
        for (const size_t end : previous) {
            // An expression sees nothing outside of its part.
            const std::string_view part = text.substr(begin, end - begin);
            size_t done = 0;
            while (done < part.size()) {
                const std::optional<Range> range = match(step.code.get(), part, done);
                if (!range) break;
                CHECK_LT(range->begin, range->end);
                if (range->begin > done) ends.push_back(begin + range->begin);
                if (step.kind == StepKind::Matches) {
                    ends.push_back(begin + range->end);
                } else {
                    group_from_right(text, {begin + range->begin, begin + range->end}, ends);
                }
                done = range->end;
            }
            if (done < part.size()) ends.push_back(end);
            begin = end;
        }
    }
}

std::vector<std::string_view> known_pretokenizers() {
    std::vector<std::string_view> names;
    for (const PretokenizerEntry& entry : pretokenizer_table()) names.insert(names.end(), entry.names.begin(), entry.names.end());
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace cellar::text
