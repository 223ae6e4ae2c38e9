#pragma once
// What rows in a cache depend on, beside tokens.
#include <map>
#include <string>

namespace cellar {

class Engine;

// One value for each name, compared as text.
using Fingerprint = std::map<std::string, std::string>;

// architecture, shapes, rope regime and a hash of sampled weights; formats and the numeric path.
Fingerprint fingerprint(const Engine& engine);

// The values of this name must be equal for rows to be of any use; those of formats and of the numeric path may differ.
bool decides_use(const std::string& name);

}  // namespace cellar
