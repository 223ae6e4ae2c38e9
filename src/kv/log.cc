#include "kv/log.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace cellar::kv {

Token read_log(const Store& store, const Run& run, int32_t pos) {
    Token token;
    std::memcpy(&token, store.arena().rows()[0].at(0, 0, run.cell + (pos - run.pos)), sizeof(Token));
    token.rotary += run.turn;
    return token;
}

void read_log(const Store& store, const RunList& log, Interval positions, std::span<Token> out) {
    CHECK_LE(static_cast<size_t>(positions.length()), out.size());
    int32_t pos = positions.lo;
    if (pos >= positions.hi) return;
    const int64_t first = log.find(pos);
    CHECK_GE(first, 0);
    for (auto r = static_cast<size_t>(first); pos < positions.hi; ++r) {
        const Run& run = log.runs()[r];
        const int32_t end = std::min(run.end(), positions.hi);
        for (; pos < end; ++pos) out[static_cast<size_t>(pos - positions.lo)] = read_log(store, run, pos);
    }
}

void write_log(Store& store, int32_t cell, const Token& token) {
    std::memcpy(store.arena().rows()[0].at(0, 0, cell), &token, sizeof(Token));
}

}  // namespace cellar::kv
