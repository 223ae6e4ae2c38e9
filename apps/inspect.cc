// cellar inspect: what is in a model file, and what it would take to run it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/terminal.h"
#include "base/memory.h"
#include "base/units.h"
#include "model/cache_plan.h"

namespace cellar::apps {
namespace {

using Json = nlohmann::ordered_json;

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

struct Plan {
    kv::CacheSpec spec;
    int64_t context = 0;
    size_t cache = 0;
    uint64_t weights = 0;
    uint64_t transients = 0;
    std::optional<uint64_t> memory;
    [[nodiscard]] uint64_t total() const { return cache + weights + transients; }
    [[nodiscard]] bool fits() const { return !memory || total() <= *memory; }
};

void print_file(const gguf::File& file) {
    print_text(fmt::format("file          {} (GGUF {}, {}, {} keys, {} tensors)\n", file.path(), file.version(), format_bytes(file.file_bytes()),
                           file.keys().size(), file.tensors().size()));
}

void print_model(const model::Model& model) {
    const model::Config& c = model.config();
    print_text(fmt::format("model         {}\n", model.display_name()));
    print_text(fmt::format("architecture  {}: {} layers of width {}, {} heads of {} ({} KV heads), trained for {} tokens\n", c.architecture, c.layers,
                           c.embedding, c.heads.front(), c.k_width, c.kv_heads.front(), c.context));
    if (c.experts > 0) print_text(fmt::format("experts       {} of {} used for each token\n", c.experts_used, c.experts));
    if (const text::Tokenizer* words = model.tokenizer()) {
        print_text(fmt::format("vocabulary    {} tokens ({}{}{})\n", words->size(), words->data().model, words->data().pre.empty() ? "" : ", ",
                               words->data().pre));
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
    print_text(fmt::format("memory        weights {} + cache {} + transients {} = {} for a context of {}\n", format_bytes(plan.weights),
                           format_bytes(plan.cache), format_bytes(plan.transients), format_bytes(plan.total()), plan.context));
    if (plan.memory) print_text(fmt::format("fits          {} ({} usable here)\n", plan.fits() ? "yes" : "NO", format_bytes(*plan.memory)));
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
    out["cache_bytes"] = plan.cache;
    out["transient_bytes"] = plan.transients;
    out["total_bytes"] = plan.total();
    if (plan.memory) out["usable_bytes"] = *plan.memory;
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
    CELLAR_TRY(const EngineOptions options, engine_options(args.engine));
    auto opened = model::Model::open(args.model);
    if (!opened) {
        // A file that cannot be run may still have something to show.
        CELLAR_TRY(const gguf::File file, gguf::File::open(args.model));
        if (!args.json) {
            print_file(file);
            for (const gguf::Key& key : file.keys()) print_text(fmt::format("  {:<44} {}\n", key.name, file.value_text(key.name)));
        }
        return pass(std::move(opened));
    }
    const model::Model& model = **opened;
    Plan plan;
    CELLAR_TRY(plan.spec, model::plan_cache(model.network(), options.formats));
    plan.context = options.context > 0 ? options.context : model.config().context;
    CELLAR_TRY(plan.cache, cache_bytes(plan.spec, plan.context));
    plan.weights = model.weight_bytes();
    plan.memory = usable_memory();
    EngineOptions sized = options;
    sized.context = plan.context;
    CELLAR_TRY(const auto engine, Engine::make(*opened, sized));
    plan.transients = engine->transient_bytes();
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
        for (const gguf::Key& key : model.file().keys()) print_text(fmt::format("  {:<44} {}\n", key.name, model.file().value_text(key.name)));
    }
    if (args.tensors) {
        print_text("tensors\n");
        for (const gguf::TensorInfo& tensor : model.file().tensors())
            print_text(fmt::format("  {:<36} {:<7} {:<20} {}\n", tensor.name, cellar::name(tensor.type), shape(tensor), format_bytes(tensor.bytes)));
    }
    return kExitOk;
}

}  // namespace cellar::apps
