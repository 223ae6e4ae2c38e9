// cellar inspect: what is in a model file, and what it would take to run it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/session_picture.h"
#include "apps/terminal.h"
#include "base/file.h"
#include "base/text_escape.h"
#include "base/units.h"
#include "engine/session_log.h"
#include "kv/plan.h"

namespace cellar::apps {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestContext = kv::most_context;

std::string describe(const kv::Keep& keep) {
    switch (keep.kind) {
        case kv::Keep::Kind::All:
            return "full attention";
        case kv::Keep::Kind::Window:
            return fmt::format("window of {}", keep.size);
        case kv::Keep::Kind::Chunk:
            return fmt::format("chunks of {}", keep.size);
        case kv::Keep::Kind::State:
            return "recurrent state";
    }
    return "?";
}

std::string shape(const gguf::TensorInfo& tensor) {
    return fmt::format("{}", fmt::join(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims, " x "));
}

// The memory of so many sessions, each of them full: what the engine's ledger would say, to the byte.
struct Plan {
    kv::CacheSpec spec;
    int64_t context = 0;
    int sessions = 1;
    size_t cache = 0;
    uint64_t weights = 0;
    uint64_t transients = 0;
    size_t budget = 0;    // of cache and transients; 0: nobody knows
    int64_t largest = 0;  // context that fits; 0: nobody knows, or none does
    [[nodiscard]] uint64_t total() const { return cache + weights + transients; }
    [[nodiscard]] bool fits() const { return budget == 0 || cache + transients <= budget; }
};

Result<Plan> plan_for(const std::shared_ptr<const model::Model>& model, EngineOptions options, int64_t context, int sessions) {
    options.context = context;
    options.max_seqs = sessions;
    CELLAR_TRY(const auto engine, Engine::make(model, options));
    Plan out;
    out.spec = engine->cache().spec();
    out.context = context;
    out.sessions = sessions;
    CELLAR_TRY(const size_t ledger, engine->estimate(std::vector<int64_t>(static_cast<size_t>(sessions), context)));
    out.transients = engine->transient_bytes();
    out.cache = ledger - out.transients;
    out.weights = model->weight_bytes();
    out.budget = engine->budget_bytes();
    return out;
}

// More tokens never take less memory, so the border is found by halving.
Result<int64_t> largest_context(const std::shared_ptr<const model::Model>& model, const EngineOptions& options, const Plan& plan) {
    if (plan.budget == 0) return 0;
    const size_t per_token = std::max<size_t>(1, plan.spec.bytes_per_token() * static_cast<size_t>(plan.sessions));
    int64_t fits = 0;
    auto too_long = static_cast<int64_t>(std::min<size_t>(plan.budget / per_token + kv::log_block_tokens, kLongestContext)) + 1;
    while (too_long - fits > 1) {
        const int64_t middle = fits + (too_long - fits) / 2;
        const auto tried = plan_for(model, options, middle, plan.sessions);
        if (!tried && tried.error().kind != ErrorKind::Full) return tl::unexpected<Error>(tried.error());
        (tried && tried->fits() ? fits : too_long) = middle;
    }
    return fits;
}

void print_file(const gguf::File& file) {
    print_text(fmt::format("file          {} (GGUF {}, {}, {} keys, {} tensors)\n", escape_for_terminal(file.path()), file.version(),
                           format_bytes(file.file_bytes()), file.keys().size(), file.tensors().size()));
}

void print_model(const model::Model& model) {
    const model::Config& c = model.config();
    print_text(fmt::format("model         {}\n", escape_for_terminal(model.display_name())));
    print_text(fmt::format("architecture  {}: {} layers of width {}, {} heads of {} ({} KV heads), trained for {} tokens\n", c.architecture, c.layers,
                           c.embedding, c.heads.front(), c.k_width, c.kv_heads.front(), c.context));
    if (c.experts > 0) print_text(fmt::format("experts       {} of {} used for each token\n", c.experts_used, c.experts));
    if (const text::Tokenizer* words = model.tokenizer()) {
        print_text(fmt::format("vocabulary    {} tokens ({}{}{})\n", words->size(), escape_for_terminal(words->data().model),
                               words->data().pre.empty() ? "" : ", ", escape_for_terminal(words->data().pre)));
    } else {
        print_text("vocabulary    none\n");
    }
    print_text(fmt::format("template      {}\n", model.chat_template() ? "yes" : "none"));
}

void print_plan(const Plan& plan) {
    for (size_t g = 0; g < plan.spec.groups.size(); ++g) {
        const kv::GroupSpec& group = plan.spec.groups[g];
        std::string rows;
        for (const kv::RowSpec& row : group.rows)
            rows += fmt::format("{}{} {} x {} {}", rows.empty() ? "" : ", ", row.name, row.heads, row.width, kv::name(row.format));
        print_text(fmt::format("cache group {} {} layers, {}: {} ({} per token and layer)\n", g, group.planes, describe(group.keep), rows,
                               format_bytes(group.cell_bytes() / static_cast<size_t>(std::max(1, group.planes)))));
    }
    print_text(fmt::format("per token     {}\n", format_bytes(plan.spec.bytes_per_token())));
    const std::string sessions = plan.sessions == 1 ? "a session" : fmt::format("{} sessions", plan.sessions);
    print_text(fmt::format("memory        weights {} + cache {} + transients {} = {} for {} of {} tokens\n", format_bytes(plan.weights),
                           format_bytes(plan.cache), format_bytes(plan.transients), format_bytes(plan.total()), sessions, plan.context));
    if (plan.budget == 0) return;
    print_text(fmt::format("fits          {} (cache and transients may take {} here)\n", plan.fits() ? "yes" : "NO", format_bytes(plan.budget)));
    print_text(fmt::format("largest       {} of {} tokens\n", sessions, plan.largest));
}

Json to_json(const model::Model& model, const Plan& plan) {
    const model::Config& c = model.config();
    Json out;
    out["name"] = model.display_name();
    out["architecture"] = c.architecture;
    out["layers"] = c.layers;
    out["embedding"] = c.embedding;
    out["trained_context"] = c.context;
    out["vocabulary"] = c.vocabulary;
    out["weight_bytes"] = plan.weights;
    out["cache_bytes_per_token"] = plan.spec.bytes_per_token();
    out["context"] = plan.context;
    out["sessions"] = plan.sessions;
    out["cache_bytes"] = plan.cache;
    out["transient_bytes"] = plan.transients;
    out["total_bytes"] = plan.total();
    if (plan.budget != 0) out["budget_bytes"] = plan.budget;
    if (plan.budget != 0) out["largest_context"] = plan.largest;
    out["fits"] = plan.fits();
    auto& groups = out["groups"] = Json::array();
    for (const kv::GroupSpec& group : plan.spec.groups) {
        Json rows = Json::array();
        for (const kv::RowSpec& row : group.rows)
            rows.push_back({{"name", row.name}, {"heads", row.heads}, {"width", row.width}, {"format", kv::name(row.format)}});
        groups.push_back({{"layers", group.planes}, {"keeps", describe(group.keep)}, {"rows", std::move(rows)}, {"cell_bytes", group.cell_bytes()}});
    }
    return out;
}

}  // namespace

