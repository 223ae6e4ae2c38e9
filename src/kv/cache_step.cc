// The steps of a cache: reserve, freeze, commit.
#include <algorithm>

#include "base/check.h"
#include "kv/cache.h"
#include "kv/log.h"

namespace cellar::kv {

Result<void> Cache::begin(std::span<const Append> appends, Step& step) {
    CHECK(!step.is_open());
    CHECK(!appends.empty());
    size_t tokens = 0;
    for (const Append& append : appends) {
        CHECK(!append.tokens.empty());
        Seq& s = idle_seq(append.id);
        tidy_log(s);
        tokens += append.tokens.size();
        if (static_cast<size_t>(s.length) + append.tokens.size() > static_cast<size_t>(limits_.context)) {
            return fail(ErrorKind::Full, "the context is full: {} tokens behind {}, but the context is {}", append.tokens.size(), s.length,
                        limits_.context);
        }
    }
    if (tokens > static_cast<size_t>(limits_.max_step_tokens)) {
        return fail("cache: a step of {} tokens, but steps have {} at most", tokens, limits_.max_step_tokens);
    }
    prepare(step, tokens, appends.size());
    while (const Store* short_of = reserve_all(step, appends)) {
        if (!reclaim_ || reclaim_(bytes_of(tokens)) == 0) return full(tokens, appends.size(), *short_of);
    }
    // Blocks that another group has just left may still have their pages; together with the new ones they would exceed the budget.
    if (budget_.limit != 0 && budget_.tables + budget_.touched > budget_.limit) release_pages();
    fill_view(step, appends);
    step.cache_ = this;
    ++open_steps_;
    return {};
}

void Cache::prepare(Step& step, size_t tokens, size_t parts) {
    const auto most_tokens = static_cast<size_t>(limits_.max_step_tokens);
    const size_t most_parts = std::min(most_tokens, seqs_.size());
    step.parts_.clear();
    step.parts_.reserve(most_parts);
    for (std::vector<int32_t>* list : {&step.pos_, &step.rotary_, &step.log_cells_}) {
        list->reserve(most_tokens);
        list->resize(tokens);
    }
    step.groups_.resize(stores_.size());
    step.group_views_.resize(stores_.size());
    for (Step::Group& group : step.groups_) {
        group.seqs.reserve(most_parts);
        group.seqs.resize(parts);
        group.visible.reserve(most_tokens);
        group.visible.resize(tokens);
        group.write_cells.reserve(most_tokens);
        group.write_cells.resize(tokens);
    }
}

// The store that was short, and nothing is reserved then, or null.
const Store* Cache::reserve_all(Step& step, std::span<const Append> appends) {
    step.parts_.clear();
    for (const Append& append : appends) {
        const Store* short_of = reserve(step, append);
        if (short_of == nullptr) continue;
        take_back(step, {});
        return short_of;
    }
    return nullptr;
}

// Of blocks for so many tokens, one more in each store since they may begin in the middle of one.
size_t Cache::bytes_of(size_t tokens) const {
    const auto bytes = [&](const Store& store) { return (tokens / static_cast<size_t>(store.block_cells()) + 1) * store.block_bytes(); };
    size_t sum = bytes(*log_);
    for (const auto& store : stores_) sum += bytes(*store);
    return sum;
}

// The store that was short, or null. What was reserved before it stays for take_back.
const Store* Cache::reserve(Step& step, const Append& append) {
    Seq& s = idle_seq(append.id);
    const auto n = static_cast<int32_t>(append.tokens.size());
    const int32_t first_token = step.parts_.empty() ? 0 : step.parts_.back().first_token + step.parts_.back().tokens;
    step.parts_.push_back({append.id, first_token, n, s.length});
    s.pending = n;
    if (!s.log.append(*log_, s.length, n, &step.log_cells_[static_cast<size_t>(first_token)])) return log_.get();
    for (size_t g = 0; g < stores_.size(); ++g) {
        int32_t* cells = &step.groups_[g].write_cells[static_cast<size_t>(first_token)];
        if (!s.groups[g].append(*stores_[g], s.length, n, cells)) return stores_[g].get();
    }
    return nullptr;
}

void Cache::fill_view(Step& step, std::span<const Append> appends) {
    for (size_t i = 0; i < appends.size(); ++i) {
        const Step::Part& part = step.parts_[i];
        for (int32_t t = 0; t < part.tokens; ++t) {
            const auto token = static_cast<size_t>(part.first_token) + static_cast<size_t>(t);
            const Token& logged = appends[i].tokens[static_cast<size_t>(t)];
            step.pos_[token] = part.first_pos + t;
            step.rotary_[token] = logged.rotary;
            write_log(*log_, step.log_cells_[token], logged);
            for (size_t g = 0; g < stores_.size(); ++g) step.groups_[g].visible[token] = visible(spec_.groups[g].keep, part.first_pos + t);
        }
        for (size_t g = 0; g < stores_.size(); ++g) {
            step.groups_[g].seqs[i] = {part.first_token, part.tokens, part.first_pos, seq(part.id).groups[g].runs()};
        }
    }
    for (size_t g = 0; g < stores_.size(); ++g) {
        const Step::Group& group = step.groups_[g];
        step.group_views_[g] = {spec_.groups[g].keep, stores_[g]->arena().rows(), group.seqs, group.visible, group.write_cells};
    }
    step.view_ = {static_cast<int32_t>(step.pos_.size()), step.pos_, step.rotary_, step.group_views_};
}

// Returns the cells of what is not kept, the latest first, so that fills go back the way they came.
void Cache::take_back(Step& step, std::span<const int32_t> kept) {
    for (size_t i = step.parts_.size(); i-- > 0;) {
        const Step::Part& part = step.parts_[i];
        Seq& s = seq(part.id);
        const int32_t keep = kept.empty() ? 0 : kept[i];
        CHECK(keep >= 0 && keep <= part.tokens);
        s.pending = keep;
        if (keep == part.tokens) continue;
        for (size_t g = stores_.size(); g-- > 0;) s.groups[g].retract(*stores_[g], s.length + keep);
        s.log.retract(*log_, s.length + keep);
    }
}

void Cache::commit(Step& step, std::span<const int32_t> kept) {
    CHECK(step.cache_ == this);
    if (!kept.empty()) {
        CHECK_EQ(kept.size(), step.parts_.size());
        take_back(step, kept);
    }
    for (const Step::Part& part : step.parts_) {
        Seq& s = seq(part.id);
        if (s.pure == s.length) s.pure += s.pending;
        s.length += s.pending;
        s.pending = 0;
        for (size_t g = 0; g < stores_.size(); ++g) slide(*stores_[g], s.groups[g], spec_.groups[g].keep, s.length, s.cut[g]);
    }
    step.cache_ = nullptr;
    --open_steps_;
}

void Cache::abandon(Step& step) {
    CHECK(step.cache_ == this);
    take_back(step, {});
    step.cache_ = nullptr;
    --open_steps_;
}

bool Cache::give_up(size_t bytes) {
    if (budget_.limit == 0) return true;
    while (budget_.limit - budget_.used < bytes) {
        const size_t missing = bytes - (budget_.limit - budget_.used);
        if (!reclaim_ || reclaim_(missing) == 0) return false;
    }
    budget_.limit -= bytes;
    if (budget_.tables + budget_.touched > budget_.limit) release_pages();
    return true;
}

tl::unexpected<Error> Cache::full(size_t tokens, size_t parts, const Store& store) const {
    const int others = open_seqs_ - static_cast<int>(parts);
    const std::string who =
        others == 0 ? "" : fmt::format("; {} other sequence{} hold{} room too", others, others == 1 ? "" : "s", others == 1 ? "s" : "");
    if (store.refused_by_budget()) {
        return fail(ErrorKind::Full, "the cache is full: no room for {} tokens, {} of the budget of {} bytes are in use (context {}){}", tokens,
                    budget_.used, budget_.limit, limits_.context, who);
    }
    return fail(ErrorKind::Full, "the cache is full: no room for {} tokens, {} of {} blocks of {} {} are free (context {}){}", tokens,
                store.pool().free(), store.pool().blocks(), store.block_cells(), &store == log_.get() ? "log entries" : "cells", limits_.context,
                who);
}

}  // namespace cellar::kv
