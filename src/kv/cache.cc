#include "kv/cache.h"

#include <algorithm>

#include "base/check.h"
#include "kv/log.h"
#include "kv/plan.h"

namespace cellar::kv {
namespace {

constexpr int slot_bits = 16;

size_t slot_of(SeqId id) {
    return static_cast<uint64_t>(id) & ((uint64_t{1} << slot_bits) - 1);
}

}  // namespace

Result<std::unique_ptr<Cache>> Cache::make(CacheSpec spec, CacheLimits limits) {
    CELLAR_TRY(Plan plan, kv::plan(spec, limits));
    std::unique_ptr<Cache> cache(new Cache(std::move(spec), plan.limits));
    cache->budget_.limit = limits.budget_bytes;
    for (const StoreShape& shape : plan.groups) {
        CELLAR_TRY(auto store, Store::make(shape, cache->budget_));
        cache->stores_.push_back(std::move(store));
    }
    CELLAR_TRY(cache->log_, Store::make(plan.log, cache->budget_));
    cache->seqs_.resize(static_cast<size_t>(limits.max_seqs));
    return cache;
}

Cache::~Cache() {
    CHECK_EQ(open_steps_, 0);
}

// --- sequences

bool Cache::is_open(SeqId id) const {
    return slot_of(id) < seqs_.size() && id != SeqId{} && seqs_[slot_of(id)].id == id;
}

const Seq& Cache::seq(SeqId id) const {
    CHECK(is_open(id));
    return seqs_[slot_of(id)];
}

Seq& Cache::seq(SeqId id) {
    CHECK(is_open(id));
    return seqs_[slot_of(id)];
}

Seq& Cache::idle_seq(SeqId id) {
    Seq& found = seq(id);
    CHECK(found.pending == 0 && !found.baking);
    return found;
}

Result<SeqId> Cache::open() {
    const auto slot = std::find_if(seqs_.begin(), seqs_.end(), [](const Seq& s) { return s.id == SeqId{}; });
    if (slot == seqs_.end()) return fail(ErrorKind::Full, "cache: all {} sequences are open", seqs_.size());
    slot->id = SeqId{(next_serial_++ << slot_bits) | static_cast<uint64_t>(slot - seqs_.begin())};
    ++open_seqs_;
    if (slot->groups.empty()) {
        // Lists for a whole context that lies in neighbouring cells only by chance; kept for the next sequence of this slot.
        const auto blocks = static_cast<size_t>(std::min(limits_.cells, limits_.context) / limits_.block) + 4;
        const auto log_blocks = static_cast<size_t>(limits_.context / log_block_tokens) + 4;
        slot->groups.resize(stores_.size());
        slot->cut.resize(stores_.size());
        for (RunList& list : slot->groups) list.reserve(blocks, blocks);
        slot->log.reserve(log_blocks, log_blocks);
    }
    return slot->id;
}

void Cache::close(SeqId id) {
    Seq& s = idle_seq(id);
    for (size_t g = 0; g < stores_.size(); ++g) s.groups[g].clear(*stores_[g]);
    s.log.clear(*log_);
    std::fill(s.cut.begin(), s.cut.end(), 0);
    s.length = 0;
    s.pure = 0;
    s.id = SeqId{};
    --open_seqs_;
}

void Cache::colour(SeqId id, int32_t from) {
    Seq& s = idle_seq(id);
    s.pure = std::min(s.pure, std::max(from, 0));
}

Token Cache::token(SeqId id, int32_t pos) const {
    Token token;
    copy_tokens(id, {pos, pos + 1}, {&token, 1});
    return token;
}

void Cache::copy_tokens(SeqId id, Interval positions, std::span<Token> out) const {
    CHECK(positions.lo >= 0 && positions.hi <= seq(id).length);
    read_log(*log_, seq(id).log, positions, out);
}

int32_t Cache::common_prefix(SeqId id, std::span<const Token> tokens) const {
    const int32_t end = std::min(static_cast<int32_t>(tokens.size()), length(id));
    return same_until(*log_, seq(id).log, 0, [&](const Token& t, int32_t pos) { return pos < end && t == tokens[static_cast<size_t>(pos)]; });
}

int32_t Cache::common_prefix(SeqId id, std::span<const int32_t> ids) const {
    const int32_t end = std::min(static_cast<int32_t>(ids.size()), length(id));
    return same_until(*log_, seq(id).log, 0, [&](const Token& t, int32_t pos) {
        return pos < end && t == Token{ids[static_cast<size_t>(pos)], pos, 0};
    });
}

int32_t Cache::restorable(SeqId id, int32_t n) const {
    const Seq& s = seq(id);
    int32_t m = std::clamp(n, 0, s.length);
    // What one group gives up may be more than another can do with, so until all agree.
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t g = 0; g < stores_.size(); ++g) {
            const int32_t reached = kv::restorable(spec_.groups[g].keep, s.cut[g], m);
            changed = changed || reached != m;
            m = reached;
        }
    }
    return m;
}

