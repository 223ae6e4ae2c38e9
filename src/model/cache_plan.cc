#include "model/cache_plan.h"

#include <algorithm>

namespace cellar::model {
namespace {

Result<kv::RowFormat> choose(const CacheRequest& request, const std::string& own, std::string_view own_flag) {
    if (!own.empty()) return parse_cache_format(own, own_flag);
    if (!request.type.empty()) return parse_cache_format(request.type, "--cache-type");
    if (!request.environment.empty()) return parse_cache_format(request.environment, "CELLAR_CACHE_TYPE");
    return kv::RowFormat::F16;
}

}  // namespace

Result<kv::RowFormat> parse_cache_format(std::string_view name, std::string_view where) {
    if (const auto format = kv::parse_row_format(name)) return *format;
    return fail("{} is '{}', which is no cache format; known are f32, f16, bf16, q8_0 (spelled exactly so)", where, name);
}

Result<CacheFormats> choose_cache_formats(const CacheRequest& request) {
    CacheFormats out;
    // A wrong general name is refused even where both special ones are given.
    if (!request.type.empty()) CELLAR_TRY_VOID(parse_cache_format(request.type, "--cache-type").map([](auto) {}));
    CELLAR_TRY(out.k, choose(request, request.type_k, "--cache-type-k"));
    CELLAR_TRY(out.v, choose(request, request.type_v, "--cache-type-v"));
    return out;
}

Result<kv::CacheSpec> plan_cache(const Network& network, const CacheFormats& formats) {
    kv::CacheSpec spec;
    spec.layers = network.places;
    for (size_t i = 0; i < network.layers.size(); ++i) {
        const kv::LayerPlace& place = network.places[i];
        const LayerRows& layer = network.layers[i];
        if (place.group < 0) continue;
        const auto group = static_cast<size_t>(place.group);
        if (spec.groups.size() <= group) spec.groups.resize(group + 1);
        kv::GroupSpec& out = spec.groups[group];
        if (out.rows.empty()) {
            if (layer.keep.kind == kv::Keep::Kind::State)
                return fail(ErrorKind::Unsupported, "{}: layer {} keeps a recurrent state, which this build cannot store",
                            network.config.architecture, i);
            out.keep = layer.keep;
            out.rows = {{"k", layer.kv_heads, layer.k_width, formats.k}, {"v", layer.kv_heads, layer.v_width, formats.v}};
        }
        out.planes = std::max(out.planes, place.plane + 1);
    }
    return spec;
}

}  // namespace cellar::model
