#pragma once
// What every part of cache_runner_inl.h works on: a cache, its index, and the plain model of all its sequences. For tests and fuzzers.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/check.h"
#include "kv/cache_model_inl.h"
#include "kv/cache_runner.h"
#include "kv/index.h"

namespace cellar::kv {

struct World {
    explicit World(const Scenario& scenario) : spec(model_spec(scenario.keeps)) {
        auto made = Cache::make(spec, scenario.limits);
        CHECK(made.has_value());
        cache = *std::move(made);
        index = std::make_unique<Index>(*cache);
    }

    // The first thing that went wrong is what is said.
    void say(const std::string& what) {
        if (wrong.empty()) wrong = what;
    }
    [[nodiscard]] bool room() const { return model.size() < static_cast<size_t>(cache->limits().max_seqs); }

    // The sequence that a number picks of those that no step or bake keeps busy.
    [[nodiscard]] SeqId pick(uint32_t a) const {
        std::vector<SeqId> idle;
        for (const auto& [id, seq] : model)
            if (!busy.contains(id)) idle.push_back(id);
        return idle.empty() ? SeqId{} : idle[a % idle.size()];
    }

    void check(const std::string& what) {
        ++counts.operations;
        const bool before = !wrong.empty();
        if (!before) say(verify(*cache));
        if (wrong.empty()) say(verify(*index));
        if (wrong.empty() && static_cast<size_t>(cache->open_seqs()) != model.size()) say("another number of sequences");
        for (const auto& [id, seq] : model) {
            if (!wrong.empty() || busy.contains(id)) continue;
            if (const std::string differs = compare_seq(*cache, id, seq); !differs.empty())
                say(fmt::format("sequence {:#x}: {}", static_cast<uint64_t>(id), differs));
        }
        if (!wrong.empty()) wrong += " (after " + what + ")";
    }

    CacheSpec spec;
    std::unique_ptr<Cache> cache;
    std::unique_ptr<Index> index;
    std::function<size_t(size_t)> reclaim;  // lets kept prefixes go; empty where a full cache stays full
    std::map<SeqId, ModelSeq> model;
    std::set<SeqId> busy;  // those of open steps and bakes
    std::string wrong;
    RunCounts counts;
};

}  // namespace cellar::kv
