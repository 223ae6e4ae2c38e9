#include "kv/index.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kv/log.h"

namespace cellar::kv {
namespace {

// How many lookups make what was not used meanwhile half as likely to be used. In whole steps, so that what is about equally old ties.
constexpr uint64_t half_life = 64;
constexpr double chance_of_newcomer = 0.25;

bool keeps_all(const GroupSpec& group) {
    return group.keep.kind == Keep::Kind::All;
}

template <class F>
void for_each_edge(auto* edge, F f) {
    f(*edge);
    for (const auto& child : edge->children) for_each_edge(child.get(), f);
}

// The largest m <= n at which the next query needs no row of a group that holds none, but for those that edges hold.
int32_t without_rows(const Keep& keep, int32_t n) {
    switch (keep.kind) {
        case Keep::Kind::All:
            return n;
        case Keep::Kind::Chunk:
            return first_needed(keep, n);
        case Keep::Kind::Window:
            return keep.size == 1 && keep.sinks == 0 ? n : 0;
        case Keep::Kind::State:
            return 0;
    }
    CHECK(false);
}

// The largest m <= n on which all groups agree. Requires: of_group(keep, n) <= n is its own answer to itself.
template <class F>
int32_t longest(const std::vector<GroupSpec>& groups, int32_t n, F of_group) {
    for (int32_t before = -1; before != n;) {
        before = n;
        for (const GroupSpec& group : groups) n = of_group(group.keep, n);
    }
    return n;
}

}  // namespace

double PrefillCost::seconds(int32_t from, int32_t to) const {
    const double pairs = (static_cast<double>(to) * to - static_cast<double>(from) * from) / 2;
    return seconds_per_token * (to - from) + seconds_per_pair * pairs;
}

Index::Index(Cache& cache, PrefillCost cost) : cache_(cache), cost_(cost) {
    marks_needed_ = !std::all_of(cache.spec().groups.begin(), cache.spec().groups.end(), keeps_all);
}

Index::~Index() = default;

void Index::clear() {
    roots_.clear();
}

// --- finding

Index::Edge* Index::child(const Edge& edge, const Token& first) const {
    for (const auto& child : edge.children) {
        const Run& run = child->holding->log.runs().front();
        if (read_log(*cache_.log_, run, child->begin) == first) return child.get();
    }
    return nullptr;
}

Index::Path Index::walk(const std::string& root, std::span<const Token> tokens) const {
    Path path;
    const auto at = roots_.find(root);
    if (at == roots_.end()) return path;
    path.edges.push_back(at->second.get());
    const auto n = static_cast<int32_t>(tokens.size());
    while (path.matched < n && path.matched == path.edges.back()->end) {
        Edge* next = child(*path.edges.back(), tokens[static_cast<size_t>(path.matched)]);
        if (next == nullptr) break;
        path.edges.push_back(next);
        path.matched = same_until(*cache_.log_, next->holding->log, next->begin,
                                  [&](const Token& t, int32_t pos) { return pos < n && t == tokens[static_cast<size_t>(pos)]; });
    }
    return path;
}

// The longest length of at most `limit` that the edges and, where needed, one mark can serve. A mark behind a place where the tokens turn off
// serves them as far as that place, if what it holds reaches back far enough: so edges beside and below the path are looked at too, which
// keeps a hit from depending on where edges happen to be divided.
Index::Choice Index::choose(const Path& path, int32_t limit) const {
    limit = std::max(std::min(limit, path.matched), 0);
    if (!marks_needed_) return {limit, nullptr, 0};
    const std::vector<GroupSpec>& groups = cache_.spec().groups;
    Choice best{longest(groups, limit, without_rows), nullptr, 0};
    // How far a mark serves tokens that are alike up to `shared`. The longer a mark, the less far back it reaches.
    const auto reach = [&](int32_t mark, int32_t shared) {
        return longest(groups, std::min(shared, mark), [&](const Keep& keep, int32_t n) { return restorable(keep, first_needed(keep, mark), n); });
    };
    const auto offer = [&](Edge* edge, int32_t shared) {
        for (const auto& [length, mark] : edge->marks) {
            if (const int32_t m = reach(length, shared); m > best.length) best = {m, edge, length};
        }
    };
    for (Edge* edge : path.edges) offer(edge, limit);
    std::vector<Edge*> open;
    const auto add_children = [&](const Edge& edge, int32_t shared, const Edge* known) {
        if (reach(edge.end + 1, shared) <= best.length) return;
        for (const auto& child : edge.children)
            if (child.get() != known) open.push_back(child.get());
    };
    const Edge* known = nullptr;
    for (auto edge = path.edges.rbegin(); edge != path.edges.rend() && (*edge)->end > best.length; ++edge) {
        const int32_t shared = std::min(limit, (*edge)->end);
        add_children(**edge, shared, known);
        while (!open.empty()) {
            Edge* behind = open.back();
            open.pop_back();
            offer(behind, shared);
            add_children(*behind, shared, nullptr);
        }
        known = *edge;
    }
    return best;
}

Index::Hit Index::find(const std::string& root, std::span<const Token> tokens) const {
    const Path path = walk(root, tokens);
    return {{}, choose(path, static_cast<int32_t>(tokens.size()) - 1).length, path.matched};
}

Result<Index::Hit> Index::take(const std::string& root, std::span<const Token> tokens) {
    CELLAR_TRY(const SeqId id, cache_.open());
    return take_into(root, tokens, id);
}

std::vector<Token> Index::continuation(const std::string& root, std::span<const Token> tokens, size_t most) const {
    const Path path = walk(root, tokens);
    if (path.edges.empty()) return {};
    const Edge* edge = path.edges.back();
    int32_t at = path.matched;
    if (at == edge->end) {
        const auto later = [](const auto& a, const auto& b) { return a->use.last < b->use.last; };
        const auto last = std::max_element(edge->children.begin(), edge->children.end(), later);
        if (last == edge->children.end()) return {};
        edge = last->get();
    }
    std::vector<Token> out(std::min(most, static_cast<size_t>(edge->end - at)));
    read_log(*cache_.log_, edge->holding->log, {at, at + static_cast<int32_t>(out.size())}, out);
    return out;
}

Index::Hit Index::take_into(const std::string& root, std::span<const Token> tokens, SeqId id) {
    CHECK_EQ(cache_.trim(id, 0), 0);
    Seq& seq = cache_.seq(id);
    const Path path = walk(root, tokens);
    const Choice choice = choose(path, static_cast<int32_t>(tokens.size()) - 1);
    const auto use = [&](Use& u) {
        u.hits = u.hits * std::exp2(-static_cast<double>((clock_ - u.last) / half_life)) + 1;
        u.last = clock_;
    };
    ++clock_;
    std::vector<Run> log;
    std::vector<std::vector<Run>> groups(cache_.stores_.size());
    const auto add = [&](std::vector<Run>& to, const RunList& list) {
        const auto runs = runs_within(list.runs(), {0, choice.length});
        to.insert(to.end(), runs.begin(), runs.end());
    };
    for (Edge* edge : path.edges) {
        if (edge->holding == nullptr || edge->begin >= choice.length) continue;
        add(log, edge->holding->log);
        for (size_t g = 0; g < groups.size(); ++g) add(groups[g], edge->holding->groups[g]);
        use(edge->use);
    }
    const int32_t held_at = choice.edge == nullptr ? choice.length : choice.mark;
    for (size_t g = 0; g < groups.size(); ++g) seq.cut[g] = std::min(first_needed(cache_.spec().groups[g].keep, held_at), choice.length);
    if (choice.edge != nullptr) {
        Mark& mark = choice.edge->marks.at(choice.mark);
        for (size_t g = 0; g < groups.size(); ++g) add(groups[g], mark.holding->groups[g]);
        use(mark.use);
        // An edge that goes takes its marks with it.
        if (choice.edge->begin >= choice.length) use(choice.edge->use);
    }
    seq.log.share(*cache_.log_, log, choice.length);
    for (size_t g = 0; g < groups.size(); ++g) seq.groups[g].share(*cache_.stores_[g], groups[g], choice.length);
    seq.length = choice.length;
    seq.pure = choice.length;
    ++stats_.lookups;
    stats_.tokens_asked += static_cast<int64_t>(tokens.size());
    stats_.tokens_reused += choice.length;
    return {id, choice.length, path.matched};
}

// --- keeping

// The edge becomes two; returns the front one, which ends at `at`.
Index::Edge* Index::split(Edge* edge, int32_t at) {
    CHECK(edge->begin < at && at < edge->end);
    auto& slot = *std::find_if(edge->parent->children.begin(), edge->parent->children.end(), [&](const auto& c) { return c.get() == edge; });
    auto front = std::make_unique<Edge>();
    front->parent = edge->parent;
    front->begin = edge->begin;
    front->end = at;
    front->use = edge->use;
    front->holding = std::make_unique<Holding>(cache_);
    const auto divide = [&](Store& store, RunList& from, RunList& to) {
        to.share(store, from.runs(), at);
        from.remove(store, {0, at});
    };
    divide(*cache_.log_, edge->holding->log, front->holding->log);
    for (size_t g = 0; g < cache_.stores_.size(); ++g) divide(*cache_.stores_[g], edge->holding->groups[g], front->holding->groups[g]);
    for (auto m = edge->marks.begin(); m != edge->marks.end() && m->first <= at;) front->marks.insert(edge->marks.extract(m++));
    edge->parent = front.get();
    edge->begin = at;
    front->children.push_back(std::move(slot));
    slot = std::move(front);
    return slot.get();
}

Index::Edge* Index::grow(Edge* at, const Seq& seq, int32_t end) {
    auto edge = std::make_unique<Edge>();
    edge->parent = at;
    edge->begin = at->end;
    edge->end = end;
    edge->use = {clock_, clock_, 0, 0};
    edge->holding = std::make_unique<Holding>(cache_);
    const Interval positions{at->end, end};
    edge->holding->log.share(*cache_.log_, runs_within(seq.log.runs(), positions), end);
    for (size_t g = 0; g < cache_.stores_.size(); ++g) {
        if (keeps_all(cache_.spec().groups[g])) edge->holding->groups[g].share(*cache_.stores_[g], runs_within(seq.groups[g].runs(), positions), end);
    }
    at->children.push_back(std::move(edge));
    return at->children.back().get();
}

void Index::mark(Edge* edge, const Seq& seq, int32_t at) {
    Mark mark{std::make_unique<Holding>(cache_), {clock_, clock_, 0, 0}};
    for (size_t g = 0; g < cache_.stores_.size(); ++g) {
        const Keep& keep = cache_.spec().groups[g].keep;
        if (keeps_all(cache_.spec().groups[g])) continue;
        auto runs = runs_within(seq.groups[g].runs(), {0, std::min(keep.sinks, first_needed(keep, at))});
        const auto recent = runs_within(seq.groups[g].runs(), {first_needed(keep, at), at});
        runs.insert(runs.end(), recent.begin(), recent.end());
        mark.holding->groups[g].share(*cache_.stores_[g], runs, at);
    }
    edge->marks.insert_or_assign(at, std::move(mark));
}

int32_t Index::keep(const std::string& root, SeqId id, int32_t n) {
    const Seq& seq = cache_.idle_seq(id);
    n = std::clamp(n, 0, seq.pure);
    if (n == 0) return 0;
    ++clock_;
    std::vector<Token> tokens(static_cast<size_t>(n));
    cache_.copy_tokens(id, {0, n}, tokens);
    auto& top = roots_[root];
    if (top == nullptr) top = std::make_unique<Edge>();
    const Path path = walk(root, tokens);
    Edge* last = path.edges.back();
    if (path.matched < n) {
        if (path.matched < last->end) last = split(last, path.matched);
        last = grow(last, seq, n);
    }
    if (marks_needed_ && !last->marks.contains(n) && cache_.restorable(id, n) == n) mark(last, seq, n);
    return choose(walk(root, tokens), n).length;
}

void Index::pin(const std::string& root, std::span<const Token> tokens, double until) {
    const auto hold = [&](Use& use) { use.pinned_until = std::max(use.pinned_until, until); };
    const Path path = walk(root, tokens);
    for (Edge* edge : path.edges) {
        hold(edge->use);
        for (auto& [length, mark] : edge->marks) hold(mark.use);
    }
    // The mark that serves them may lie behind the place where they turn off.
    const Choice choice = choose(path, static_cast<int32_t>(tokens.size()) - 1);
    if (choice.edge == nullptr) return;
    hold(choice.edge->use);
    hold(choice.edge->marks.at(choice.mark).use);
}

// --- evicting

// Blocks that nobody else holds: what letting go gives back.
size_t Index::bytes_alone(const Holding& holding) const {
    const auto count = [](const Store& store, const RunList& list) {
        const auto alone = std::count_if(list.held().begin(), list.held().end(), [&](const auto& h) { return store.pool().refs(h.block) == 1; });
        return static_cast<size_t>(alone) * store.block_bytes();
    };
    size_t bytes = count(*cache_.log_, holding.log);
    for (size_t g = 0; g < cache_.stores_.size(); ++g) bytes += count(*cache_.stores_[g], holding.groups[g]);
    return bytes;
}

double Index::worth(const Use& use, int32_t from, int32_t to, size_t bytes) const {
    const double age = std::exp2(-static_cast<double>((clock_ - use.last) / half_life));
    return cost_.seconds(from, to) * (chance_of_newcomer + use.hits) * age / static_cast<double>(bytes);
}

void Index::consider(Edge* edge, double now, Victim& least) const {
    const auto offer = [&](const Use& use, int32_t from, int32_t to, const Holding& holding, int32_t mark) {
        if (use.pinned_until > now) return;
        // What frees nothing by itself may go when it stands in the way of its parent, but last of all.
        const size_t bytes = std::max<size_t>(bytes_alone(holding), 1);
        const Victim victim{worth(use, from, to, bytes), use.born, edge, mark};
        const bool less = least.edge == nullptr || victim.worth < least.worth || (victim.worth == least.worth && victim.born > least.born);
        if (less) least = victim;
    };
    for (const auto& [length, mark] : edge->marks) offer(mark.use, 0, length, *mark.holding, length);
    if (edge->holding != nullptr && edge->children.empty()) offer(edge->use, edge->begin, edge->end, *edge->holding, 0);
}

bool Index::evict_one(double now) {
    Victim least;
    for (const auto& [root, top] : roots_) for_each_edge(top.get(), [&](Edge& edge) { consider(&edge, now, least); });
    if (least.edge == nullptr) return false;
    if (least.mark > 0) {
        least.edge->marks.erase(least.mark);
        return true;
    }
    std::erase_if(least.edge->parent->children, [&](const auto& c) { return c.get() == least.edge; });
    std::erase_if(roots_, [](const auto& entry) { return entry.second->children.empty(); });
    return true;
}

size_t Index::evict(size_t bytes, double now) {
    const size_t before = cache_.ledger_bytes();
    while (before - cache_.ledger_bytes() < bytes && evict_one(now)) {
    }
    return before - cache_.ledger_bytes();
}

IndexStats Index::stats() const {
    IndexStats stats = stats_;
    for (const auto& [root, top] : roots_) {
        for_each_edge(top.get(), [&](const Edge& edge) {
            stats.edges += edge.holding != nullptr ? 1 : 0;
            stats.marks += static_cast<int64_t>(edge.marks.size());
            stats.tokens += edge.end - edge.begin;
        });
    }
    return stats;
}

// --- verify

std::string verify(const Index& index) {
    std::string wrong;
    const auto covers = [](std::span<const Run> runs, Interval positions) {
        int32_t pos = positions.lo;
        for (const Run& run : runs) {
            if (run.pos != pos || run.turn != 0) return false;
            pos = run.end();
        }
        return pos == positions.hi;
    };
    const auto check = [&](const Index::Edge& edge) {
        const std::string name = fmt::format("edge {} to {}: ", edge.begin, edge.end);
        if (edge.holding == nullptr && edge.end != 0) wrong = name + "holds nothing";
        if (edge.holding != nullptr && edge.begin >= edge.end) wrong = name + "is empty";
        for (size_t g = 0; g < index.cache_.spec().groups.size(); ++g) {
            const Keep& keep = index.cache_.spec().groups[g].keep;
            const bool all = keep.kind == Keep::Kind::All;
            const Interval own = all ? Interval{edge.begin, edge.end} : Interval{};
            if (edge.holding != nullptr && !covers(edge.holding->groups[g].runs(), own)) wrong = name + "holds other positions";
            for (const auto& [length, mark] : edge.marks) {
                if (length <= edge.begin || length > edge.end) wrong = name + "has a mark elsewhere";
                int32_t held = 0;
                for (const Run& run : mark.holding->groups[g].runs()) held += run.len;
                const int32_t first = first_needed(keep, length);
                if (held != (all ? 0 : length - first + std::min(keep.sinks, first)))
                    wrong = name + fmt::format("the mark at {} holds {}", length, held);
            }
        }
        if (edge.holding != nullptr && !covers(edge.holding->log.runs(), {edge.begin, edge.end})) wrong = name + "logs other positions";
        for (const auto& child : edge.children) {
            if (child->parent != &edge || child->begin != edge.end) wrong = name + "a child begins elsewhere";
            if (index.child(edge, read_log(*index.cache_.log_, child->holding->log.runs().front(), child->begin)) != child.get()) {
                wrong = name + "two children begin alike";
            }
        }
    };
    for (const auto& [root, top] : index.roots_) for_each_edge(std::as_const(top).get(), check);
    return wrong;
}

}  // namespace cellar::kv
