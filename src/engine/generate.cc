#include "engine/generate.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "base/quote.h"
#include "engine/stop_strings.h"
#include "text/detokenizer.h"

namespace cellar {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

Receipt::Part part_of(const Engine& engine, std::vector<int32_t> tokens) {
    Receipt::Part out;
    const text::Tokenizer* words = engine.model().tokenizer();
    if (words != nullptr) {
        std::vector<int32_t> known;
        std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(known), [&](int32_t id) { return id < words->size(); });
        out.text = words->decode(known, true);
    } else {
        for (const int32_t id : tokens) out.text += fmt::format("{}{}", out.text.empty() ? "" : " ", id);
    }
    out.tokens = std::move(tokens);
    return out;
}

std::vector<int32_t> ids_of(std::span<const Token> tokens) {
    std::vector<int32_t> out;
    for (const Token& token : tokens) out.push_back(token.id);
    return out;
}

// What was found of a prompt: `common` tokens, and what came behind them.
struct Match {
    int32_t common = 0;
    std::vector<Token> behind;
};

Match match_in_sequence(const kv::Cache& cache, SeqId seq, std::span<const int32_t> prompt) {
    Match out;
    out.common = cache.common_prefix(seq, prompt);
    const int32_t end = std::min(cache.length(seq), out.common + Receipt::kNeighbours);
    out.behind.resize(static_cast<size_t>(end - out.common));
    cache.copy_tokens(seq, {out.common, end}, out.behind);
    return out;
}

void explain_match(const Engine& engine, std::span<const int32_t> prompt, const Match& match, Receipt& receipt) {
    const int32_t wanted = std::min(match.common, receipt.prompt - 1);
    if (receipt.reused < wanted) {
        receipt.reason = Receipt::Reason::Unrestorable;
    } else if (match.common >= receipt.prompt - 1) {
        receipt.reason = Receipt::Reason::All;
    } else if (match.behind.empty()) {
        receipt.reason = match.common == 0 ? Receipt::Reason::Nothing : Receipt::Reason::Shorter;
    } else {
        receipt.reason = Receipt::Reason::Differs;
        receipt.first_difference = match.common;
        const auto at = static_cast<size_t>(match.common);
        const size_t before = std::min<size_t>(at, Receipt::kNeighbours);
        const auto slice = [&](size_t from, size_t to) {
            return std::vector<int32_t>(prompt.begin() + static_cast<std::ptrdiff_t>(from), prompt.begin() + static_cast<std::ptrdiff_t>(to));
        };
        receipt.before = part_of(engine, slice(at - before, at));
        receipt.cached = part_of(engine, ids_of(match.behind));
        receipt.wanted = part_of(engine, slice(at, std::min(prompt.size(), at + Receipt::kNeighbours)));
    }
}

// Makes the sequence hold the longest beginning of the prompt that it or a kept prefix has, but leaves at least one token to run.
Receipt take_prefix(Engine& engine, SeqId seq, std::span<const int32_t> prompt) {
    kv::Cache& cache = engine.cache();
    kv::Index& index = engine.index();
    std::vector<Token> tokens;
    tokens.reserve(prompt.size());
    for (const int32_t id : prompt) tokens.push_back({id, static_cast<int32_t>(tokens.size()), 0});
    Receipt receipt;
    receipt.prompt = static_cast<int32_t>(prompt.size());
    Match match = match_in_sequence(cache, seq, prompt);
    const int32_t own = cache.restorable(seq, std::min(match.common, receipt.prompt - 1));
    const kv::Index::Hit kept = index.find(engine.root(), tokens);
    if (kept.length > own || (kept.length == own && cache.pure(seq) < own)) {
        engine.keep(seq);
        match = {kept.matched, index.continuation(engine.root(), tokens, Receipt::kNeighbours)};
        receipt.reused = index.take_into(engine.root(), tokens, seq).length;
        receipt.source = Receipt::Source::Kept;
    } else {
        receipt.reused = cache.trim(seq, own);
        if (receipt.reused > 0) receipt.source = Receipt::Source::Sequence;
    }
    receipt.pure = cache.pure(seq) >= receipt.reused;
    explain_match(engine, prompt, match, receipt);
    return receipt;
}