Result<int> inspect(const InspectArgs& args) {
    if (const auto file = MappedFile::open(args.model); file && is_session(file->bytes())) return print_session_file(args.model, args.json);
    CELLAR_TRY(const EngineOptions options, engine_options(args.engine));
    auto opened = model::Model::open(args.model);
    if (!opened) {
        // A file that cannot be run may still have something to show.
        CELLAR_TRY(const gguf::File file, gguf::File::open(args.model));
        if (!args.json) {
            print_file(file);
            for (const gguf::Key& key : file.keys())
                print_text(fmt::format("  {:<44} {}\n", escape_for_terminal(key.name), file.value_text(key.name)));
        }
        return pass(std::move(opened));
    }
    const model::Model& model = **opened;
    const int64_t context = options.context > 0 ? options.context : model.config().context;
    CELLAR_TRY(Plan plan, plan_for(*opened, options, context, args.sessions));
    CELLAR_TRY(plan.largest, largest_context(*opened, options, plan));
    if (args.json) {
        print_text(to_json(model, plan).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
        return kExitOk;
    }
    print_file(model.file());
    print_model(model);
    print_plan(plan);
    for (const std::string& note : model.network().notes) print_text(fmt::format("note          {}\n", note));
    if (args.keys) {
        print_text("keys\n");
        for (const gguf::Key& key : model.file().keys())
            print_text(fmt::format("  {:<44} {}\n", escape_for_terminal(key.name), model.file().value_text(key.name)));
    }
    if (args.tensors) {
        print_text("tensors\n");
        for (const gguf::TensorInfo& tensor : model.file().tensors())
            print_text(fmt::format("  {:<36} {:<7} {:<20} {}\n", escape_for_terminal(tensor.name), cellar::name(tensor.type), shape(tensor),
                                   format_bytes(tensor.bytes)));
    }
    return kExitOk;
}

}  // namespace cellar::apps
