#include "apps/cells_picture.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/text_escape.h"

namespace cellar::apps {
namespace {

constexpr size_t kWidth = 64;  // blocks in a line
constexpr char kShared = '*';
constexpr char kKept = '+';
constexpr char kFree = '.';
constexpr char kTurned = '>';
constexpr char kColoured = '~';
constexpr char kAbsent = '_';

constexpr std::string_view kLegend =
    "* several branches   + kept for prompts that begin alike   . free   > turned (moved up without being read again)\n"
    "~ coloured (not what a fresh run computes)   _ nothing held\n";

char letter(size_t branch) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return kLetters[branch % kLetters.size()];
}

// Shared is bold, what nobody in particular holds is dim, each branch has a colour.
std::string_view colour_of(char mark) {
    constexpr std::string_view kBranch[] = {"\033[36m", "\033[32m", "\033[33m", "\033[35m", "\033[34m", "\033[31m"};
    switch (mark) {
        case kShared:
            return "\033[1m";
        case kKept:
        case kFree:
        case kAbsent:
            return "\033[2m";
        case kTurned:
        case kColoured:
            return "\033[7m";
        default:
            return kBranch[static_cast<size_t>(mark) % std::size(kBranch)];
    }
}

std::string painted(std::string_view marks, bool colours) {
    if (!colours) return std::string(marks);
    std::string out;
    for (size_t i = 0; i < marks.size(); ++i) {
        if (i == 0 || marks[i] != marks[i - 1]) out += fmt::format("\033[0m{}", colour_of(marks[i]));
        out += marks[i];
    }
    return out + "\033[0m";
}

void add_lines(std::string& out, std::string_view indent, std::string_view marks, bool colours) {
    for (size_t at = 0; at < marks.size(); at += kWidth)
        out += fmt::format("{}{}\n", at == 0 ? "" : indent, painted(marks.substr(at, kWidth), colours));
    if (marks.empty()) out += '\n';
}

// Who holds the blocks of a group, up to the last one that anybody does.
std::string map_of(const kv::Cache& cache, int group, std::span<const PicturedBranch> branches) {
    const int block = cache.limits().block;
    std::string out;
    const auto blocks = static_cast<int32_t>(cache.stats().groups[static_cast<size_t>(group)].blocks);
    for (int32_t b = 0; b < blocks; ++b) out += cache.holders(group, b) == 0 ? kFree : kKept;
    std::vector<size_t> last_seen(out.size(), branches.size());
    for (size_t i = 0; i < branches.size(); ++i) {
        for (const kv::Run& run : cache.runs(branches[i].seq, group)) {
            for (auto b = static_cast<size_t>(run.cell / block); b <= static_cast<size_t>((run.cell + run.len - 1) / block); ++b) {
                if (last_seen[b] == i) continue;
                out[b] = out[b] == kKept ? letter(i) : kShared;
                last_seen[b] = i;
            }
        }
    }
    const size_t last = out.find_last_not_of(kFree);
    out.resize(last == std::string::npos ? 0 : last + 1);
    return out;
}

// What stands at the positions of a branch: a mark for each block of them, the most remarkable thing in it.
std::string strip_of(const kv::Cache& cache, int group, const PicturedBranch& branch, const std::string& map) {
    const int block = cache.limits().block;
    const int32_t length = cache.length(branch.seq);
    const int32_t pure = cache.pure(branch.seq);
    std::string out(static_cast<size_t>((length + block - 1) / block), kAbsent);
    for (const kv::Run& run : cache.runs(branch.seq, group)) {
        for (int32_t pos = run.pos; pos < run.end(); ++pos) {
            char& mark = out[static_cast<size_t>(pos / block)];
            const char here = run.turn != 0 ? kTurned : pos >= pure ? kColoured : map[static_cast<size_t>((run.cell + pos - run.pos) / block)];
            if (mark == kTurned || (mark == kColoured && here != kTurned)) continue;
            mark = here;
        }
    }
    return out;
}

}  // namespace

std::string cells_picture(const kv::Cache& cache, std::span<const PicturedBranch> branches, bool colours) {
    std::string out;
    const kv::CacheStats stats = cache.stats();
    size_t widest = 4;
    for (const PicturedBranch& branch : branches) widest = std::max(widest, branch.name.size());
    const std::string indent(widest + 20, ' ');
    for (size_t g = 0; g < stats.groups.size(); ++g) {
        const kv::GroupStats& group = stats.groups[g];
        const std::string map = map_of(cache, static_cast<int>(g), branches);
        out += fmt::format("group {}: {} layers, blocks of {} tokens: {} in use, {} of them by several branches, {} kept alone, {} free\n", g,
                           cache.spec().groups[g].planes, cache.limits().block, group.blocks_used, std::count(map.begin(), map.end(), kShared),
                           std::count(map.begin(), map.end(), kKept), group.blocks - group.blocks_used);
        out += fmt::format("{:<{}}", "all", widest + 20);
        add_lines(out, indent, map, colours);
        for (size_t i = 0; i < branches.size(); ++i) {
            const PicturedBranch& branch = branches[i];
            out += fmt::format("{} {:<{}} {:>7} tokens {} ", letter(i), escape_for_terminal(branch.name), widest, cache.length(branch.seq),
                               branch.is_current ? '<' : ' ');
            add_lines(out, indent, strip_of(cache, static_cast<int>(g), branch, map), colours);
        }
    }
    return out + std::string(kLegend);
}

}  // namespace cellar::apps
