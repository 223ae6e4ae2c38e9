// cellar bench: how fast a model reads and writes behind a depth of context, beside what the memory of this machine gives.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

#include "apps/bandwidth.h"
#include "apps/commands.h"
#include "apps/terminal.h"

namespace cellar::apps {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> x) {
    if (x.empty()) return 0.0;
    std::sort(x.begin(), x.end());
    return x[x.size() / 2];
}

// Token ids that are the same in every run and on every engine.
class Ids {
  public:
    explicit Ids(int64_t vocabulary)
        : range_(static_cast<uint32_t>(std::clamp<int64_t>(vocabulary - 20, 1, 100000))), low_(vocabulary > 30 ? 10 : 0) {}
    int32_t next() {
        state_ = state_ * 1664525U + 1013904223U;
        return low_ + static_cast<int32_t>(state_ % range_);
    }
    std::vector<int32_t> many(int64_t n) {
        std::vector<int32_t> out(static_cast<size_t>(n));
        for (int32_t& id : out) id = next();
        return out;
    }

  private:
    uint32_t state_ = 1;
    uint32_t range_;
    int32_t low_;
};

// Bytes that one generated token reads: all weights but the rows of the embedding that it does not look up, and the cache behind it.
double bytes_per_token(const Engine& engine, int64_t depth) {
    const model::Model& model = engine.model();
    double weights = 0.0;
    const bool tied = model.file().tensor("output.weight") == nullptr;
    const model::Config& c = model.config();
    for (const gguf::TensorInfo& tensor : model.file().tensors()) {
        double share = 1.0;
        if (tensor.name == "token_embd.weight" && !tied) share = 0.0;
        if (tensor.name.find("_exps") != std::string_view::npos && c.experts > 0) share = static_cast<double>(c.experts_used) / c.experts;
        weights += share * static_cast<double>(tensor.bytes);
    }
    double cache = 0.0;
    for (const kv::GroupSpec& group : engine.cache().spec().groups) {
        const kv::Visible seen = kv::visible(group.keep, static_cast<int32_t>(depth));
        cache += static_cast<double>(seen.recent.length() + seen.sinks.length()) * static_cast<double>(group.cell_bytes());
    }
    return weights + cache;
}

// Windows let old rows go, so that a sequence of such a model cannot always be cut back.
Result<void> back_to(kv::Cache& cache, SeqId seq, int64_t depth) {
    if (cache.trim(seq, static_cast<int32_t>(depth)) == depth) return {};
    return fail(ErrorKind::Unsupported, "this model's windows do not let a run be repeated behind {} tokens; use --reps 1 with --prompt 0 or --gen 0",
                depth);
}

}  // namespace

Result<int> bench(const BenchArgs& args) {
    EngineSettings settings = args.engine;
    if (settings.context.empty()) settings.context = fmt::to_string(args.depth + std::max(args.prompt, args.gen) + 64);
    CELLAR_TRY(const auto engine, start_engine(args.model, settings));
    kv::Cache& cache = engine->cache();
    CELLAR_TRY(const SeqId seq, cache.open());
    const double bandwidth_before = read_bandwidth(engine->threads());
    Ids ids(engine->model().config().vocabulary);
    StatusLine status;
    if (args.depth > 0) {
        CELLAR_TRY_VOID(engine->append(seq, ids.many(args.depth), &interrupts(), prompt_progress(status)).map([](auto) {}));
    }
    graph::Profile reading_profile, writing_profile;
    std::vector<double> reading, writing;
    for (int r = 0; r < args.reps; ++r) {
        status.show(fmt::format("run {} of {}", r + 1, args.reps));
        if (args.prompt > 0) {
            const std::vector<int32_t> tokens = ids.many(args.prompt);
            if (args.profile) engine->profile(&reading_profile);
            const auto start = Clock::now();
            CELLAR_TRY_VOID(engine->append(seq, tokens, &interrupts()).map([](auto) {}));
            reading.push_back(static_cast<double>(args.prompt) / seconds_since(start));
            CELLAR_TRY_VOID(back_to(cache, seq, args.depth));
        }
        if (args.gen > 0) {
            if (args.profile) engine->profile(&writing_profile);
            const auto start = Clock::now();
            for (int64_t i = 0; i < args.gen; ++i) {
                const int32_t id = ids.next();
                CELLAR_TRY_VOID(engine->append(seq, {&id, 1}, &interrupts()).map([](auto) {}));
            }
            writing.push_back(static_cast<double>(args.gen) / seconds_since(start));
            CELLAR_TRY_VOID(back_to(cache, seq, args.depth));
        }
    }
    status.clear();
    const double bandwidth_after = read_bandwidth(engine->threads());
    const double bandwidth = std::max(bandwidth_before, bandwidth_after);
    const double gigabytes = bytes_per_token(*engine, args.depth + args.gen / 2) * median(writing) / 1e9;
    const EngineOptions& options = engine->options();
    if (args.json) {
        nlohmann::ordered_json out;
        out["engine"] = "cellar";
        out["model"] = args.model.substr(args.model.rfind('/') + 1);
        out["threads"] = engine->threads();
        out["cpu_target"] = ops::cpu_target();
        out["depth"] = args.depth;
        out["type_k"] = kv::name(options.formats.k);
        out["type_v"] = kv::name(options.formats.v);
        out["prompt_tokens_per_second"] = reading.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(median(reading));
        out["generate_tokens_per_second"] = writing.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(median(writing));
        out["generate_gigabytes_per_second"] = gigabytes;
        out["read_bandwidth_before"] = bandwidth_before;
        out["read_bandwidth_after"] = bandwidth_after;
        out["share_of_bandwidth"] = gigabytes / bandwidth;
        print_text(out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");  // the name of a file may be any bytes
        return kExitOk;
    }
    if (args.profile && args.prompt > 0) print_text("prompt: " + reading_profile.text() + "\n");
    if (args.profile && args.gen > 0) print_text("generate: " + writing_profile.text() + "\n");
    print_text(fmt::format("{} threads on {}, cache {}/{}, behind {} tokens\n", engine->threads(), ops::cpu_target(), kv::name(options.formats.k),
                           kv::name(options.formats.v), args.depth));
    if (!reading.empty()) print_text(fmt::format("prompt   {:6} tokens  {:10.2f} tokens/s\n", args.prompt, median(reading)));
    if (!writing.empty())
        print_text(
            fmt::format("generate {:6} tokens  {:10.2f} tokens/s  {:.1f} GB/s, {:.0f} % of the {:.1f} GB/s that {} threads read from memory "
                        "({:.1f} before, {:.1f} after){}\n",
                        args.gen, median(writing), gigabytes, 100.0 * gigabytes / bandwidth, bandwidth, engine->threads(), bandwidth_before,
                        bandwidth_after, gigabytes > bandwidth ? "; what a token reads lies partly in the caches of the processor" : ""));
    return kExitOk;
}

}  // namespace cellar::apps
