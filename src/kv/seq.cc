#include "kv/seq.h"

#include <algorithm>

#include "kv/store.h"

namespace cellar::kv {

int32_t restorable(const Keep& keep, int32_t cut, int32_t n) {
    // Let go is [sinks, cut). A query at m needs [first_needed(m), m) and the sinks below m.
    const int32_t first = first_needed(keep, n);
    if (first >= std::min(cut, n)) return n;
    // A shorter window begins earlier still, so what remains is a length that needs nothing behind the sinks.
    return keep.kind == Keep::Kind::Chunk ? first : std::min(keep.sinks, n);
}

std::optional<int32_t> shifted_cut(const Keep& keep, int32_t cut, Interval gone, int32_t length) {
    const int32_t by = gone.length();
    if (cut > gone.lo) {
        if (gone.lo >= keep.sinks) {
            cut = std::max(gone.lo, cut - by);
        } else {
            // Positions behind the sinks move into them: all of those must be there.
            if (cut > std::max(keep.sinks, gone.hi)) return std::nullopt;
            cut = 0;
        }
    }
    if (restorable(keep, cut, length - by) != length - by) return std::nullopt;
    return cut;
}

void slide(Store& store, RunList& list, const Keep& keep, int32_t length, int32_t& cut) {
    const int32_t first = first_needed(keep, length);
    const int32_t kept = keep.kind == Keep::Kind::Window ? keep.sinks : 0;
    if (first <= std::max(cut, kept)) return;
    list.remove(store, {std::max(cut, kept), first});
    cut = first;
}

}  // namespace cellar::kv
