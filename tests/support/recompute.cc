#include "support/recompute.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "base/check.h"
#include "engine/bake.h"
#include "engine/session.h"
#include "kv/index.h"
#include "kv/verify.h"
#include "support/tiny_model.h"

namespace cellar::tiny {
namespace {

using kv::Op;
using kv::OpKind;

constexpr int64_t kContext = 150;
constexpr int kSeqs = 5;  // one more is for looking at the others
constexpr int32_t kProbe = 1;

// An engine that computes everything anew, and what it said.
class Fresh {
  public:
    Fresh(const std::string& recipe, kv::RowFormat format) {
        EngineOptions options = tiny::options(format);
        options.threads = 1;
        options.context = kContext;
        options.max_seqs = 1;
        options.poison = false;
        engine_ = tiny::engine(tiny::model(recipe), options);
    }
    // Logits behind these tokens and the probe.
    const std::vector<float>& logits(const std::vector<int32_t>& ids) {
        if (known_.size() > 400) known_.clear();
        auto& logits = known_[ids];
        if (!logits.empty()) return logits;
        std::vector<int32_t> all(ids);
        all.push_back(kProbe);
        return logits = fresh_logits(*engine_, all);
    }

  private:
    std::unique_ptr<Engine> engine_;
    std::map<std::vector<int32_t>, std::vector<float>> known_;
};

Fresh& fresh_of(const Recomputed& on) {
    static std::map<std::pair<std::string, kv::RowFormat>, std::unique_ptr<Fresh>> all;
    auto& slot = all[{on.recipe, on.format}];
    if (slot == nullptr) slot = std::make_unique<Fresh>(on.recipe, on.format);
    return *slot;
}

// The engine that shares, trims and reuses. A budget leaves room for the tables, one step, and a context and a half.
std::unique_ptr<Engine> make_warm(const Recomputed& on) {
    EngineOptions options = tiny::options(on.format);
    options.threads = 1;
    options.context = kContext;
    options.cells = 3 * kContext;
    options.max_seqs = kSeqs + 1;
    options.max_outputs = kSeqs;
    options.chunk = 16;
    options.block = on.block;
    auto engine = tiny::engine(tiny::model(on.recipe), options);
    if (!on.budget) return engine;
    const kv::CacheStats stats = engine->cache().stats();
    options.budget_bytes = engine->transient_bytes() + stats.table_bytes + 10 * stats.log.block_bytes;
    for (const kv::GroupStats& group : stats.groups)
        options.budget_bytes += static_cast<size_t>(std::max<int64_t>(kContext * 3 / 2 / on.block, 8)) * group.block_bytes;
    return tiny::engine(tiny::model(on.recipe), options);
}

Engine& warm_of(const Recomputed& on) {
    static std::map<Recomputed, std::unique_ptr<Engine>> all;
    auto& slot = all[on];
    if (slot == nullptr) slot = make_warm(on);
    return *slot;
}

// Syncing costs nothing on a file system in memory.
std::string scratch_folder() {
    return std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : CELLAR_BINARY_DIR;
}

class Runner {
  public:
    explicit Runner(const Recomputed& on) : fresh_(fresh_of(on)), engine_(warm_of(on)), cache_(engine_.cache()), index_(engine_.index()) {
        path_ = fmt::format("{}/cellar-fuzz-{}.session", scratch_folder(), getpid());
    }

    std::string run(const kv::Program& program, RecomputeCounts* counts) {
        for (size_t i = 0; i < program.size() && wrong_.empty(); ++i) {
            const SeqId touched = operate(program[i]);
            ++counts_.operations;
            say(kv::verify(cache_));
            say(kv::verify(index_));
            if (engine_.budget_bytes() != 0 && engine_.ledger_bytes() > engine_.budget_bytes()) say("the ledger exceeds the budget");
            if (touched != SeqId{} && cache_.is_open(touched)) compare(touched);
            if (!wrong_.empty()) wrong_ += fmt::format(" (after operation {})", i);
        }
        // Whatever was touched last: all of them.
        for (const SeqId seq : seqs_)
            if (wrong_.empty()) compare(seq);
        for (const SeqId seq : seqs_) cache_.close(seq);
        index_.clear();
        session_.reset();
        std::filesystem::remove(path_);
        say(kv::verify(cache_));
        const kv::CacheStats stats = cache_.stats();
        if (stats.ledger_bytes != stats.table_bytes) say("cells are left");
        if (counts != nullptr) *counts = counts_;
        return wrong_;
    }

  private:
    void say(const std::string& wrong) {
        if (wrong_.empty()) wrong_ = wrong;
    }

    std::vector<int32_t> ids_of(SeqId seq) {
        std::vector<Token> log(static_cast<size_t>(cache_.length(seq)));
        cache_.copy_tokens(seq, {0, cache_.length(seq)}, log);
        std::vector<int32_t> out;
        for (const Token& token : log) out.push_back(token.id);
        return out;
    }