// Models whose layers forget keep a prefix only where somebody stopped: one token before the end, since a hit needs one to run.
Result<std::span<const float>> read_prompt(Engine& engine, SeqId seq, std::span<const int32_t> missing, const Cancel* cancel,
                                           const Progress& progress) {
    if (!engine.index().needs_marks() || missing.size() < 2) return engine.append(seq, missing, cancel, progress);
    const auto all = static_cast<int64_t>(missing.size());
    const auto count_from = [&](int64_t before) -> Progress {
        if (!progress) return {};
        return [&, before](int64_t done, int64_t) { progress(before + done, all); };
    };
    if (auto read = engine.append(seq, missing.first(missing.size() - 1), cancel, count_from(0)); !read) return read;
    engine.keep(seq);
    return engine.append(seq, missing.last(1), cancel, count_from(all - 1));
}

double saved_seconds(const Engine& engine, const Answer& answer) {
    const PrefillMeter& meter = engine.prefill_meter();
    if (meter.has_measured()) return meter.cost().seconds(0, answer.receipt.reused);
    return answer.timings.prompt_seconds / static_cast<double>(answer.timings.prompt_tokens) * answer.receipt.reused;
}

Result<void> check_prompt(const Engine& engine, std::span<const int32_t> prompt) {
    if (prompt.empty()) return fail("the prompt is empty: there is nothing to answer");
    const int64_t vocabulary = engine.model().config().vocabulary;
    for (size_t i = 0; i < prompt.size(); ++i)
        if (prompt[i] < 0 || prompt[i] >= vocabulary)
            return fail("token {} at position {} is outside the vocabulary of {}", prompt[i], i, vocabulary);
    if (static_cast<int64_t>(prompt.size()) > engine.context())
        return fail(ErrorKind::Full, "the prompt has {} tokens, but the context holds {}: shorten it, or give it a larger context", prompt.size(),
                    engine.context());
    return {};
}

// Draws tokens and turns them into text until something ends the answer.
class Writer {
  public:
    Writer(Engine& engine, SeqId seq, std::span<const int32_t> prompt, const GenerateOptions& options, const TakeText& take, const Cancel* cancel)
        : engine_(engine),
          seq_(seq),
          options_(options),
          take_(take),
          cancel_(cancel),
          sampler_(options.sampler, engine.model().config().vocabulary),
          stops_(options.stops),
          text_(prompt.begin(), prompt.end()) {
        if (const text::Tokenizer* words = engine.model().tokenizer())
            detokenizer_.emplace(*words, text::DetokenizeOptions{options.render_special, !options.continues_text});
        text_.reserve(static_cast<size_t>(engine.context()) + 1 < text_.size() + 65536 ? static_cast<size_t>(engine.context()) + 1
                                                                                       : text_.size() + 65536);
    }

    Result<StopReason> write(std::span<const float> logits, Answer& answer) {
        while (true) {
            if (options_.max_tokens >= 0 && static_cast<int64_t>(answer.tokens.size()) >= options_.max_tokens) return StopReason::MaxTokens;
            CELLAR_TRY(const int32_t id, sampler_.sample(logits, text_));
            answer.tokens.push_back(id);
            text_.push_back(id);
            const text::Tokenizer* words = engine_.model().tokenizer();
            if (!options_.ignore_end && words != nullptr && id < words->size() && words->is_end_of_generation(id)) return StopReason::EndOfTurn;
            if (detokenizer_ && id < words->size() && !show(detokenizer_->push(id), answer)) return StopReason::Cancelled;
            if (stops_.stopped()) return StopReason::StopString;
            if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed)) return StopReason::Cancelled;
            if (options_.max_tokens >= 0 && static_cast<int64_t>(answer.tokens.size()) >= options_.max_tokens) return StopReason::MaxTokens;
            auto next = run(id, answer);
            if (!next && next.error().kind == ErrorKind::Full) {
                if (options_.make_room && !may_make_room(answer)) return StopReason::MaxTokens;
                answer.full = engine_.cache().length(seq_) >= engine_.context() ? fmt::format("the context of {} tokens is full", engine_.context())
                                                                                : std::move(next.error().message);
                return StopReason::Context;
            }
            if (!next) return pass(std::move(next));
            logits = *next;
            ++answer.timings.generated_tokens;
        }
    }

    // What was held back. Nothing more is delivered to somebody who has refused; the answer keeps it all the same.
    void finish(Answer& answer) {
        if (detokenizer_ && !stops_.stopped()) show(detokenizer_->finish(), answer);
        if (!stops_.stopped()) deliver(stops_.finish(), answer);
        if (stops_.stopped()) answer.stop = StopReason::StopString;
    }

  private:
    // The logits behind a token, for which room is made as long as that can be done.
    Result<std::span<const float>> run(int32_t id, const Answer& answer) {
        while (true) {
            auto logits = engine_.append(seq_, std::span<const int32_t>(&id, 1));
            if (logits || logits.error().kind != ErrorKind::Full || !may_make_room(answer) || !options_.make_room(answer.tokens)) return logits;
        }
    }
    // A model that repeats itself would go on for ever: without a limit of its own an answer gets as many tokens as the context holds.
    [[nodiscard]] bool may_make_room(const Answer& answer) const {
        return options_.make_room && (options_.max_tokens >= 0 || static_cast<int64_t>(answer.tokens.size()) < engine_.context());
    }
    bool show(const std::string& text, Answer& answer) { return deliver(stops_.push(text), answer); }
    bool deliver(const std::string& text, Answer& answer) {
        answer.text += text;
        refused_ = refused_ || (!text.empty() && take_ && !take_(text));
        return !refused_;
    }

    Engine& engine_;
    SeqId seq_;
    const GenerateOptions& options_;
    const TakeText& take_;
    const Cancel* cancel_;
    Sampler sampler_;
    StopStrings stops_;
    std::optional<text::Detokenizer> detokenizer_;
    bool refused_ = false;       // take_ wants no more
    std::vector<int32_t> text_;  // prompt and answer, for the penalties
};

}  // namespace

