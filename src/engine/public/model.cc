#include <cellar/model.h>

#include <algorithm>

#include "base/memory.h"
#include "base/thread_team.h"
#include "engine/public/state.h"

namespace cellar::v1 {
namespace {

ModelInfo describe(const model::Model& model) {
    const model::Config& config = model.config();
    ModelInfo info;
    info.path = model.file().path();
    info.name = model.display_name();
    info.architecture = config.architecture;
    info.layers = config.layers;
    info.embedding = config.embedding;
    info.trained_context = config.context;
    info.vocabulary = config.vocabulary;
    info.weight_bytes = model.weight_bytes();
    info.has_text = model.tokenizer() != nullptr;
    info.has_template = model.chat_template().has_value();
    if (info.has_text) {
        info.bos = model.tokenizer()->bos();
        info.eos = model.tokenizer()->eos();
    }
    info.notes = model.network().notes;
    return info;
}

cellar::Result<const text::Tokenizer*> words_of(const model::Model& model) {
    if (model.tokenizer() == nullptr) return fail("{}", model.why_no_tokenizer());
    return model.tokenizer();
}

// Lengths of sessions that fill the whole room, each as long as it can be; where no room is asked for, of one that fills its context. A
// block belongs to one of them.
std::vector<int64_t> full_room(const cellar::EngineOptions& options, int64_t context) {
    constexpr int64_t kBlock = 32;
    int64_t left = options.cells == 0 ? context : options.cells;
    std::vector<int64_t> lengths;
    for (; left > 0 && static_cast<int>(lengths.size()) < options.max_seqs; left -= (lengths.back() + kBlock - 1) / kBlock * kBlock)
        lengths.push_back(std::min(left, context));
    return lengths;
}

}  // namespace

std::string_view version() {
    return CELLAR_VERSION;
}

Result<Model> Model::open(const std::string& path, const ModelOptions& options) {
    return guarded<Model>([&]() -> cellar::Result<Model> {
        if (options.threads < 0 || options.threads > 1024)
            return fail("threads is {}, but must lie in [1, 1024], or be 0 for all CPUs", options.threads);
        CELLAR_TRY(auto model, model::Model::open(path, {options.pack, options.threads == 0 ? usable_cpus() : options.threads}));
        auto state = std::make_shared<State>();
        state->info = describe(*model);
        state->model = std::move(model);
        return Model(std::move(state));
    });
}

const ModelInfo& Model::info() const {
    return state_->info;
}

Result<MemoryEstimate> Model::estimate(const EngineOptions& asked) const {
    return guarded<MemoryEstimate>([&]() -> cellar::Result<MemoryEstimate> {
        CELLAR_TRY(cellar::EngineOptions options, engine_options(asked));
        if (options.context == 0) options.context = state_->info.trained_context;
        // The engine that would be made knows best; it takes address space only.
        CELLAR_TRY(const auto engine, cellar::Engine::make(state_->model, options));
        MemoryEstimate out;
        out.context = options.context;
        out.cache_bytes_per_token = engine->cache().spec().bytes_per_token();
        CELLAR_TRY(out.cache_bytes, engine->estimate_cache(full_room(options, options.context)));
        out.weight_bytes = state_->info.weight_bytes;
        out.transient_bytes = engine->transient_bytes();
        out.total_bytes = out.cache_bytes + out.weight_bytes + out.transient_bytes;
        out.usable_bytes = usable_memory();
        out.fits = !out.usable_bytes || out.total_bytes <= *out.usable_bytes;
        return out;
    });
}

Result<std::vector<int32_t>> Model::encode(std::string_view text, EncodeOptions options) const {
    return guarded<std::vector<int32_t>>([&]() -> cellar::Result<std::vector<int32_t>> {
        CELLAR_TRY(const text::Tokenizer* words, words_of(*state_->model));
        if (text.size() > INT32_MAX) return fail("a text of {} bytes is too long to be cut into tokens; {} are possible", text.size(), INT32_MAX);
        return words->encode(text, {options.add_special, options.parse_special});
    });
}

Result<std::string> Model::decode(std::span<const int32_t> ids, bool show_special) const {
    return guarded<std::string>([&]() -> cellar::Result<std::string> {
        CELLAR_TRY(const text::Tokenizer* words, words_of(*state_->model));
        for (size_t i = 0; i < ids.size(); ++i)
            if (ids[i] < 0 || ids[i] >= words->size())
                return fail("token {} at position {} is outside the vocabulary of {}", ids[i], i, words->size());
        return words->decode(std::vector<int32_t>(ids.begin(), ids.end()), show_special);
    });
}

bool Model::ends_answer(int32_t id) const {
    const text::Tokenizer* words = state_->model->tokenizer();
    return words != nullptr && id >= 0 && id < words->size() && words->is_end_of_generation(id);
}

}  // namespace cellar::v1