int32_t Cache::trim(SeqId id, int32_t n) {
    Seq& s = idle_seq(id);
    const int32_t m = restorable(id, n);
    for (size_t g = 0; g < stores_.size(); ++g) {
        s.groups[g].trim(*stores_[g], m);
        s.cut[g] = std::min(s.cut[g], m);
    }
    s.log.trim(*log_, m);
    s.length = m;
    s.pure = std::min(s.pure, m);
    return m;
}

Result<SeqId> Cache::fork(SeqId id, int32_t at) {
    const Seq& parent = idle_seq(id);
    const int32_t m = restorable(id, at);
    CELLAR_TRY(const SeqId child_id, open());
    Seq& child = seq(child_id);
    for (size_t g = 0; g < stores_.size(); ++g) {
        child.groups[g].share(*stores_[g], parent.groups[g].runs(), m);
        child.cut[g] = std::min(parent.cut[g], m);
    }
    child.log.share(*log_, parent.log.runs(), m);
    child.length = m;
    child.pure = std::min(parent.pure, m);
    return child_id;
}

int32_t Cache::remove(SeqId id, Interval positions) {
    Seq& s = idle_seq(id);
    const Interval range{std::max(positions.lo, 0), std::min(positions.hi, s.length)};
    if (range.length() == 0) return 0;
    for (size_t g = 0; g < stores_.size(); ++g) s.groups[g].remove(*stores_[g], range);
    s.pure = std::min(s.pure, range.lo);
    return range.length();
}

Result<void> Cache::remove_and_shift(SeqId id, Interval positions) {
    Seq& s = idle_seq(id);
    const Interval range{std::max(positions.lo, 0), std::min(positions.hi, s.length)};
    const int32_t by = range.length();
    if (by == 0) return {};
    for (size_t g = 0; g < stores_.size(); ++g) {
        const Keep& keep = spec_.groups[g].keep;
        if (!shifted_cut(keep, s.cut[g], range, s.length)) {
            return fail(ErrorKind::Unsupported, "cache: cannot remove positions {} to {} of {}: group {} ({} positions) let go what lies before {}",
                        range.lo, range.hi, s.length, g, keep.size, s.cut[g]);
        }
    }
    // The first token behind takes the rotary position that the first removed one had.
    const int32_t turn = range.hi < s.length ? token(id, range.lo).rotary - token(id, range.hi).rotary : 0;
    for (size_t g = 0; g < stores_.size(); ++g) {
        s.cut[g] = *shifted_cut(spec_.groups[g].keep, s.cut[g], range, s.length);
        s.groups[g].remove(*stores_[g], range);
        s.groups[g].shift(range.hi, -by, turn);
        slide(*stores_[g], s.groups[g], spec_.groups[g].keep, s.length - by, s.cut[g]);
    }
    s.log.remove(*log_, range);
    s.log.shift(range.hi, -by, turn);
    tidy_log(s);
    s.length -= by;
    s.pure = std::min(s.pure, range.lo);
    return {};
}

void Cache::turn_rows(SeqId id, int group, int32_t from, int32_t by) {
    idle_seq(id).groups[static_cast<size_t>(group)].turn(from, by);
}

void Cache::drop_rows(SeqId id, int group, Interval positions) {
    const auto g = static_cast<size_t>(group);
    idle_seq(id).groups[g].remove(*stores_[g], positions);
}

// Copies the log into fresh blocks when too many of its own are nearly empty, so that a log never takes more than about twice its room.
void Cache::tidy_log(Seq& s) {
    const auto length = static_cast<size_t>(s.log.empty() ? 0 : s.log.runs().back().end());
    if (s.log.held().size() <= 2 * (length / log_block_tokens) + 8) return;
    RunList fresh;
    std::vector<int32_t> cells(length);
    if (!fresh.append(*log_, 0, static_cast<int32_t>(length), cells.data())) return;
    same_until(*log_, s.log, 0, [&](const Token& token, int32_t pos) {
        write_log(*log_, cells[static_cast<size_t>(pos)], token);
        return true;
    });
    s.log.clear(*log_);
    s.log.share(*log_, fresh.runs(), INT32_MAX);
    fresh.clear(*log_);
}

// --- memory

CacheStats Cache::stats() const {
    const auto count = [](const Store& store) {
        GroupStats g;
        const Pool& pool = store.pool();
        g.blocks = pool.blocks();
        g.blocks_used = pool.used();
        g.block_bytes = store.block_bytes();
        for (int32_t b = 0, seen = 0; seen < pool.used(); ++b) {
            if (pool.is_free(b)) continue;
            ++seen;
            g.blocks_shared += pool.refs(b) > 1 ? 1 : 0;
            g.cells_filled += pool.fill(b);
        }
        return g;
    };
    CacheStats stats;
    for (const auto& store : stores_) stats.groups.push_back(count(*store));
    stats.log = count(*log_);
    stats.ledger_bytes = budget_.used;
    stats.table_bytes = budget_.tables;
    return stats;
}

void Cache::release_pages() {
    for (const auto& store : stores_) store->release_pages();
    log_->release_pages();
}

}  // namespace cellar::kv
