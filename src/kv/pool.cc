#include "kv/pool.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace cellar::kv {
namespace {

size_t bit_words(int32_t blocks) {
    return (static_cast<size_t>(blocks) + 63) / 64;
}

}  // namespace

size_t Pool::table_bytes(int32_t blocks) {
    return static_cast<size_t>(blocks) * sizeof(Entry) + bit_words(blocks) * sizeof(uint64_t);
}

Result<Pool> Pool::make(int32_t blocks, int32_t block_cells) {
    CHECK_GT(blocks, 0);
    CHECK(std::has_single_bit(static_cast<uint32_t>(block_cells)) && block_cells <= INT16_MAX);
    Pool pool;
    CELLAR_TRY(pool.entries_, Mapping::make(static_cast<size_t>(blocks) * sizeof(Entry)));
    CELLAR_TRY(pool.used_bits_, Mapping::make(bit_words(blocks) * sizeof(uint64_t)));
    pool.blocks_ = blocks;
    pool.block_cells_ = block_cells;
    return pool;
}

Pool::Entry& Pool::entry(int32_t b) {
    CHECK(b >= 0 && b < blocks_);
    return reinterpret_cast<Entry*>(entries_.data())[b];
}

const Pool::Entry& Pool::entry(int32_t b) const {
    return const_cast<Pool*>(this)->entry(b);
}

bool Pool::is_free(int32_t b) const {
    const auto* words = reinterpret_cast<const uint64_t*>(used_bits_.data());
    return ((words[b / 64] >> (b % 64)) & 1U) == 0;
}

void Pool::set_free(int32_t b, bool free) {
    auto* words = reinterpret_cast<uint64_t*>(used_bits_.data());
    const uint64_t bit = uint64_t{1} << (b % 64);
    if (free) {
        words[b / 64] &= ~bit;
        lowest_ = std::min(lowest_, b);
        --used_;
    } else {
        words[b / 64] |= bit;
        if (lowest_ == b) ++lowest_;
        ++used_;
    }
}

int32_t Pool::next_free(int32_t from) const {
    const auto* words = reinterpret_cast<const uint64_t*>(used_bits_.data());
    for (int32_t b = from; b < blocks_; b = (b / 64 + 1) * 64) {
        const uint64_t free = ~words[b / 64] >> (b % 64);
        if (free != 0) return std::min(b + std::countr_zero(free), blocks_);
    }
    return blocks_;
}

int32_t Pool::take(int32_t wish) {
    int32_t b = wish;
    if (b < 0 || b >= blocks_ || !is_free(b)) {
        b = next_free(lowest_);
        lowest_ = b;
        if (b == blocks_) return -1;
    }
    Entry& e = entry(b);
    CHECK_EQ(e.refs, 0);
    e.refs = 1;
    e.fill = 0;
    if (e.touched == 0) ++touched_;
    e.touched = 1;
    set_free(b, false);
    return b;
}

void Pool::hold(int32_t b) {
    Entry& e = entry(b);
    CHECK_GT(e.refs, 0);
    ++e.refs;
}

bool Pool::release(int32_t b) {
    Entry& e = entry(b);
    CHECK_GT(e.refs, 0);
    if (--e.refs > 0) return false;
    e.fill = 0;
    set_free(b, true);
    return true;
}

void Pool::set_fill(int32_t b, int32_t fill) {
    Entry& e = entry(b);
    CHECK(e.refs > 0 && fill >= 0 && fill <= block_cells_);
    e.fill = static_cast<int16_t>(fill);
}

void Pool::set_untouched(int32_t b) {
    Entry& e = entry(b);
    CHECK_EQ(e.refs, 0);
    if (e.touched != 0) --touched_;
    e.touched = 0;
}

void Pool::move(int32_t from, int32_t to) {
    Entry& source = entry(from);
    Entry& target = entry(to);
    CHECK(source.refs > 0 && target.refs == 0);
    if (target.touched == 0) ++touched_;
    target = {source.refs, source.fill, 1};
    source.refs = 0;
    source.fill = 0;
    set_free(to, false);
    set_free(from, true);
}

}  // namespace cellar::kv
