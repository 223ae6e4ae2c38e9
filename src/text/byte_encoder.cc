#include <algorithm>
#include <bit>

#include "base/quote.h"
#include "text/encoder.h"
#include "text/merge_queue.h"
#include "text/pretokenizer.h"
#include "text/utf8.h"

namespace cellar::text {

namespace {

// Finds the merge of two tokens: a hash table with open addressing.
class MergeTable {
  public:
    struct Entry {
        uint64_t pair = kEmpty;
        uint32_t rank = 0;
        int32_t result = 0;
    };

    explicit MergeTable(size_t merges) : entries_(std::bit_ceil(merges * 2 + 1)) {}

    // Of equal pairs the first counts.
    void add(int32_t left, int32_t right, uint32_t rank, int32_t result) {
        Entry& entry = entries_[slot_of(key(left, right))];
        if (entry.pair == kEmpty) entry = {key(left, right), rank, result};
    }

    [[nodiscard]] const Entry* find(int32_t left, int32_t right) const {
        const Entry& entry = entries_[slot_of(key(left, right))];
        return entry.pair == kEmpty ? nullptr : &entry;
    }

  private:
    static constexpr uint64_t kEmpty = UINT64_MAX;
    static uint64_t key(int32_t left, int32_t right) { return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right); }
    [[nodiscard]] size_t slot_of(uint64_t pair) const {
        const size_t mask = entries_.size() - 1;
        uint64_t mixed = pair * 0x9E3779B97F4A7C15u;
        mixed ^= mixed >> 32;
        size_t slot = static_cast<size_t>(mixed) & mask;
        while (entries_[slot].pair != kEmpty && entries_[slot].pair != pair) slot = (slot + 1) & mask;
        return slot;
    }

    std::vector<Entry> entries_;
};

class ByteEncoder final : public Encoder {
  public:
    ByteEncoder(const EncoderInput& input, Pretokenizer pretokenizer)
        : index_(input.index),
          types_(input.types),
          unknown_(input.unknown),
          pretokenizer_(std::move(pretokenizer)),
          merges_(input.data.merges.size()) {
        for (size_t byte = 0; byte < 256; ++byte) {
            append_utf8(character_of_byte(static_cast<uint8_t>(byte)), spelling_[byte]);
            single_[byte] = find(spelling_[byte]);
        }
    }

    Result<void> add_merges(const StringPool& merges) {
        std::string both;
        for (size_t rank = 0; rank < merges.size(); ++rank) {
            const std::string_view merge = merges[rank];
            // A piece has no space inside, but a merge may begin with one.
            const size_t space = merge.find(' ', 1);
            if (space == std::string_view::npos || space + 1 == merge.size()) {
                return fail("vocabulary: merge {} is {}, not two pieces with a space between them", rank, quoted(merge));
            }
            const std::string_view left = merge.substr(0, space);
            const std::string_view right = merge.substr(space + 1);
            both.assign(left).append(right);
            const std::array<std::string_view, 3> pieces{left, right, both};
            std::array<int32_t, 3> ids{};
            for (size_t i = 0; i < pieces.size(); ++i) {
                ids[i] = index_.find(pieces[i]);
                if (ids[i] < 0)
                    return fail("vocabulary: merge {} ({}) needs the piece {}, which is no token", rank, quoted(merge), quoted(pieces[i]));
            }
            if (may_come_from_text(ids[2])) merges_.add(ids[0], ids[1], static_cast<uint32_t>(rank), ids[2]);
        }
        return {};
    }

    // Requires: all merges are there.
    Result<void> settle_missing_bytes() {
        const auto missing = std::find(single_.begin(), single_.end(), -1);
        if (missing == single_.end()) return {};
        if (unknown_ >= 0) {
            instead_ = {unknown_};
            return {};
        }
        for (const char c : kReplacement) {
            if (single_[static_cast<uint8_t>(c)] < 0) {
                return fail("vocabulary: byte 0x{:02X} has no token, nor has the replacement character U+FFFD, and there is no unknown token",
                            missing - single_.begin());
            }
        }
        encode(kReplacement, instead_);
        return {};
    }

    void encode(std::string_view text, std::vector<int32_t>& out) const override {
        std::vector<size_t> ends;
        pretokenizer_.split(text, ends);
        Queue queue;
        std::string spelt;
        size_t begin = 0;
        for (const size_t end : ends) {
            encode_word(text.substr(begin, end - begin), queue, spelt, out);
            begin = end;
        }
    }

  private:
    using Queue = MergeQueue<uint32_t>;

    [[nodiscard]] int32_t find(std::string_view piece) const {
        const int32_t id = index_.find(piece);
        return id >= 0 && may_come_from_text(id) ? id : -1;
    }

    [[nodiscard]] bool may_come_from_text(int32_t id) const {
        const TokenType type = types_[static_cast<size_t>(id)];
        return is_text(type) || type == TokenType::Byte;
    }

    void encode_word(std::string_view word, Queue& queue, std::string& spelt, std::vector<int32_t>& out) const {
        if (pretokenizer_.traits().ignore_merges) {
            spelt.clear();
            for (const char c : word) spelt += spelling_[static_cast<uint8_t>(c)];
            if (const int32_t id = find(spelt); id >= 0) return out.push_back(id);
        }
        queue.clear();
        for (size_t at = 0; at < word.size(); ++at) queue.add(static_cast<uint32_t>(at), 1, single_[static_cast<uint8_t>(word[at])]);
        queue.run([&](const Symbol& left, const Symbol& right) -> std::optional<Queue::Merge> {
            if (left.id < 0 || right.id < 0) return std::nullopt;
            const MergeTable::Entry* const merge = merges_.find(left.id, right.id);
            if (merge == nullptr) return std::nullopt;
            return Queue::Merge{merge->rank, merge->result};
        });
        queue.for_each([&](const Symbol& symbol) {
            if (symbol.id >= 0) {
                out.push_back(symbol.id);
            } else {
                out.insert(out.end(), instead_.begin(), instead_.end());
            }
        });
    }

    const PieceIndex& index_;
    const std::vector<TokenType>& types_;
    int32_t unknown_;
    Pretokenizer pretokenizer_;
    MergeTable merges_;
    std::array<std::string, 256> spelling_;  // of each byte
    std::array<int32_t, 256> single_{};      // its token, or -1
    std::vector<int32_t> instead_;           // of a byte that has no token
};

}  // namespace

Result<std::unique_ptr<Encoder>> make_byte_encoder(const EncoderInput& input) {
    if (input.data.merges.empty()) return fail("vocabulary: model 'gpt2' needs merges, and there are none");
    CELLAR_TRY(Pretokenizer pretokenizer, Pretokenizer::make(input.data.pre));
    auto encoder = std::make_unique<ByteEncoder>(input, std::move(pretokenizer));
    CELLAR_TRY_VOID(encoder->add_merges(input.data.merges));
    CELLAR_TRY_VOID(encoder->settle_missing_bytes());
    return encoder;
}

}  // namespace cellar::text
