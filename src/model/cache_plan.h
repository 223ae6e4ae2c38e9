#pragma once
// The gate: which formats the cache stores rows in, decided once per engine, in one place, from what was asked and from the model.
#include <string>
#include <string_view>

#include "base/result.h"
#include "kv/spec.h"
#include "model/network.h"

namespace cellar::model {

// What a user asked for; an empty name was not given. Spelling is exact: f32, f16, bf16, q8_0.
struct CacheRequest {
    std::string type;         // --cache-type, for K and V
    std::string type_k;       // --cache-type-k, wins over `type`
    std::string type_v;       // --cache-type-v
    std::string environment;  // CELLAR_CACHE_TYPE, where no flag is given
};

struct CacheFormats {
    kv::RowFormat k = kv::RowFormat::F16;
    kv::RowFormat v = kv::RowFormat::F16;
};

// The format of this name. `where` is the flag, variable or option that it came from.
Result<kv::RowFormat> parse_cache_format(std::string_view name, std::string_view where);

// Default f16. Unknown names are refused with the list, and with the flag or variable that they came from.
Result<CacheFormats> choose_cache_formats(const CacheRequest& request);

// The groups of the network's layers with rows in these formats. Unsupported: a format that a layer cannot be stored in.
Result<kv::CacheSpec> plan_cache(const Network& network, const CacheFormats& formats);

}  // namespace cellar::model