    // The whole sequence, whose logits must be numbers, and its pure part, whose logits must be those of a fresh run.
    void compare(SeqId seq) {
        const int32_t length = cache_.length(seq);
        compare_at(seq, length, length == cache_.pure(seq));
        const int32_t pure = cache_.restorable(seq, cache_.pure(seq));
        if (wrong_.empty() && pure > 0 && pure < length) compare_at(seq, pure, true);
    }
    void compare_at(SeqId seq, int32_t length, bool pure) {
        if (length == kContext) return;
        const auto fork = cache_.fork(seq, length);
        if (!fork || cache_.length(*fork) != length) return say("a whole fork is not there");
        const auto logits = engine_.append(*fork, std::vector<int32_t>{kProbe});
        if (!logits && logits.error().kind != ErrorKind::Full) say(logits.error().message);
        if (logits) {
            for (const float x : *logits)
                if (!std::isfinite(x)) say("a logit is not finite");
            if (pure) {
                ++counts_.compared;
                std::vector<int32_t> ids = ids_of(*fork);
                ids.pop_back();
                const std::vector<float>& want = fresh_.logits(ids);
                if (std::memcmp(want.data(), logits->data(), want.size() * sizeof(float)) != 0)
                    say(fmt::format("the logits behind {} tokens are not those of a fresh run", length));
            }
        }
        cache_.close(*fork);
    }

    SeqId pick(uint32_t a) const { return seqs_.empty() ? SeqId{} : seqs_[a % seqs_.size()]; }

    SeqId add(SeqId seq) {
        seqs_.push_back(seq);
        return seq;
    }
    void drop(SeqId seq) {
        cache_.close(seq);
        std::erase(seqs_, seq);
    }
    [[nodiscard]] bool room() const { return seqs_.size() < kSeqs; }

    SeqId operate(const Op& op) {
        const SeqId seq = pick(op.a);
        if (op.kind == OpKind::Open || seqs_.empty()) return room() ? add(*cache_.open()) : SeqId{};
        const int32_t length = cache_.length(seq);
        const auto within = [&](uint32_t n) { return static_cast<int32_t>(n % (static_cast<uint32_t>(length) + 1)); };
        const kv::Interval range{within(op.b), std::min(length, within(op.b) + static_cast<int32_t>(op.c % 20))};
        switch (op.kind) {
            case OpKind::Close:
                if (op.b % 3 == 0) drop(seq);
                return {};
            case OpKind::Fork:
                return room() ? add(*cache_.fork(seq, op.b % 2 == 0 ? length : within(op.b / 2))) : SeqId{};
            case OpKind::Append:
                append(seq, op.b % 4 < 2 ? 1 : 1 + op.b % 40, op.c, nullptr);
                return seq;
            case OpKind::Begin: {
                // Cancelled behind the first chunk.
                Cancel cancel{false};
                append(seq, 20 + op.b % 40, op.c, &cancel);
                return seq;
            }
            case OpKind::Commit:
                together(op);
                return seq;
            case OpKind::Trim:
                cache_.trim(seq, op.b % 2 == 0 ? std::max(0, length - static_cast<int32_t>(op.b / 2 % 6)) : within(op.b / 2));
                return seq;
            case OpKind::Overwrite: {
                const int32_t at = cache_.trim(seq, within(op.b));
                if (at < length) append(seq, static_cast<uint32_t>(length - at), op.c, nullptr);
                return seq;
            }
            case OpKind::Remove:
                cache_.remove(seq, range);
                return seq;
            case OpKind::Shift:
                counts_.shifts += cache_.remove_and_shift(seq, range) ? 1 : 0;  // a window may refuse
                if (op.a / 8 % 3 == 0) bake_some(seq, op.a);
                return seq;
            case OpKind::BakeBegin:
            case OpKind::BakeEnd:
                bake_some(seq, op.b);
                return seq;
            case OpKind::Compact:
                counts_.compacted += cache_.compact(op.a % 2 == 0 ? INT64_MAX : op.b % 300).empty() ? 0 : 1;
                return seq;
            case OpKind::Keep:
                index_.keep(engine_.root(), seq, op.b % 2 == 0 ? length : within(op.b / 2));
                return op.c % 3 == 0 ? hit(seq, op) : SeqId{};
            case OpKind::Hit:
                return hit(seq, op);
            case OpKind::Evict:
                counts_.evicted += index_.evict(op.b * size_t{256}, ++now_) > 0 ? 1 : 0;
                return {};
            case OpKind::Save:
                save(seq, op.c % 2 == 0 ? "one" : "two");
                return {};
            case OpKind::Load:
                return load(op.c);
            default:
                cache_.release_pages();
                return {};
        }
    }

