#include "model/packer.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/check.h"
#include "base/units.h"

namespace cellar::model {
namespace {

constexpr size_t kAlign = 64;
constexpr size_t kPiece = size_t{16} << 20;  // of the file, packed before its pages go back
constexpr size_t kHugePage = size_t{2} << 20;

size_t aligned(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

}  // namespace

Result<std::unique_ptr<Packer>> Packer::make(const ops::Ops& ops, const gguf::File& file, int threads) {
    std::unique_ptr<Packer> out(new Packer(ops, file, threads));
    size_t bytes = kHugePage;
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        const auto matrices = static_cast<size_t>(tensor.dims[2] * tensor.dims[3]);
        bytes += aligned(ops.packed_bytes(tensor.type, tensor.dims[1], tensor.dims[0]), kAlign) * matrices;
    }
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return fail(ErrorKind::System, "{}: no address space for {} of packed weights; --no-pack reads the file as it is", file.path(),
                    format_bytes(bytes));
    out->base_ = static_cast<std::byte*>(at);
    out->reserved_ = bytes;
    // Every product walks through all of it: fewer, larger pages save look-ups. Small models would only waste memory.
    if (bytes >= 16 * kHugePage) madvise(at, bytes, MADV_HUGEPAGE);
    return out;
}

Packer::~Packer() {
    if (base_ != nullptr) munmap(base_, reserved_);
}

ops::WeightMatrix Packer::pack(const ops::WeightMatrix& w, int64_t count) {
    const size_t bytes = ops_.packed_bytes(w.type, w.rows, w.cols);
    if (bytes == 0) return w;
    CHECK_EQ(bytes % kAlign, 0U);
    const size_t file_row = row_bytes(w.type, w.cols);
    const int64_t lanes = ops_.packed_lanes();
    const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(kPiece / file_row) / lanes) * lanes;
    const size_t start = used_;
    for (int64_t i = 0; i < count; ++i) {
        ops::WeightMatrix source = w;
        source.data = w.data + static_cast<size_t>(i * w.rows) * file_row;
        CHECK_LE(used_ + bytes, reserved_);
        for (int64_t first = 0; first < w.rows; first += step) {
            const int64_t last = std::min(first + step, w.rows);
            ops_.pack_rows(source, first, last, base_ + used_, team_);
            gguf::TensorInfo piece{};
            piece.data = source.data + static_cast<size_t>(first) * file_row;
            piece.bytes = static_cast<size_t>(last - first) * file_row;
            file_.drop(piece);
        }
        used_ += bytes;
    }
    return {w.type, w.rows, w.cols, base_ + start, true, w.exact};
}

}  // namespace cellar::model
