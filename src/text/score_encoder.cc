#include <algorithm>

#include "text/encoder.h"
#include "text/merge_queue.h"
#include "text/utf8.h"

namespace cellar::text {

namespace {

class ScoreEncoder final : public Encoder {
  public:
    explicit ScoreEncoder(const EncoderInput& input)
        : data_(input.data), index_(input.index), types_(input.types), bytes_(input), unknown_(input.unknown) {
        for (size_t id = 0; id < data_.pieces.size(); ++id) longest_ = std::max(longest_, data_.pieces[id].size());
    }

    // The first byte that would become nothing, or -1.
    [[nodiscard]] int lost_byte() const {
        if (unknown_ >= 0) return -1;
        for (int byte = 0; byte < 256; ++byte) {
            const char spelling = static_cast<char>(byte);
            if (bytes_.ids[static_cast<size_t>(byte)] < 0 && find({&spelling, 1}) < 0) return byte;
        }
        return -1;
    }

    void encode(std::string_view text, std::vector<int32_t>& out) const override {
        using Queue = MergeQueue<float>;
        Queue queue;
        for (size_t at = 0; at < text.size();) {
            const size_t length = std::max<size_t>(utf8_character(text.substr(at)), 1);
            queue.add(static_cast<uint32_t>(at), static_cast<uint32_t>(length), find(text.substr(at, length)));
            at += length;
        }
        queue.run([&](const Symbol& left, const Symbol& right) -> std::optional<Queue::Merge> {
            const int32_t id = find(text.substr(left.begin, left.bytes + right.bytes));
            if (id < 0) return std::nullopt;
            return Queue::Merge{data_.scores.empty() ? 0.0f : -data_.scores[static_cast<size_t>(id)], id};
        });
        queue.for_each([&](const Symbol& symbol) {
            if (symbol.id >= 0) {
                out.push_back(symbol.id);
            } else {
                append_bytes(text.substr(symbol.begin, symbol.bytes), out);
            }
        });
    }

  private:
    [[nodiscard]] int32_t find(std::string_view piece) const {
        if (piece.size() > longest_) return -1;
        const int32_t id = index_.find(piece);
        return id >= 0 && is_text(types_[static_cast<size_t>(id)]) ? id : -1;
    }

    void append_bytes(std::string_view character, std::vector<int32_t>& out) const {
        const bool spelt = std::all_of(character.begin(), character.end(), [&](char c) { return bytes_.ids[static_cast<uint8_t>(c)] >= 0; });
        if (!spelt && unknown_ >= 0) return out.push_back(unknown_);
        for (const char c : character) {
            const int32_t id = bytes_.ids[static_cast<uint8_t>(c)];
            out.push_back(id >= 0 ? id : find({&c, 1}));
        }
    }

    const VocabularyData& data_;
    const PieceIndex& index_;
    const std::vector<TokenType>& types_;
    ByteTokens bytes_;
    int32_t unknown_;
    size_t longest_ = 0;  // bytes of the longest piece
};

}  // namespace

Result<std::unique_ptr<Encoder>> make_score_encoder(const EncoderInput& input) {
    auto encoder = std::make_unique<ScoreEncoder>(input);
    if (const int byte = encoder->lost_byte(); byte >= 0) {
        return fail("vocabulary: byte 0x{:02X} cannot be spelt: no token '<0x{:02X}>' of type byte (6), and no unknown token", byte, byte);
    }
    return encoder;
}

}  // namespace cellar::text
