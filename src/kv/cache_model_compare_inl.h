#pragma once
// Caches and views against the model of cache_model.h. For one file of a program.
#include <algorithm>

#include "kv/cache_model_rows_inl.h"
#include "kv/verify.h"

namespace cellar::kv {

std::string compare_seq(const Cache& cache, SeqId id, const ModelSeq& seq) {
    if (cache.length(id) != seq.length()) return fmt::format("length {} is not {}", cache.length(id), seq.length());
    if (cache.pure(id) != seq.pure) return fmt::format("pure {} is not {}", cache.pure(id), seq.pure);
    std::vector<Token> log(seq.log.size());
    cache.copy_tokens(id, {0, seq.length()}, log);
    if (log != seq.log) return "another log";
    for (size_t g = 0; g < seq.groups.size(); ++g) {
        std::vector<int32_t> cells(seq.log.size(), -1);
        std::vector<int32_t> turns(seq.log.size());
        for (const Run& run : cache.runs(id, static_cast<int>(g))) {
            for (int32_t i = 0; i < run.len; ++i) {
                cells[static_cast<size_t>(run.pos + i)] = run.cell + i;
                turns[static_cast<size_t>(run.pos + i)] = run.turn;
            }
        }
        for (size_t p = 0; p < cells.size(); ++p) {
            const ModelRow& row = seq.groups[g][p];
            if ((cells[p] >= 0) != (row.state == ModelRow::State::Held)) return fmt::format("group {}: position {} held: {}", g, p, cells[p] >= 0);
            if (cells[p] < 0) continue;
            if (turns[p] != row.turn) return fmt::format("group {}: position {} turned by {}, not {}", g, p, turns[p], row.turn);
            if (!has_rows(cache.rows(static_cast<int>(g)), g, cells[p], row.tag)) return fmt::format("group {}: position {} has other bytes", g, p);
        }
    }
    return {};
}

std::string compare_view(const View& view, const std::vector<const ModelSeq*>& seqs) {
    for (size_t g = 0; g < view.groups.size(); ++g) {
        const GroupView& group = view.groups[g];
        if (group.seqs.size() != seqs.size()) return "another number of parts";
        int32_t token = 0;
        for (size_t i = 0; i < seqs.size(); ++i) {
            const SeqView& part = group.seqs[i];
            if (part.first_token != token) return "tokens of a part are missing";
            token += part.tokens;
            for (int32_t t = part.first_token; t < token; ++t) {
                const int32_t pos = part.first_pos + t - part.first_token;
                if (view.pos[static_cast<size_t>(t)] != pos) return fmt::format("token {} has position {}", t, view.pos[static_cast<size_t>(t)]);
                if (view.rotary[static_cast<size_t>(t)] != seqs[i]->log[static_cast<size_t>(pos)].rotary) return fmt::format("token {}: rotary", t);
                const Visible seen = group.visible[static_cast<size_t>(t)];
                if (seen.sinks.length() > 0 && seen.sinks.hi > seen.recent.lo) return "intervals overlap";
                for (int32_t p = 0; p < seqs[i]->length(); ++p) {
                    const bool in = (p >= seen.sinks.lo && p < seen.sinks.hi) || (p >= seen.recent.lo && p < seen.recent.hi);
                    if (in != sees(group.keep, pos, p)) return fmt::format("group {}: the query at {} sees {}: {}", g, pos, p, in);
                    if (!in) continue;
                    const ModelRow& row = seqs[i]->groups[g][static_cast<size_t>(p)];
                    if (row.state == ModelRow::State::LetGo) return fmt::format("group {}: the query at {} sees {}, which is gone", g, pos, p);
                    const auto run = std::find_if(part.runs.begin(), part.runs.end(), [&](const Run& r) { return r.pos <= p && p < r.end(); });
                    if ((run != part.runs.end()) != (row.state == ModelRow::State::Held))
                        return fmt::format("group {}: position {} in the view", g, p);
                    if (run == part.runs.end()) continue;
                    if (!has_rows(group.rows, g, run->cell + p - run->pos, row.tag))
                        return fmt::format("group {}: the view of {} has other bytes", g, p);
                }
            }
        }
        if (token != view.tokens) return "tokens without a part";
    }
    return {};
}

}  // namespace cellar::kv