std::string_view name(Receipt::Reason reason) {
    switch (reason) {
        case Receipt::Reason::Nothing:
            return "nothing";
        case Receipt::Reason::All:
            return "all";
        case Receipt::Reason::Differs:
            return "differs";
        case Receipt::Reason::Shorter:
            return "shorter";
        case Receipt::Reason::Unrestorable:
            return "unrestorable";
    }
    return "?";
}

std::string_view name(Receipt::Source source) {
    switch (source) {
        case Receipt::Source::Nothing:
            return "nothing";
        case Receipt::Source::Sequence:
            return "sequence";
        case Receipt::Source::Kept:
            return "kept";
    }
    return "?";
}

std::string explain(const Receipt& r) {
    std::string out = fmt::format("reused {} of {} tokens", r.reused, r.prompt);
    if (r.reused > 0)
        out += fmt::format(" ({}, {})", r.source == Receipt::Source::Kept ? "kept prefix" : "this sequence", r.pure ? "pure" : "coloured");
    switch (r.reason) {
        case Receipt::Reason::Nothing:
            out += ": nothing in the cache begins like it";
            break;
        case Receipt::Reason::All:
            out += ": all but the last, whose logits are wanted";
            break;
        case Receipt::Reason::Differs:
            out += fmt::format(": at token {}, behind {}, the cache has {} and the prompt {}", r.first_difference, quoted(r.before.text),
                               quoted(r.cached.text), quoted(r.wanted.text));
            break;
        case Receipt::Reason::Shorter:
            out += ": the rest is new";
            break;
        case Receipt::Reason::Unrestorable:
            out += ": a window slid past the rows that more would need";
            break;
    }
    if (r.reused > 0) out += fmt::format("; {:.2f} s saved", r.seconds_saved);
    return out;
}

std::string_view name(StopReason reason) {
    switch (reason) {
        case StopReason::EndOfTurn:
            return "end";
        case StopReason::StopString:
            return "stop";
        case StopReason::MaxTokens:
            return "length";
        case StopReason::Context:
            return "context";
        case StopReason::Cancelled:
            return "cancelled";
    }
    return "?";
}

Result<Answer> generate(Engine& engine, SeqId seq, std::span<const int32_t> prompt, const GenerateOptions& options, const TakeText& take,
                        const Cancel* cancel, const Progress& progress) {
    CELLAR_TRY_VOID(check(options.sampler));
    CELLAR_TRY_VOID(check_prompt(engine, prompt));
    Answer answer;
    answer.receipt = take_prefix(engine, seq, prompt);
    const std::span<const int32_t> missing = prompt.subspan(static_cast<size_t>(answer.receipt.reused));
    auto start = Clock::now();
    CELLAR_TRY(const std::span<const float> logits, read_prompt(engine, seq, missing, cancel, progress));
    answer.timings.prompt_seconds = seconds_since(start);
    answer.timings.prompt_tokens = static_cast<int64_t>(missing.size());
    answer.receipt.seconds_saved = saved_seconds(engine, answer);
    start = Clock::now();
    Writer writer(engine, seq, prompt, options, take, cancel);
    CELLAR_TRY(answer.stop, writer.write(logits, answer));
    writer.finish(answer);
    answer.timings.generate_seconds = seconds_since(start);
    if (options.failed && options.failed()) return fail(ErrorKind::Cancelled, "the answer was ended by an error of whoever took it");
    engine.keep(seq);
    return answer;
}

}  // namespace cellar
