#pragma once
// A picture of the cache in characters: which blocks there are, who holds them, and what stands in them.
#include <span>
#include <string>

#include "kv/cache.h"

namespace cellar::apps {

struct PicturedBranch {
    std::string name;
    kv::SeqId seq;
    bool is_current = false;
};

// For each group of layers a map of its blocks, and below it a line for each branch with a character for each block of positions. Without
// colours nothing is lost: they repeat what the characters say.
std::string cells_picture(const kv::Cache& cache, std::span<const PicturedBranch> branches, bool colours);

}  // namespace cellar::apps
