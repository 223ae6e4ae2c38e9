#pragma once
// Reading token logs: stores whose rows are tokens and whose runs' turns are shifts of rotary positions.
#include <span>

#include "kv/seq.h"
#include "kv/store.h"

namespace cellar::kv {

// Requires: the log holds all of `positions`; out has room for them.
void read_log(const Store& store, const RunList& log, Interval positions, std::span<Token> out);
// The token at a position of one run.
Token read_log(const Store& store, const Run& run, int32_t pos);
void write_log(Store& store, int32_t cell, const Token& token);

// The first position from `lo` on at which the log, which holds [lo, ...) without a gap, ends or same(token, position) is false.
template <class Same>
int32_t same_until(const Store& store, const RunList& log, int32_t lo, Same same) {
    for (auto r = static_cast<size_t>(log.find(lo)); r < log.runs().size(); ++r) {
        const Run& run = log.runs()[r];
        for (; lo < run.end(); ++lo) {
            if (!same(read_log(store, run, lo), lo)) return lo;
        }
    }
    return lo;
}

}  // namespace cellar::kv
