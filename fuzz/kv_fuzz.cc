// Operations on a cache, chosen by the input, against the plain model: rows byte for byte, views and invariants after each one.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kv/cache_model_inl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace cellar::kv;  // NOLINT: a program of one file
    if (size < 3 || size > 3000) return 0;
    static const std::vector<std::vector<Keep>> mixes = {
        {Keep::all()},
        {Keep::all(), Keep::window(64), Keep::window(16)},
        {Keep::chunk(48)},
        {Keep::chunk(32), Keep::all()},
        {Keep::window(20, 4), Keep::all()},
        {Keep::window(1)},
        {Keep::window(7, 3), Keep::chunk(5)},
    };
    Scenario scenario;
    scenario.keeps = mixes[data[0] % mixes.size()];
    scenario.limits.block = 16 << (data[1] % 3);
    scenario.limits.context = 300;
    scenario.limits.cells = 32 + 8 * (data[2] % 64);
    scenario.limits.max_seqs = 6;
    scenario.limits.max_step_tokens = 120;
    scenario.limits.poison = true;
    std::vector<uint32_t> choices;
    for (size_t i = 3; i < size; ++i) choices.push_back(data[i]);
    const std::string wrong = run_scenario(scenario, choices);
    if (wrong.empty()) return 0;
    std::fprintf(stderr, "%s\n", wrong.c_str());
    std::abort();
}
