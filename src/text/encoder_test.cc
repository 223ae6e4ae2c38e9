#include "text/encoder.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "text/detokenizer.h"
#include "text/small_vocabularies.h"
#include "text/tokenizer.h"

namespace cellar::text {
namespace {

std::unique_ptr<Tokenizer> make(VocabularyData data) {
    auto made = Tokenizer::make(std::move(data));
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {.add_special = false}) {
    std::vector<std::string> out;
    for (const int32_t id : tokenizer.encode(text, options)) out.emplace_back(tokenizer.piece(id));
    return out;
}

using Pieces = std::vector<std::string>;

rc::Gen<std::string> text_of(std::vector<char> letters) {
    return rc::gen::map(rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, letters.size())),
                        [letters](const std::vector<size_t>& at) {
                            std::string text;
                            for (const size_t i : at) text += letters[i];
                            return text;
                        });
}

// --- merges over bytes ---

// Looks through all neighbours for the best pair, again and again.
Pieces plain_merges(const std::vector<std::pair<std::string, std::string>>& merges, const std::string& word) {
    Pieces parts;
    for (const char c : word) parts.emplace_back(1, c);
    for (;;) {
        size_t best_rank = merges.size(), best_at = 0;
        for (size_t i = 0; i + 1 < parts.size(); ++i) {
            for (size_t rank = 0; rank < best_rank; ++rank) {
                if (merges[rank] == std::pair(parts[i], parts[i + 1])) best_rank = rank, best_at = i;
            }
        }
        if (best_rank == merges.size()) return parts;
        parts[best_at] += parts[best_at + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
    }
}

RC_GTEST_PROP(ByteEncoder, MergesLikeAPlainModel, ()) {
    // Merges that build on one another: each joins two tokens that are there already.
    VocabularyData data = small_byte_vocabulary("gpt-2", {});
    std::vector<std::string> known = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    const auto picks = *rc::gen::container<std::vector<std::pair<uint8_t, uint8_t>>>(rc::gen::arbitrary<std::pair<uint8_t, uint8_t>>());
    for (const auto& [a, b] : picks) {
        const std::string left = known[a % known.size()], right = known[b % known.size()];
        if (left.size() + right.size() > 12) continue;
        merges.emplace_back(left, right);
        data.merges.add(left + " " + right);
        if (std::find(known.begin(), known.end(), left + right) != known.end()) continue;
        known.push_back(left + right);
        add_piece(data, known.back());
    }
    RC_PRE(!merges.empty());
    const auto tokenizer = make(std::move(data));
    for (int i = 0; i < 5; ++i) {
        const std::string text = *rc::gen::resize(40, text_of({'a', 'b', 'c'}));
        RC_ASSERT(pieces(*tokenizer, text) == plain_merges(merges, text));
    }
}

RC_GTEST_PROP(ByteEncoder, AnyBytesComeBack, (const std::vector<uint8_t>& bytes)) {
    static const auto tokenizer = make(small_byte_vocabulary());
    const std::string text(bytes.begin(), bytes.end());
    std::string back;
    for (const int32_t id : tokenizer->encode(text, {.add_special = false})) back += tokenizer->decode(id);
    RC_ASSERT(back == text);
}

TEST(ByteEncoder, Words) {
    const auto tokenizer = make(small_byte_vocabulary());
    EXPECT_EQ(pieces(*tokenizer, "abc ab"), (Pieces{"abc", "\u0120", "ab"})) << "'a b' comes before '_ a'";
    EXPECT_EQ(pieces(*tokenizer, "aaaaa"), (Pieces{"aaaa", "a"}));
    EXPECT_EQ(pieces(*tokenizer, "\u00E9"), (Pieces{"\u00C3\u00A9"}));
    EXPECT_EQ(tokenizer->decode(*tokenizer->find("\u00C3\u00A9")), "\u00E9");
    EXPECT_EQ(tokenizer->decode(*tokenizer->find("\u0120a")), " a");
    EXPECT_EQ(pieces(*tokenizer, ""), Pieces{});
}

TEST(ByteEncoder, AWholeWordThatIsATokenNeedsNoMerges) {
    VocabularyData data = small_byte_vocabulary("gpt-2");
    add_piece(data, "cab");
    EXPECT_EQ(pieces(*make(data), "cab"), (Pieces{"c", "ab"}));
    data.pre = "llama-bpe";
    EXPECT_EQ(pieces(*make(std::move(data)), "cab"), Pieces{"cab"});
}

TEST(ByteEncoder, BytesWithoutAToken) {
    VocabularyData with_unknown;
    with_unknown.model = "gpt2";
    with_unknown.unk = add_piece(with_unknown, "?", 0, TokenType::Unknown);
    for (const std::string_view piece : {"a", "b", "ab"}) add_piece(with_unknown, piece);
    with_unknown.merges.add("a b");
    VocabularyData data = with_unknown;
    EXPECT_EQ(pieces(*make(std::move(with_unknown)), "abXab"), (Pieces{"ab", "?", "ab"}));

    data.unk.reset();
    const auto refused = Tokenizer::make(data);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("byte 0x00 has no token"), std::string::npos) << refused.error().message;

    for (const std::string_view piece : {"\u00EF", "\u00BF", "\u00BD"}) add_piece(data, piece);
    EXPECT_EQ(pieces(*make(std::move(data)), "abX"), (Pieces{"ab", "\u00EF", "\u00BF", "\u00BD"}));
}

