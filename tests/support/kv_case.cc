#include "support/kv_case.h"

#include <array>

#include "kv/cache_runner_inl.h"

namespace cellar::tiny {
namespace {

// Heads that are no multiple of a packed block, layers without positions, windows.
constexpr std::array<const char*, 4> kRecipes{"llama", "qwen3-hd80", "smollm3", "olmo2"};
constexpr std::array<kv::RowFormat, 4> kFormats{kv::RowFormat::F32, kv::RowFormat::F16, kv::RowFormat::BF16, kv::RowFormat::Q8_0};

}  // namespace

KvCase random_case(uint64_t seed, bool recompute) {
    std::mt19937_64 random(seed * 2 + (recompute ? 1 : 0));
    KvCase out;
    out.recompute = recompute;
    out.mix = random() % kv::scenario_mixes().size();
    out.block = 16 << (random() % 3);
    out.budget = random() % 3 == 0;
    out.cells = random() % 4 == 0 ? 2000 : 300 + static_cast<int32_t>(random() % 300);
    out.recipe = kRecipes[random() % kRecipes.size()];
    out.format = kFormats[random() % kFormats.size()];
    out.program = kv::random_program(random(), recompute ? 120 : 500);
    return out;
}

std::string run_case(const KvCase& one, KvCounts* counts) {
    KvCounts none;
    KvCounts& sum = counts == nullptr ? none : *counts;
    if (one.recompute) {
        RecomputeCounts done;
        std::string wrong = recompute({one.recipe, one.format, one.block, one.budget}, one.program, &done);
        sum.operations += done.operations;
        sum.tokens += done.tokens;
        sum.compared += done.compared;
        for (int64_t RecomputeCounts::*count : {&RecomputeCounts::full, &RecomputeCounts::cancelled, &RecomputeCounts::hits, &RecomputeCounts::reused,
                                                &RecomputeCounts::bakes, &RecomputeCounts::cancelled_bakes, &RecomputeCounts::compacted,
                                                &RecomputeCounts::shifts, &RecomputeCounts::evicted, &RecomputeCounts::loaded})
            sum.met.*count += done.*count;
        return wrong;
    }
    kv::RunCounts done;
    std::string wrong = kv::run(kv::scenario(one.mix, one.block, one.cells, one.budget), one.program, &done);
    sum.operations += done.operations;
    sum.tokens += done.tokens;
    return wrong;
}

KvCase shrink_case(const KvCase& one) {
    KvCase out(one);
    out.program = kv::shrink(one.program, [&](const kv::Program& program) {
        KvCase smaller(one);
        smaller.program = program;
        return !run_case(smaller).empty();
    });
    return out;
}

std::string text(const KvCase& one) {
    const std::string head = one.recompute ? fmt::format("recompute {} {} {} {}\n", one.recipe, kv::name(one.format), one.block, one.budget ? 1 : 0)
                                           : fmt::format("rows {} {} {} {}\n", one.mix, one.block, one.cells, one.budget ? 1 : 0);
    return head + kv::text(one.program);
}

bool parse_case(std::string_view source, KvCase& one) {
    std::istringstream in{std::string(source)};
    std::string line;
    while (std::getline(in, line) && (line.empty() || line[0] == '#')) {
    }
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "recompute") {
        std::string format;
        one.recompute = true;
        words >> one.recipe >> format >> one.block >> one.budget;
        const auto parsed = kv::parse_row_format(format);
        if (!parsed) return false;
        one.format = *parsed;
    } else if (kind == "rows") {
        words >> one.mix >> one.block >> one.cells >> one.budget;
    } else {
        return false;
    }
    std::ostringstream rest;
    rest << in.rdbuf();
    return !words.fail() && kv::parse(rest.str(), one.program);
}

}  // namespace cellar::tiny
