#pragma once
// Operations on a cache as a short program: random ones to find faults with, written out and read back to keep what was found.
//
// Every operation means something in every state: a number picks one of what there is, modulo how much there is. So any part of a program is a
// program, which is what shrinking needs.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace cellar::kv {

enum class OpKind : uint8_t {
    Open,
    Close,      // a: sequence
    Fork,       // a: sequence, b: length
    Append,     // a: sequence, b: how many tokens, c: which tokens, which others grow in the same step
    Begin,      // as append, but the step stays open
    Commit,     // a: open step, b: 0 mod 4 keeps only some tokens of each part
    Abandon,    // a: open step
    Trim,       // a: sequence, b: length
    Overwrite,  // a: sequence, b: position, c: tokens, as many as were there
    Remove,     // a: sequence, b: first position, c: how many
    Shift,      // as remove
    BakeBegin,  // a: sequence
    BakeEnd,    // a: open bake, b: 0 mod 4 abandons it
    Compact,    // a: 0 mod 2 moves everything, else b cells at most
    Release,
    Keep,   // a: sequence, b: length, c: root; 0 mod 3 asks for it at once
    Hit,    // a: sequence whose tokens are asked for, b: how many of them, c: root
    Pin,    // as hit
    Evict,  // a: bytes
    Save,   // a: sequence, b: where it is cut in two, c: slot
    Load,   // c: slot
};
inline constexpr std::array<std::string_view, 21> op_names = {"open",    "close",     "fork",   "append", "begin", "commit", "abandon",
                                                              "trim",    "overwrite", "remove", "shift",  "bake",  "baked",  "compact",
                                                              "release", "keep",      "hit",    "pin",    "evict", "save",   "load"};
// How often each comes in a random program.
inline constexpr std::array<int, 21> op_weights = {5, 3, 8, 30, 10, 9, 3, 8, 3, 2, 6, 3, 3, 5, 1, 6, 6, 1, 4, 3, 3};

struct Op {
    OpKind kind = OpKind::Open;
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
    friend bool operator==(const Op&, const Op&) = default;
};
using Program = std::vector<Op>;

// Numbers at hand decide: bytes of a fuzzer, or a random generator.
inline Op op_from(uint32_t kind, uint32_t a, uint32_t b, uint32_t c) {
    int total = 0;
    for (const int weight : op_weights) total += weight;
    auto left = static_cast<int>(kind % static_cast<uint32_t>(total));
    size_t k = 0;
    while (left >= op_weights[k]) left -= op_weights[k++];
    return {static_cast<OpKind>(k), a, b, c};
}

inline Program random_program(uint64_t seed, size_t operations) {
    std::mt19937_64 random(seed);
    Program out;
    const auto next = [&] { return static_cast<uint32_t>(random() % 1'000'000); };
    for (size_t i = 0; i < operations; ++i) {
        const uint32_t kind = next();
        const uint32_t a = next() % 64;
        const uint32_t b = next() % 1024;
        out.push_back(op_from(kind, a, b, next() % 1024));
    }
    return out;
}

inline std::string text(const Program& program) {
    std::string out;
    for (const Op& op : program) out += fmt::format("{} {} {} {}\n", op_names[static_cast<size_t>(op.kind)], op.a, op.b, op.c);
    return out;
}

// Lines that are empty or begin with # are passed over. False where a line is no operation.
inline bool parse(std::string_view source, Program& program) {
    std::istringstream lines{std::string(source)};
    for (std::string line; std::getline(lines, line);) {
        if (line.empty() || line[0] == '#') continue;
        std::istringstream words(line);
        std::string name;
        Op op;
        const bool numbers = static_cast<bool>(words >> name >> op.a >> op.b >> op.c);
        const auto* at = std::find(op_names.begin(), op_names.end(), name);
        if (!numbers || at == op_names.end()) return false;
        op.kind = static_cast<OpKind>(at - op_names.begin());
        program.push_back(op);
    }
    return true;
}

// The program with as much taken out, and numbers as small, as still fails. Runs it a few hundred times at most.
inline Program shrink(Program program, const std::function<bool(const Program&)>& fails, int tries = 600) {
    for (size_t length = program.size() / 2; length > 0 && tries > 0;) {
        bool shorter = false;
        for (size_t at = 0; at < program.size() && tries > 0;) {
            Program fewer(program);
            fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(at), fewer.begin() + static_cast<ptrdiff_t>(std::min(at + length, fewer.size())));
            --tries;
            if (fails(fewer)) {
                program = std::move(fewer);
                shorter = true;
            } else {
                at += length;
            }
        }
        if (length > 1 || !shorter) length /= 2;
    }
    for (size_t i = 0; i < program.size(); ++i) {
        for (uint32_t Op::*number : {&Op::a, &Op::b, &Op::c}) {
            for (const uint32_t less : {0U, program[i].*number / 8, program[i].*number / 2}) {
                if (less >= program[i].*number || --tries < 0) continue;
                Program smaller(program);
                smaller[i].*number = less;
                if (!fails(smaller)) continue;
                program = std::move(smaller);
                break;
            }
        }
    }
    return program;
}

}  // namespace cellar::kv