// --- scores ---

Pieces plain_scores(const std::map<std::string, float>& scores, Pieces parts) {
    for (;;) {
        float best = -std::numeric_limits<float>::infinity();
        size_t best_at = parts.size();
        for (size_t i = 0; i + 1 < parts.size(); ++i) {
            const auto found = scores.find(parts[i] + parts[i + 1]);
            if (found != scores.end() && found->second > best) best = found->second, best_at = i;
        }
        if (best_at == parts.size()) return parts;
        parts[best_at] += parts[best_at + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
    }
}

RC_GTEST_PROP(ScoreEncoder, MergesLikeAPlainModel, ()) {
    VocabularyData data;
    data.model = "llama";
    data.unk = add_piece(data, "<unk>", 0, TokenType::Unknown);
    data.bos = add_piece(data, "<s>", 0, TokenType::Control);
    data.eos = add_piece(data, "</s>", 0, TokenType::Control);
    data.add_space_prefix = false;
    std::map<std::string, float> scores;
    for (const char* letter : {"a", "b", "c"}) scores[letter] = 0;
    for (const std::string& piece : *rc::gen::container<std::vector<std::string>>(rc::gen::resize(6, text_of({'a', 'b', 'c'})))) {
        if (piece.size() > 1) scores.emplace(piece, static_cast<float>(*rc::gen::inRange(-6, 0)));
    }
    for (const auto& [piece, score] : scores) add_piece(data, piece, score);
    const auto tokenizer = make(std::move(data));
    for (int i = 0; i < 5; ++i) {
        const std::string text = *rc::gen::resize(40, text_of({'a', 'b', 'c'}));
        Pieces letters;
        for (const char c : text) letters.emplace_back(1, c);
        RC_ASSERT(pieces(*tokenizer, text) == plain_scores(scores, letters));
    }
}

RC_GTEST_PROP(ScoreEncoder, AnyBytesComeBack, (const std::vector<uint8_t>& bytes)) {
    static const auto tokenizer = make(small_score_vocabulary());
    const std::string text(bytes.begin(), bytes.end());
    std::string back;
    for (const int32_t id : tokenizer->encode(text, {.add_special = false})) back += tokenizer->decode(id);
    RC_ASSERT(back == (text.empty() ? "" : " " + text));
}

TEST(ScoreEncoder, Words) {
    const auto tokenizer = make(small_score_vocabulary());
    EXPECT_EQ(pieces(*tokenizer, "abc"), (Pieces{"\u2581", "abc"})) << "'ab' is the best pair, and then 'abc' is better than '_ab'";
    EXPECT_EQ(pieces(*tokenizer, "x"), (Pieces{"\u2581", "<0x78>"}));
    EXPECT_EQ(pieces(*tokenizer, "\u20AC"), (Pieces{"\u2581", "<0xE2>", "<0x82>", "<0xAC>"}));
    EXPECT_EQ(pieces(*tokenizer, "  a"), (Pieces{"\u2581\u2581", "\u2581a"}));
    EXPECT_EQ(pieces(*tokenizer, "</s>"), (Pieces{"\u2581", "<0x3C>", "<0x2F>", "<0x73>", "<0x3E>"})) << "control tokens do not come from text";
}

TEST(ScoreEncoder, WithoutByteTokens) {
    VocabularyData data;
    data.model = "llama";
    data.add_bos = false;
    data.add_space_prefix = false;
    data.unk = add_piece(data, "<unk>", 0, TokenType::Unknown);
    add_piece(data, "a");
    EXPECT_EQ(pieces(*make(std::move(data)),
                     "a\u20AC\xFF"
                     "a"),
              (Pieces{"a", "<unk>", "<unk>", "a"}));
}

// --- unigram ---

// The best sum of scores over all ways to spell the text, a letter that is no piece counting as the worst score less 10.
double best_sum(const std::map<std::string, double>& scores, double unknown, const std::string& text) {
    std::vector<double> best(text.size() + 1, -std::numeric_limits<double>::infinity());
    best[0] = 0;
    for (size_t end = 1; end <= text.size(); ++end) {
        for (size_t begin = 0; begin < end; ++begin) {
            const auto found = scores.find(text.substr(begin, end - begin));
            if (found != scores.end()) best[end] = std::max(best[end], best[begin] + found->second);
        }
        if (!scores.contains(text.substr(end - 1, 1))) best[end] = std::max(best[end], best[end - 1] + unknown);
    }
    return best[text.size()];
}

// Byte tokens show where unknown letters are, so the ids tell the whole path.
RC_GTEST_PROP(UnigramEncoder, FindsTheBestSum, ()) {
    VocabularyData data;
    data.model = "t5";
    data.add_eos = false;
    add_byte_pieces(data);
    std::map<std::string, double> scores = {{"a", -*rc::gen::inRange(1, 9)}, {"b", -*rc::gen::inRange(1, 9)}};
    for (const std::string& piece : *rc::gen::container<std::vector<std::string>>(rc::gen::resize(6, text_of({'a', 'b', 'c'})))) {
        if (piece.size() > 1) scores.emplace(piece, -*rc::gen::inRange(1, 80) / 4.0);
    }
    double unknown = 0;
    for (const auto& [piece, score] : scores) {
        add_piece(data, piece, static_cast<float>(score));
        unknown = std::min(unknown, score);
    }
    unknown -= 10;
    const auto tokenizer = make(std::move(data));
    for (int i = 0; i < 5; ++i) {
        const std::string text = *rc::gen::resize(30, text_of({'a', 'b', 'c'}));
        double sum = 0;
        std::string back;
        for (const std::string& piece : pieces(*tokenizer, text)) {
            sum += piece == "<0x63>" ? unknown : scores.at(piece);
            back += piece == "<0x63>" ? "c" : piece;
        }
        RC_ASSERT(back == text);
        RC_ASSERT(sum == best_sum(scores, unknown, text));
    }
}

TEST(UnigramEncoder, SpacesAndUnknowns) {
    const auto tokenizer = make(small_unigram_vocabulary());
    EXPECT_EQ(pieces(*tokenizer, "  ab   abc "), (Pieces{"\u2581ab", "\u2581a", "bc"}));
    EXPECT_EQ(pieces(*tokenizer, "axyb"), (Pieces{"\u2581a", "<unk>", "b"})) << "one unknown token for a run";
    EXPECT_EQ(pieces(*tokenizer, "   "), Pieces{});
    EXPECT_EQ(pieces(*tokenizer, "a", {}), (Pieces{"\u2581a", "</s>"}));

    VocabularyData data = small_unigram_vocabulary();
    data.remove_extra_whitespaces = false;
    EXPECT_EQ(pieces(*make(std::move(data)), " a  b"), (Pieces{"\u2581", "\u2581a", "\u2581", "\u2581", "b"}));
    const auto with_bytes = make(small_unigram_vocabulary(true));
    EXPECT_EQ(pieces(*with_bytes, "ax\xFF"), (Pieces{"\u2581a", "<0x78>", "<0xEF>", "<0xBF>", "<0xBD>"}));
    EXPECT_EQ(with_bytes->decode(with_bytes->encode("ax\u20AC")), "ax\u20AC");
}

TEST(UnigramEncoder, NormalisesByItsCharsmap) {
    // A double array by hand: "A" -> "a", "AB" -> "bc". The root's children lie at 0x100 ^ byte, those of "A" at 0x300 ^ byte.
    std::vector<uint32_t> entries(0x400, 0);
    const auto pack = [](uint32_t offset, bool value, uint32_t label) { return offset << 10 | static_cast<uint32_t>(value) << 8 | label; };
    entries[0] = pack(0x100, false, 0);
    const uint32_t a = 0x100 ^ 'A';
    entries[a] = pack(a ^ 0x300, true, 'A');
    entries[0x300] = 1u << 31 | 0;  // at offset 0 of the replacements
    const uint32_t ab = 0x300 ^ 'B';
    entries[ab] = pack(ab ^ 0x200, true, 'B');
    entries[0x200] = 1u << 31 | 2;
    std::string charsmap;
    const auto append = [&](uint32_t value) {
        for (int i = 0; i < 4; ++i) charsmap += static_cast<char>(value >> (8 * i) & 0xFF);
    };
    append(static_cast<uint32_t>(entries.size() * 4));
    for (const uint32_t entry : entries) append(entry);
    charsmap += std::string_view("a\0bc\0", 5);

    VocabularyData data = small_unigram_vocabulary();
    data.precompiled_charsmap = charsmap;
    const auto tokenizer = make(data);
    EXPECT_EQ(pieces(*tokenizer, "A"), Pieces{"\u2581a"});
    EXPECT_EQ(pieces(*tokenizer, "AB"), (Pieces{"\u2581", "bc"}));
    EXPECT_EQ(pieces(*tokenizer, "aAAB"), (Pieces{"\u2581a", "abc"}));

    for (const size_t length : {size_t{1}, size_t{3}, size_t{4}, size_t{100}, charsmap.size() - 1, charsmap.size() - 5}) {
        data.precompiled_charsmap = charsmap.substr(0, length);
        EXPECT_FALSE(Tokenizer::make(data)) << length;
    }
    entries[0x300] = 1u << 31 | 0xFFFFF;  // outside
    data.precompiled_charsmap.clear();
    std::swap(charsmap, data.precompiled_charsmap);
    append(static_cast<uint32_t>(entries.size() * 4));
    for (const uint32_t entry : entries) append(entry);
    charsmap += std::string_view("a\0", 2);
    data.precompiled_charsmap = charsmap;
    EXPECT_EQ(pieces(*make(data), "A"), (Pieces{"\u2581", "<unk>"})) << "a replacement outside of the table is none";
}

TEST(ByteCharacters, AreADoubleMap) {
    std::map<uint32_t, int> seen;
    for (int byte = 0; byte < 256; ++byte) {
        const uint32_t point = character_of_byte(static_cast<uint8_t>(byte));
        EXPECT_TRUE(seen.emplace(point, byte).second);
        EXPECT_EQ(byte_of_character(point), byte);
    }
    EXPECT_EQ(character_of_byte(' '), 0x120u);
    EXPECT_EQ(character_of_byte('\n'), 0x10Au);
    EXPECT_EQ(character_of_byte('a'), uint32_t{'a'});
    EXPECT_EQ(character_of_byte(0xAD), 0x143u);
    EXPECT_EQ(byte_of_character(0x144), -1);
    EXPECT_EQ(byte_of_character(' '), -1);
    EXPECT_EQ(byte_of_character(0x10FFFF), -1);
}

TEST(BytePieces, AreSpeltInHexadecimal) {
    EXPECT_EQ(byte_of_piece("<0x0A>"), 10);
    EXPECT_EQ(byte_of_piece("<0xff>"), 255);
    for (const std::string_view piece : {"", "<0x0A", "<0x0G>", "<0xA>", "0x0A>>", "<0X0A>", "<0x00A>"}) EXPECT_EQ(byte_of_piece(piece), -1) << piece;
}

}  // namespace
}  // namespace cellar::text
