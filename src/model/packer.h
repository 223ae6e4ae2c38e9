#pragma once
// Rewrites weights for this machine while a model is loaded, in memory of its own, and gives the file's pages back as it goes: the
// weights are never resident twice.
#include <cstddef>
#include <memory>

#include "base/result.h"
#include "base/thread_team.h"
#include "model/gguf.h"
#include "ops/ops.h"

namespace cellar::model {

class Packer {
  public:
    // Reserves address space for everything in the file; it is touched as matrices are packed. The file must outlive pack().
    static Result<std::unique_ptr<Packer>> make(const ops::Ops& ops, const gguf::File& file, int threads);
    ~Packer();
    Packer(const Packer&) = delete;
    Packer& operator=(const Packer&) = delete;

    // `count` matrices of this shape that lie one behind the other; w.data is the first. Returns the first as packed, or w itself
    // where its type has no packed form.
    ops::WeightMatrix pack(const ops::WeightMatrix& w, int64_t count);
    [[nodiscard]] size_t bytes() const { return used_; }

  private:
    Packer(const ops::Ops& ops, const gguf::File& file, int threads) : ops_(ops), file_(file), team_(threads) {}

    const ops::Ops& ops_;
    const gguf::File& file_;
    ThreadTeam team_;
    std::byte* base_ = nullptr;
    size_t reserved_ = 0;
    size_t used_ = 0;
};

}  // namespace cellar::model
