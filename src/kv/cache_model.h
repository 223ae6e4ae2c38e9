#pragma once
// A plain model of a cache for tests: for each sequence, group and position what happened to its rows. It knows no cells.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/cache.h"

namespace cellar::kv {

struct ModelRow {
    enum class State : uint8_t { Held, Removed, LetGo };
    State state = State::Held;
    uint64_t tag = 0;  // what was written: its bytes follow from it. Of a pure row it follows from the tokens up to this one
    int32_t turn = 0;
};

struct ModelSeq {
    std::vector<Token> log;
    std::vector<uint64_t> chain;  // [length] tags as they were written
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

// One more token, whose rows follow from it and what was before it; with a salt they are like no others.
void model_append(ModelSeq& seq, const Token& token, uint64_t salt);
// What a fresh run over these tokens leaves.
ModelSeq model_fresh(const CacheSpec& spec, std::span<const Token> tokens);

// Empty when the cache holds exactly what the model says, bytes included; else the first difference.
std::string compare_seq(const Cache& cache, SeqId id, const ModelSeq& seq);
std::string compare_view(const View& view, const std::vector<const ModelSeq*>& seqs /* of view.seqs, new tokens included */);

}  // namespace cellar::kv
