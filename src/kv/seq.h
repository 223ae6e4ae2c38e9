#pragma once
// A sequence: a token log and one run list per group.
#include <cstdint>
#include <optional>
#include <vector>

#include "kv/run_list.h"
#include "kv/spec.h"

namespace cellar::kv {

// Grows from sequence to sequence; a closed one never comes back.
enum class SeqId : uint64_t {};

// One entry of the log.
struct Token {
    int32_t id = 0;
    int32_t rotary = 0;  // rotary position; text counts 0, 1, 2, ...; the tokens of an image may repeat one
    uint64_t media = 0;  // hash of the media span that the token stands for; 0: text
    friend bool operator==(const Token&, const Token&) = default;
};

// Invariants
//  1. The log's runs cover [0, length + pending) without a gap. A run's turn is added to the stored rotary position.
//  2. Groups[g] lacks, of [0, length + pending), what was removed on purpose and [sinks, cut[g]), which its window or chunk let go.
//  3. pure <= length.
struct Seq {
    SeqId id{};           // 0: the slot is empty
    int32_t length = 0;   // committed tokens
    int32_t pending = 0;  // tokens of the open step
    int32_t pure = 0;
    bool baking = false;  // between begin_bake and its end
    RunList log;
    std::vector<RunList> groups;
    std::vector<int32_t> cut;  // [groups]
};

// The largest m <= n at which a list that let go [sinks, cut) still has all that the next query needs.
int32_t restorable(const Keep& keep, int32_t cut, int32_t n);

// `cut` after `gone` was taken out of a sequence of this length and what lay behind moved up; none if the next query would then
// see positions that the list let go.
std::optional<int32_t> shifted_cut(const Keep& keep, int32_t cut, Interval gone, int32_t length);

// Lets go what no query from `length` on can see, and raises `cut` to say so.
void slide(Store& store, RunList& list, const Keep& keep, int32_t length, int32_t& cut);

}  // namespace cellar::kv
