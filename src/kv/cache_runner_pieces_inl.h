#pragma once
// Pieces of cache_runner_inl.h: sequences written into memory in one or two pieces, and read back.
#include <cstddef>
#include <map>
#include <vector>

#include "kv/cache_runner_world_inl.h"
#include "kv/snapshot.h"

namespace cellar::kv {

class SavedPieces {
  public:
    explicit SavedPieces(World& world) : world_(world) {}
    void clear() { saved_.clear(); }

    void save(SeqId id, int32_t cut, uint32_t slot) {
        Saved saved;
        saved.seq = world_.model[id];
        int32_t from = 0;
        for (const int32_t end : {cut, saved.seq.length()}) {
            if (end <= from) continue;
            std::vector<std::byte>& bytes = saved.pieces.emplace_back();
            saved.ends.push_back(end);
            const auto written = write_piece(*world_.cache, id, {from, end}, [&](std::span<const std::byte> part) -> Result<void> {
                bytes.insert(bytes.end(), part.begin(), part.end());
                return {};
            });
            if (!written) return world_.say("a sink in memory failed");
            if (bytes.size() != piece_bytes(*world_.cache, id, {from, end})) return world_.say("a piece has another size than was said");
            from = end;
        }
        ++world_.counts.saved;
        saved_[slot % 3] = std::move(saved);
    }

    void load(const Op& op) {
        const auto at = saved_.find(op.c % 3);
        if (at == saved_.end() || !world_.room()) return;
        const Saved& saved = at->second;
        const SeqId id = *world_.cache->open();
        for (size_t i = 0; i < saved.pieces.size(); ++i) {
            const auto piece = parse_piece(saved.pieces[i], "piece", world_.spec);
            if (!piece) return world_.say(piece.error().message);
            if (converts(*piece, world_.spec)) return world_.say("a piece converts into its own format");
            const auto appended = append_piece(*world_.cache, id, *piece, saved.ends[i]);
            if (appended) continue;
            if (appended.error().kind != ErrorKind::Full) world_.say("not full but: " + appended.error().message);
            return world_.cache->close(id);
        }
        ++world_.counts.loaded;
        world_.cache->colour(id, saved.seq.pure);
        world_.model[id] = saved.seq;
    }

  private:
    struct Saved {
        std::vector<std::vector<std::byte>> pieces;
        std::vector<int32_t> ends;
        ModelSeq seq;
    };

    World& world_;
    std::map<uint32_t, Saved> saved_;
};

}  // namespace cellar::kv
