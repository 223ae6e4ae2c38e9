#include "kv/store.h"

#include <algorithm>

#include "base/check.h"

namespace cellar::kv {

size_t StoreShape::block_bytes() const {
    size_t bytes = 0;
    for (const RowSpec& row : rows) bytes += row.bytes();
    return bytes * static_cast<size_t>(planes) * static_cast<size_t>(block_cells);
}

Result<std::unique_ptr<Store>> Store::make(const StoreShape& shape, Budget& budget) {
    auto store = std::make_unique<Store>();
    CELLAR_TRY(store->pool_, Pool::make(shape.blocks, shape.block_cells));
    const int32_t cells = shape.blocks * shape.block_cells;
    CELLAR_TRY(store->arena_, Arena::make(shape.planes, shape.rows, cells));
    if (shape.poison) store->seen_.resize(static_cast<size_t>(cells));
    store->block_bytes_ = shape.block_bytes();
    store->budget_ = &budget;
    budget.tables += Pool::table_bytes(shape.blocks);
    budget.used += Pool::table_bytes(shape.blocks);
    return store;
}

int32_t Store::take(int32_t wish) {
    refused_by_budget_ = pool_.free() > 0 && budget_->limit != 0 && budget_->used + block_bytes_ > budget_->limit;
    if (refused_by_budget_) return -1;
    const int32_t touched = pool_.touched_blocks();
    const int32_t b = pool_.take(wish);
    if (b < 0) return -1;
    budget_->used += block_bytes_;
    budget_->touched += static_cast<size_t>(pool_.touched_blocks() - touched) * block_bytes_;
    // Pages that come fresh from the system hold zeros; what nobody has written yet must not pass for rows.
    if (poisons()) arena_.poison(b * block_cells(), block_cells());
    return b;
}

void Store::release(int32_t b) {
    if (pool_.release(b)) budget_->used -= block_bytes_;
}

void Store::see(int32_t cell, int32_t len) {
    if (!poisons()) return;
    for (int32_t c = cell; c < cell + len; ++c) ++seen_[static_cast<size_t>(c)];
}

void Store::unsee(int32_t cell, int32_t len) {
    if (!poisons()) return;
    for (int32_t c = cell; c < cell + len; ++c) {
        CHECK_GT(seen(c), 0);
        if (--seen_[static_cast<size_t>(c)] == 0) arena_.poison(c, 1);
    }
}

void Store::move(int32_t from, int32_t to) {
    const int32_t cells = block_cells();
    const int32_t touched = pool_.touched_blocks();
    pool_.move(from, to);
    budget_->touched += static_cast<size_t>(pool_.touched_blocks() - touched) * block_bytes_;
    arena_.copy(from * cells, to * cells, pool_.fill(to));
    if (!poisons()) return;
    arena_.poison(to * cells + pool_.fill(to), cells - pool_.fill(to));
    arena_.poison(from * cells, cells);
    const auto first = [&](int32_t block) { return seen_.begin() + std::ptrdiff_t{block} * cells; };
    std::swap_ranges(first(from), first(from) + cells, first(to));
}

void Store::release_pages() {
    const int32_t blocks = pool_.blocks();
    for (int32_t first = pool_.next_free(0); first < blocks;) {
        int32_t last = first;
        bool touched = false;
        for (; last < blocks && pool_.is_free(last); ++last) {
            if (!pool_.touched(last)) continue;
            touched = true;
            pool_.set_untouched(last);
            budget_->touched -= block_bytes_;
        }
        if (touched) arena_.discard(first * block_cells(), (last - first) * block_cells());
        first = pool_.next_free(last);
    }
}

}  // namespace cellar::kv
