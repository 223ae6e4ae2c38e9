#pragma once
// Cells that are held without being a sequence: kept prefixes, marks, bakes in progress, saves in progress.
//
// The cache knows every holding, so that verify counts it and compact tells it where its blocks went.
#include <cstddef>
#include <vector>

#include "kv/run_list.h"

namespace cellar::kv {

class Cache;

class Holding {
  public:
    explicit Holding(Cache& cache);
    ~Holding();  // lets everything go; before the cache ends
    Holding(const Holding&) = delete;
    Holding& operator=(const Holding&) = delete;

    RunList log;
    std::vector<RunList> groups;  // [groups of the cache]

  private:
    friend class Cache;
    Cache* cache_;
    size_t slot_;  // where the cache lists it
};

}  // namespace cellar::kv
