#include <algorithm>
#include <limits>

#include "text/charsmap.h"
#include "text/encoder.h"
#include "text/utf8.h"

namespace cellar::text {

namespace {

class UnigramEncoder final : public Encoder {
  public:
    UnigramEncoder(const EncoderInput& input, SpaceRules spaces, Charsmap charsmap)
        : data_(input.data), types_(input.types), unknown_(input.unknown), spaces_(spaces), charsmap_(std::move(charsmap)), bytes_(input) {
        std::vector<PieceTrie::Entry> entries;
        double lowest = std::numeric_limits<double>::max();
        for (size_t id = 0; id < data_.pieces.size(); ++id) {
            if (!is_text(types_[id])) continue;
            entries.push_back({data_.pieces[id], static_cast<int32_t>(id)});
            if (types_[id] == TokenType::Normal) lowest = std::min(lowest, score(static_cast<int32_t>(id)));
        }
        if (lowest == std::numeric_limits<double>::max()) lowest = 0;
        unknown_score_ = lowest - 10.0;
        trie_ = PieceTrie(std::move(entries));
        bytes_for_unknown_ = bytes_.complete();
    }

    void encode(std::string_view text, std::vector<int32_t>& out) const override {
        const std::string normal = normalised(text);
        if (normal.empty()) return;
        const std::vector<Best> best = best_paths(normal);
        std::vector<std::pair<size_t, size_t>> path;  // pieces from the last to the first: begin, end
        for (size_t end = normal.size(); end > 0; end = best[end].begin) path.emplace_back(best[end].begin, end);
        bool after_unknown = false;
        for (size_t i = path.size(); i-- > 0;) {
            const auto [begin, end] = path[i];
            const int32_t id = best[end].id;
            const bool is_unknown = id < 0;
            if (!is_unknown) {
                out.push_back(id);
            } else if (bytes_for_unknown_) {
                for (size_t at = begin; at < end; ++at) out.push_back(bytes_.ids[static_cast<uint8_t>(normal[at])]);
            } else if (!after_unknown) {
                out.push_back(unknown_);
            }
            after_unknown = is_unknown;
        }
    }

  private:
    // The best way to spell what comes before a place.
    struct Best {
        double score = -std::numeric_limits<double>::infinity();
        uint32_t begin = 0;  // of its last piece
        int32_t id = -1;     // of its last piece; -1: unknown
    };

    [[nodiscard]] double score(int32_t id) const {
        if (types_[static_cast<size_t>(id)] == TokenType::UserDefined || data_.scores.empty()) return 0;
        return data_.scores[static_cast<size_t>(id)];
    }

    [[nodiscard]] std::vector<Best> best_paths(std::string_view text) const {
        std::vector<Best> best(text.size() + 1);
        best[0].score = 0;
        for (size_t at = 0; at < text.size();) {
            const size_t character = utf8_character(text.substr(at));
            bool whole_character = false;
            const auto offer = [&](size_t end, double score, int32_t id) {
                if (best[at].score + score > best[end].score) best[end] = {best[at].score + score, static_cast<uint32_t>(at), id};
            };
            uint32_t node = PieceTrie::kRoot;
            for (size_t end = at; end < text.size();) {
                node = trie_.step(node, static_cast<uint8_t>(text[end++]));
                if (node == PieceTrie::kNone) break;
                const int32_t id = trie_.value(node);
                if (id < 0) continue;
                whole_character |= end == at + character;
                offer(end, score(id), id);
            }
            if (!whole_character) offer(at + character, unknown_score_, -1);
            at += character;
        }
        return best;
    }

    // Well-formed UTF-8 with the replacements made, spaces as U+2581, and the rules for spaces applied.
    [[nodiscard]] std::string normalised(std::string_view text) const {
        std::string out;
        bool in_word = false;
        bool first = true;
        const auto add = [&](std::string_view part) {
            for (const char c : part) {
                if (c == ' ') {
                    in_word = false;
                    if (!spaces_.remove_extra) out += kVisibleSpace;
                    continue;
                }
                if (!in_word && (first ? spaces_.add_prefix : spaces_.remove_extra)) out += kVisibleSpace;
                in_word = true;
                first = false;
                out += c;
            }
        };
        while (!text.empty()) {
            const Charsmap::Replacement replacement = charsmap_.longest(text);
            if (replacement.consumed > 0) {
                add(is_utf8(replacement.text) ? replacement.text : kReplacement);
                text.remove_prefix(replacement.consumed);
                continue;
            }
            const size_t length = utf8_character(text);
            add(length > 0 ? text.substr(0, length) : kReplacement);
            text.remove_prefix(std::max<size_t>(length, 1));
        }
        return out;
    }

    const VocabularyData& data_;
    const std::vector<TokenType>& types_;
    int32_t unknown_;
    SpaceRules spaces_;
    Charsmap charsmap_;
    ByteTokens bytes_;
    bool bytes_for_unknown_ = false;
    double unknown_score_ = 0;
    PieceTrie trie_;
};

}  // namespace

Result<std::unique_ptr<Encoder>> make_unigram_encoder(const EncoderInput& input, SpaceRules spaces) {
    Charsmap charsmap;
    if (!input.data.precompiled_charsmap.empty()) {
        CELLAR_TRY(charsmap, Charsmap::parse(input.data.precompiled_charsmap));
    }
    if (input.unknown < 0 && !ByteTokens(input).complete()) {
        return fail("vocabulary: model 't5' needs an unknown token or all 256 byte tokens, and has neither");
    }
    return std::make_unique<UnigramEncoder>(input, spaces, std::move(charsmap));
}

}  // namespace cellar::text
