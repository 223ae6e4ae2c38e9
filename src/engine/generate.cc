#include "engine/generate.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/check.h"
#include "engine/stop_strings.h"
#include "text/detokenizer.h"

namespace cellar {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Trims the sequence to what the prompt begins with, but leaves at least one token to run.
Receipt keep_prefix(kv::Cache& cache, SeqId seq, std::span<const int32_t> prompt) {
    Receipt receipt;
    receipt.prompt = static_cast<int32_t>(prompt.size());
    const int32_t length = cache.length(seq);
    const int32_t common = cache.common_prefix(seq, prompt);
    const int32_t wanted = std::min(common, receipt.prompt - 1);
    receipt.reused = cache.trim(seq, wanted);
    receipt.pure = cache.pure(seq) >= receipt.reused;
    if (length == 0) {
        receipt.reason = Receipt::Reason::Nothing;
    } else if (receipt.reused < wanted) {
        receipt.reason = Receipt::Reason::Unrestorable;
    } else if (common >= receipt.prompt - 1) {
        receipt.reason = Receipt::Reason::All;
    } else if (common == length) {
        receipt.reason = Receipt::Reason::Shorter;
    } else {
        receipt.reason = Receipt::Reason::Differs;
        receipt.first_difference = common;
    }
    return receipt;
}

Result<void> check_prompt(const Engine& engine, std::span<const int32_t> prompt) {
    if (prompt.empty()) return fail("the prompt is empty: there is nothing to answer");
    const int64_t vocabulary = engine.model().config().vocabulary;
    for (size_t i = 0; i < prompt.size(); ++i)
        if (prompt[i] < 0 || prompt[i] >= vocabulary)
            return fail("token {} at position {} is outside the vocabulary of {}", prompt[i], i, vocabulary);
    if (static_cast<int64_t>(prompt.size()) > engine.context())
        return fail(ErrorKind::Full, "the prompt has {} tokens, but the context holds {}: shorten it, or raise --ctx", prompt.size(),
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
            if (engine_.cache().length(seq_) >= engine_.context()) return StopReason::Context;
            auto next = engine_.append(seq_, std::span<const int32_t>(&id, 1));
            if (!next && next.error().kind == ErrorKind::Full) return StopReason::Context;
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
    answer.receipt = keep_prefix(engine.cache(), seq, prompt);
    const std::span<const int32_t> missing = prompt.subspan(static_cast<size_t>(answer.receipt.reused));
    auto start = Clock::now();
    CELLAR_TRY(const std::span<const float> logits, engine.append(seq, missing, cancel, progress));
    answer.timings.prompt_seconds = seconds_since(start);
    answer.timings.prompt_tokens = static_cast<int64_t>(missing.size());
    answer.receipt.seconds_saved = answer.timings.prompt_seconds / static_cast<double>(missing.size()) * answer.receipt.reused;
    start = Clock::now();
    Writer writer(engine, seq, prompt, options, take, cancel);
    CELLAR_TRY(answer.stop, writer.write(logits, answer));
    writer.finish(answer);
    answer.timings.generate_seconds = seconds_since(start);
    return answer;
}

}  // namespace cellar
