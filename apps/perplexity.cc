// cellar perplexity: how surprised a model is by a text, and what the format of the cache costs on this model.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

#include "apps/commands.h"
#include "apps/terminal.h"

namespace cellar::apps {
namespace {

constexpr int kRowsAtOnce = 32;

// Log-probabilities of a row of logits, in double. [vocabulary]
void log_softmax(const float* logits, int64_t n, std::vector<double>& out) {
    double most = -INFINITY;
    for (int64_t i = 0; i < n; ++i) most = std::max(most, static_cast<double>(logits[i]));
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(logits[i]) - most);
    const double shift = most + std::log(sum);
    out.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] = static_cast<double>(logits[i]) - shift;
}

struct Sums {
    double surprise = 0.0;            // -log p of each next token
    double divergence = 0.0;          // KL(f32 cache || this cache)
    double error = 0.0, scale = 0.0;  // squares of differences and of logits
    int64_t same_best = 0;
    int64_t count = 0;
};

// Rows of logits of a window, all of them: [tokens, vocabulary]
Result<std::vector<float>> window_logits(Engine& engine, std::span<const int32_t> tokens) {
    CELLAR_TRY(const SeqId seq, engine.cache().open());
    std::vector<float> out;
    auto done = engine.append_all_logits(seq, tokens, [&](ops::Mat rows) { out.insert(out.end(), rows.data, rows.data + rows.rows * rows.cols); });
    engine.cache().close(seq);
    if (!done) return pass(std::move(done));
    return out;
}

void add(Sums& sums, std::span<const int32_t> tokens, const std::vector<float>& mine, const std::vector<float>* exact, int64_t vocabulary) {
    std::vector<double> p, q;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
        const float* row = mine.data() + i * static_cast<size_t>(vocabulary);
        log_softmax(row, vocabulary, q);
        sums.surprise -= q[static_cast<size_t>(tokens[i + 1])];
        ++sums.count;
        if (exact == nullptr) continue;
        const float* other = exact->data() + i * static_cast<size_t>(vocabulary);
        log_softmax(other, vocabulary, p);
        for (int64_t v = 0; v < vocabulary; ++v) {
            const auto at = static_cast<size_t>(v);
            sums.divergence += std::exp(p[at]) * (p[at] - q[at]);
            const double d = static_cast<double>(row[v]) - static_cast<double>(other[v]);
            sums.error += d * d;
            sums.scale += static_cast<double>(other[v]) * static_cast<double>(other[v]);
        }
        sums.same_best += std::max_element(row, row + vocabulary) - row == std::max_element(other, other + vocabulary) - other ? 1 : 0;
    }
}

}  // namespace

Result<int> perplexity(const PerplexityArgs& args) {
    CELLAR_TRY(const std::string text, read_text(args.file));
    EngineSettings settings = args.engine;
    if (settings.context.empty()) settings.context = fmt::to_string(args.window);
    settings.check_finite = true;  // a mean over numbers that are none says nothing
    CELLAR_TRY(const auto engine, start_engine(args.model, settings, kRowsAtOnce));
    if (engine->context() < 2) return fail("the context holds {} token, but a window needs at least 2: raise --ctx", engine->context());
    const text::Tokenizer* words = engine->model().tokenizer();
    if (words == nullptr) return fail("{}", engine->model().why_no_tokenizer());
    const std::vector<int32_t> tokens = words->encode(text, {true, false});
    if (tokens.size() < 2) return fail("{}: {} tokens are too few to say anything", args.file, tokens.size());
    const EngineOptions& options = engine->options();
    const bool compares = options.formats.k != kv::RowFormat::F32 || options.formats.v != kv::RowFormat::F32;
    std::unique_ptr<Engine> exact;
    if (compares) {
        EngineOptions same = options;
        same.formats = {kv::RowFormat::F32, kv::RowFormat::F32};
        CELLAR_TRY(exact, Engine::make(engine->shared_model(), same));
    }
    const int64_t vocabulary = engine->model().config().vocabulary;
    const auto window = static_cast<size_t>(std::min(args.window, engine->context()));
    Sums sums;
    StatusLine status;
    for (size_t at = 0; at + 1 < tokens.size(); at += window) {
        if (interrupts().load()) return kExitInterrupted;
        const auto part = std::span<const int32_t>(tokens).subspan(at, std::min(window, tokens.size() - at));
        CELLAR_TRY(const std::vector<float> mine, window_logits(*engine, part));
        std::vector<float> other;
        if (exact) {
            CELLAR_TRY(other, window_logits(*exact, part));
        }
        add(sums, part, mine, exact ? &other : nullptr, vocabulary);
        status.show(fmt::format("{} of {} tokens, perplexity {:.4f}", at + part.size(), tokens.size(),
                                std::exp(sums.surprise / static_cast<double>(std::max<int64_t>(sums.count, 1)))));
    }
    status.clear();
    const auto n = static_cast<double>(sums.count);
    nlohmann::ordered_json out;
    out["tokens"] = tokens.size();
    out["predicted"] = sums.count;
    out["window"] = window;
    out["perplexity"] = std::exp(sums.surprise / n);
    if (exact) {
        out["divergence_from_f32_cache"] = sums.divergence / n;
        out["nmse_of_logits"] = sums.error / sums.scale;
        out["same_best_token"] = static_cast<double>(sums.same_best) / n;
    }
    if (args.json) {
        print_text(out.dump() + "\n");
        return kExitOk;
    }
    print_text(fmt::format("perplexity {:.4f} over {} tokens in windows of {}\n", std::exp(sums.surprise / n), sums.count, window));
    if (exact)
        print_text(fmt::format("cache {}/{} against f32: divergence {:.3e}, NMSE of logits {:.3e}, same best token {:.2f} %\n",
                               kv::name(options.formats.k), kv::name(options.formats.v), sums.divergence / n, sums.error / sums.scale,
                               100.0 * static_cast<double>(sums.same_best) / n));
    return kExitOk;
}

}  // namespace cellar::apps
