#include "kv/run_list.h"

#include <algorithm>

#include "base/check.h"
#include "kv/store.h"

namespace cellar::kv {
namespace {

// Calls f(block, first cell, cells) for the part of [cell, cell + n) in each block, ascending.
template <class F>
void for_each_block(int32_t block_cells, int32_t cell, int32_t n, F f) {
    for (const int32_t end = cell + n; cell < end;) {
        const int32_t block = cell / block_cells;
        const int32_t next = std::min(end, (block + 1) * block_cells);
        f(block, cell, next - cell);
        cell = next;
    }
}

bool joins(const Run& a, const Run& b) {
    return a.end() == b.pos && a.cell + a.len == b.cell && a.turn == b.turn;
}

}  // namespace

std::vector<Run> runs_within(std::span<const Run> runs, Interval positions) {
    std::vector<Run> out;
    for (const Run& run : runs) {
        const int32_t lo = std::max(run.pos, positions.lo);
        const int32_t hi = std::min(run.end(), positions.hi);
        if (lo < hi) out.push_back({lo, run.cell + (lo - run.pos), hi - lo, run.turn});
    }
    return out;
}

void RunList::reserve(size_t runs, size_t blocks) {
    runs_.reserve(runs);
    held_.reserve(blocks);
}

size_t RunList::held_at(int32_t block, size_t hint) const {
    if (hint < held_.size() && held_[hint].block == block) return hint;
    const auto at = std::lower_bound(held_.begin(), held_.end(), block, [](const Held& h, int32_t b) { return h.block < b; });
    return static_cast<size_t>(at - held_.begin());
}

// The block is ours already or was just taken for us.
void RunList::hold(Store& store, int32_t cell, int32_t n) {
    const int32_t block = cell / store.block_cells();
    const size_t at = held_.empty() || held_.back().block < block ? held_.size() : held_at(block, held_.size() - 1);
    if (at == held_.size() || held_[at].block != block) held_.insert(held_.begin() + static_cast<ptrdiff_t>(at), {block, 0});
    held_[at].cells += n;
    store.see(cell, n);
}

// Leaves entries without cells behind, for release_empty.
void RunList::drop(Store& store, int32_t cell, int32_t n) {
    for_each_block(store.block_cells(), cell, n, [&](int32_t block, int32_t first, int32_t cells) {
        hint_ = held_at(block, hint_);
        Held& held = held_[hint_];
        CHECK(held.block == block && held.cells >= cells);
        held.cells -= cells;
        if (held.cells == 0) ++emptied_;
        ++hint_;  // the next block is usually the next entry
        store.unsee(first, cells);
    });
}

void RunList::release_empty(Store& store) {
    hint_ = 0;
    if (emptied_ == 0) return;
    emptied_ = 0;
    std::erase_if(held_, [&](const Held& held) {
        if (held.cells > 0) return false;
        store.release(held.block);
        return true;
    });
}

void RunList::push(Run run) {
    if (!runs_.empty() && joins(runs_.back(), run)) {
        runs_.back().len += run.len;
    } else {
        runs_.push_back(run);
    }
}

int32_t RunList::highest_end(int32_t block, int32_t block_cells) const {
    const int32_t first = block * block_cells;
    int32_t highest = 0;
    for (const Run& run : runs_) {
        const int32_t end = std::min(run.cell + run.len, first + block_cells);
        if (end > std::max(run.cell, first)) highest = std::max(highest, end - first);
    }
    return highest;
}

// What only this holder has seen behind its last cell of the block may be handed out again.
void RunList::lower_fill(Store& store) {
    if (runs_.empty()) return;
    const int32_t block = (runs_.back().cell + runs_.back().len - 1) / store.block_cells();
    if (store.pool().refs(block) == 1) store.pool().set_fill(block, highest_end(block, store.block_cells()));
}

bool RunList::append(Store& store, int32_t pos, int32_t n, int32_t* cells) {
    CHECK(runs_.empty() || runs_.back().end() <= pos);
    const int32_t block_cells = store.block_cells();
    const int32_t begin = pos;
    int32_t block = runs_.empty() ? -1 : (runs_.back().cell + runs_.back().len - 1) / block_cells;
    for (const int32_t end = pos + n; pos < end;) {
        int32_t fill = block_cells;
        if (block >= 0) {
            const int32_t last = runs_.back().cell + runs_.back().len - block * block_cells;
            const bool alone = store.pool().refs(block) == 1;
            if (alone && last != store.pool().fill(block)) lower_fill(store);
            if (alone || last == store.pool().fill(block)) fill = store.pool().fill(block);
        }
        if (fill == block_cells) {
            block = store.take(block < 0 ? -1 : block + 1);
            fill = 0;
            if (block < 0) {
                retract(store, begin);
                return false;
            }
        }
        const int32_t cell = block * block_cells + fill;
        const int32_t len = std::min(end - pos, block_cells - fill);
        store.pool().set_fill(block, fill + len);
        hold(store, cell, len);
        push({pos, cell, len, 0});
        for (int32_t i = 0; cells != nullptr && i < len; ++i) cells[pos - begin + i] = cell + i;
        pos += len;
    }
    return true;
}

void RunList::retract(Store& store, int32_t pos) {
    while (!runs_.empty() && runs_.back().end() > pos) {
        Run& run = runs_.back();
        const int32_t len = std::min(run.len, run.end() - pos);
        const int32_t first = run.cell + run.len - len;
        for_each_block(store.block_cells(), first, len, [&](int32_t block, int32_t cell, int32_t n) {
            const int32_t offset = cell - block * store.block_cells();
            if (store.pool().fill(block) == offset + n) store.pool().set_fill(block, offset);
        });
        drop(store, first, len);
        run.len -= len;
        if (run.len == 0) runs_.pop_back();
    }
    release_empty(store);
}

void RunList::trim(Store& store, int32_t n) {
    if (runs_.empty() || runs_.back().end() <= n) return;
    remove(store, {n, INT32_MAX});
    lower_fill(store);
}

void RunList::remove(Store& store, Interval positions) {
    const auto [lo, hi] = positions;
    if (lo >= hi) return;
    auto first = std::lower_bound(runs_.begin(), runs_.end(), lo, [](const Run& run, int32_t p) { return run.end() <= p; });
    if (first == runs_.end() || first->pos >= hi) return;
    if (first->pos < lo && first->end() > hi) {
        const int32_t offset = hi - first->pos;
        const Run tail{hi, first->cell + offset, first->len - offset, first->turn};
        drop(store, first->cell + (lo - first->pos), hi - lo);
        first->len = lo - first->pos;
        runs_.insert(first + 1, tail);
        release_empty(store);
        return;
    }
    if (first->pos < lo) {
        const int32_t kept = lo - first->pos;
        drop(store, first->cell + kept, first->len - kept);
        first->len = kept;
        ++first;
    }
    auto last = first;
    for (; last != runs_.end() && last->end() <= hi; ++last) drop(store, last->cell, last->len);
    if (last != runs_.end() && last->pos < hi) {
        const int32_t gone = hi - last->pos;
        drop(store, last->cell, gone);
        *last = {hi, last->cell + gone, last->len - gone, last->turn};
    }
    runs_.erase(first, last);
    release_empty(store);
}

void RunList::shift(int32_t from, int32_t by, int32_t turn) {
    const auto first = std::lower_bound(runs_.begin(), runs_.end(), from, [](const Run& run, int32_t p) { return run.pos < p; });
    if (first == runs_.end()) return;
    for (auto run = first; run != runs_.end(); ++run) {
        run->pos += by;
        run->turn += turn;
    }
    if (first == runs_.begin()) return;
    CHECK_LE((first - 1)->end(), first->pos);
    if (joins(*(first - 1), *first)) {
        (first - 1)->len += first->len;
        runs_.erase(first);
    }
}

void RunList::turn(int32_t from, int32_t by) {
    if (by == 0) return;
    auto run = std::upper_bound(runs_.begin(), runs_.end(), from, [](int32_t p, const Run& r) { return p < r.end(); });
    if (run == runs_.end()) return;
    if (run->pos < from) {
        const int32_t head = from - run->pos;
        const Run tail{from, run->cell + head, run->len - head, run->turn};
        run->len = head;
        run = runs_.insert(run + 1, tail);
    }
    shift(run->pos, 0, by);
}

void RunList::share(Store& store, std::span<const Run> runs, int32_t n) {
    CHECK(runs_.empty() && held_.empty());
    bool sorted = true;
    for (Run run : runs) {
        if (run.pos >= n) break;
        run.len = std::min(run.len, n - run.pos);
        push(run);
        store.see(run.cell, run.len);
        for_each_block(store.block_cells(), run.cell, run.len, [&](int32_t block, int32_t, int32_t cells) {
            sorted = sorted && (held_.empty() || held_.back().block < block);
            held_.push_back({block, cells});
        });
    }
    if (!sorted) {
        std::sort(held_.begin(), held_.end(), [](const Held& a, const Held& b) { return a.block < b.block; });
        size_t kept = 0;
        for (size_t i = 1; i < held_.size(); ++i) {
            if (held_[i].block == held_[kept].block) {
                held_[kept].cells += held_[i].cells;
            } else {
                held_[++kept] = held_[i];
            }
        }
        held_.resize(kept + 1);
    }
    for (const Held& held : held_) store.pool().hold(held.block);
}

int64_t RunList::find(int32_t pos) const {
    const auto at = std::upper_bound(runs_.begin(), runs_.end(), pos, [](int32_t p, const Run& run) { return p < run.pos; });
    if (at == runs_.begin() || (at - 1)->end() <= pos) return -1;
    return at - runs_.begin() - 1;
}

void RunList::rename(Store& store, std::span<const int32_t> moved) {
    std::vector<Run> old;
    old.swap(runs_);
    runs_.reserve(std::max(old.capacity(), held_.size()));
    const int32_t block_cells = store.block_cells();
    for (const Run& run : old) {
        int32_t pos = run.pos;
        for_each_block(block_cells, run.cell, run.len, [&](int32_t block, int32_t cell, int32_t n) {
            push({pos, moved[static_cast<size_t>(block)] * block_cells + cell % block_cells, n, run.turn});
            pos += n;
        });
    }
    for (Held& held : held_) held.block = moved[static_cast<size_t>(held.block)];
    std::sort(held_.begin(), held_.end(), [](const Held& a, const Held& b) { return a.block < b.block; });
}

}  // namespace cellar::kv
