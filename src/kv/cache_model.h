#pragma once
// A plain model of a cache for tests: for each sequence, group and position what happened to its rows. It knows no cells.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kv/cache.h"

namespace cellar::kv {

struct ModelRow {
    enum class State : uint8_t { Held, Removed, LetGo };
    State state = State::Held;
    uint64_t tag = 0;  // what was written: its bytes follow from it
    int32_t turn = 0;
};

struct ModelSeq {
    std::vector<Token> log;
    int32_t pure = 0;
    std::vector<std::vector<ModelRow>> groups;  // [groups][length]

    [[nodiscard]] int32_t length() const { return static_cast<int32_t>(log.size()); }
};

// A tiny model's worth of rows in every format.
std::vector<RowSpec> model_rows();
CacheSpec model_spec(const std::vector<Keep>& keeps);

// The bytes that `tag` stands for in one row of one head. No byte pattern that is poison.
std::vector<std::byte> row_bytes_of(uint64_t tag, size_t group, size_t row, int plane, int head, size_t bytes);
void write_row(std::span<const RowTable> rows, size_t group, int32_t cell, uint64_t tag);
void write_rows(const View& view, int32_t token, uint64_t tag);

// Whether a query at `pos` sees `p`, straight from the words of the design.
bool sees(const Keep& keep, int32_t pos, int32_t p);
// The largest m <= n at which no group has let go a position that a query at m sees.
int32_t model_restorable(const CacheSpec& spec, const ModelSeq& seq, int32_t n);
void model_let_go(const CacheSpec& spec, ModelSeq& seq);
void model_trim(ModelSeq& seq, int32_t n);
void model_remove(ModelSeq& seq, Interval range);
// False, with nothing done, where a group then lacks what the next query sees.
bool model_shift(const CacheSpec& spec, ModelSeq& seq, Interval range);

// Empty when the cache holds exactly what the model says, bytes included; else the first difference.
std::string compare(const Cache& cache, const std::map<SeqId, ModelSeq>& model);
std::string compare_seq(const Cache& cache, SeqId id, const ModelSeq& seq);
std::string compare_view(const View& view, const std::vector<const ModelSeq*>& seqs /* of view.seqs, new tokens included */);

// Random operations on a cache and its model, compared and verified after each. Choices drive it; the same choices do the same.
struct Scenario {
    std::vector<Keep> keeps;
    CacheLimits limits;
};
struct ScenarioCounts {
    int64_t operations = 0, tokens = 0, forks = 0, full = 0, abandoned = 0, refused_shifts = 0, shifts = 0, removes = 0, inner = 0, compacts = 0,
            bakes = 0;
};
// Empty when all went well.
std::string run_scenario(const Scenario& scenario, const std::vector<uint32_t>& choices, ScenarioCounts* counts = nullptr);

}  // namespace cellar::kv