    static std::vector<int32_t> some_ids(uint32_t n, uint32_t which) {
        std::vector<int32_t> out;
        for (uint32_t i = 0; i < n; ++i) out.push_back(static_cast<int32_t>((which / 8 + i / 5) % 3 * 41 + i % 7));
        return out;
    }

    void append(SeqId seq, uint32_t n, uint32_t which, Cancel* cancel) {
        Progress progress;
        if (cancel != nullptr) progress = [&](int64_t /*done*/, int64_t /*total*/) { cancel->store(true); };
        const int32_t before = cache_.length(seq);
        const auto logits = engine_.append(seq, some_ids(n, which), cancel, progress);
        counts_.tokens += cache_.length(seq) - before;
        if (logits) return;
        if (logits.error().kind == ErrorKind::Cancelled) {
            ++counts_.cancelled;
        } else if (logits.error().kind == ErrorKind::Full) {
            ++counts_.full;
        } else {
            say(logits.error().message);
        }
    }

    // Some are cancelled, before the first layer or behind it.
    void bake_some(SeqId seq, uint32_t how) {
        Cancel cancel{how % 4 == 0};
        const auto baked = bake(engine_, seq, &cancel, [&](int64_t /*done*/, int64_t /*total*/) { cancel.store(how % 4 == 1); });
        if (baked) {
            counts_.bakes += baked->cells > 0 ? 1 : 0;
        } else if (baked.error().kind == ErrorKind::Cancelled) {
            ++counts_.cancelled_bakes;
        } else if (baked.error().kind != ErrorKind::Full) {
            say(baked.error().message);
        }
    }

    // One step for all: a token each.
    void together(const Op& op) {
        std::vector<std::vector<Token>> tokens;
        std::vector<kv::Append> appends;
        for (size_t i = 0; i < seqs_.size(); ++i) {
            const int32_t length = cache_.length(seqs_[i]);
            const int32_t rotary = length == 0 ? 0 : cache_.token(seqs_[i], length - 1).rotary + 1;
            tokens.push_back({Token{static_cast<int32_t>((op.b + i) % 100), rotary, 0}});
        }
        for (size_t i = 0; i < seqs_.size(); ++i) appends.push_back({seqs_[i], tokens[i]});
        const auto done = engine_.step(appends);
        if (!done && done.error().kind != ErrorKind::Full) say(done.error().message);
        counts_.tokens += done ? static_cast<int64_t>(seqs_.size()) : 0;
    }

    // Into a new sequence, or, if there is no room for one, into one that is open.
    SeqId hit(SeqId seq, const Op& op) {
        const int32_t length = cache_.length(seq);
        std::vector<Token> tokens(static_cast<size_t>(length));
        cache_.copy_tokens(seq, {0, length}, tokens);
        if (op.b % 2 == 1) tokens.resize(op.b / 2 % (tokens.size() + 1));
        tokens.push_back({5, 0, 0});
        const SeqId into = room() ? add(*cache_.open()) : pick(op.c / 4);
        const kv::Index::Hit found = index_.take_into(engine_.root(), tokens, into);
        ++counts_.hits;
        counts_.reused += found.length;
        return into;
    }

    void save(SeqId seq, const std::string& name) {
        if (session_ == nullptr) {
            auto opened = Session::open(path_, engine_);
            if (!opened) return say(opened.error().message);
            session_ = *std::move(opened);
        }
        if (cache_.length(seq) == 0) return;
        std::vector<Session::Source> sources{{name, seq, "host"}};
        for (const Session::Branch& branch : session_->branches())
            if (branch.name != name) sources.push_back({branch.name, std::nullopt, ""});
        if (const auto saved = session_->save(sources); !saved) say(saved.error().message);
    }

    SeqId load(uint32_t which) {
        if (session_ == nullptr || session_->branches().empty()) return {};
        const std::string name = session_->branches()[which % session_->branches().size()].name;
        if (!room()) drop(pick(which / 2));
        // Once more from the file, as another process would.
        session_.reset();
        auto opened = Session::open(path_, engine_);
        if (!opened) return say(opened.error().message), SeqId{};
        session_ = *std::move(opened);
        const SeqId seq = *cache_.open();
        const auto restored = session_->restore(name, seq);
        if (!restored) {
            if (restored.error().kind != ErrorKind::Full) say(restored.error().message);
            cache_.close(seq);
            return {};
        }
        ++counts_.loaded;
        return add(seq);
    }

    Fresh& fresh_;
    Engine& engine_;
    kv::Cache& cache_;
    kv::Index& index_;
    std::vector<SeqId> seqs_;
    std::unique_ptr<Session> session_;
    std::string path_;
    double now_ = 0;
    std::string wrong_;
    RecomputeCounts counts_;
};

}  // namespace

std::string recompute(const Recomputed& on, const kv::Program& program, RecomputeCounts* counts) {
    return Runner(on).run(program, counts);
}

}  // namespace cellar::tiny
