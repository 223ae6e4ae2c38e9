#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/quote.h"
#include "text/detokenizer.h"
#include "text/encoder.h"
#include "text/known_tokens.h"
#include "text/pretokenizer.h"
#include "text/special_tokens.h"
#include "text/utf8.h"

namespace cellar::text {

namespace {

// Longer pieces would make every place of a text cost that much.
constexpr size_t kLongestPiece = 4096;
constexpr size_t kMostTokens = size_t{1} << 24;

// What the models have in common besides the way of encoding.
struct ModelTraits {
    std::string_view name;
    bool byte_level;
    int32_t bos, eos, unk, pad;  // -1: none
    bool add_bos, add_eos, add_space_prefix;
};

constexpr std::array<ModelTraits, 3> kModels = {{
    {"gpt2", true, 11, 11, -1, -1, false, false, false},
    {"llama", false, 1, 2, 0, -1, true, false, true},
    {"t5", false, -1, 1, 2, 0, false, true, false},
}};

Result<const ModelTraits*> find_model(std::string_view name) {
    for (const ModelTraits& model : kModels) {
        if (model.name == name) return &model;
    }
    return fail(ErrorKind::Unsupported, "vocabulary: unknown model {}; known are: {}", quoted(name), fmt::join(known_models(), ", "));
}

Result<void> check_counts(const VocabularyData& data) {
    const size_t tokens = data.pieces.size();
    if (tokens == 0) return fail("vocabulary: it has no tokens");
    if (tokens > kMostTokens) return fail("vocabulary: {} tokens, at most {} can be", tokens, kMostTokens);
    if (!data.scores.empty() && data.scores.size() != tokens) return fail("vocabulary: {} scores for {} tokens", data.scores.size(), tokens);
    if (!data.types.empty() && data.types.size() != tokens) return fail("vocabulary: {} token types for {} tokens", data.types.size(), tokens);
    return {};
}

Result<void> check_tokens(const VocabularyData& data, const PieceIndex& index, bool byte_level) {
    if (const auto& twice = index.duplicate()) {
        return fail("vocabulary: tokens {} and {} are both {}", twice->first, twice->second, quoted(data.pieces[static_cast<size_t>(twice->first)]));
    }
    for (size_t id = 0; id < data.pieces.size(); ++id) {
        const std::string_view piece = data.pieces[id];
        if (piece.size() > kLongestPiece) return fail("vocabulary: token {} has {} bytes, at most {} can be", id, piece.size(), kLongestPiece);
        if (!data.scores.empty() && !std::isfinite(data.scores[id])) return fail("vocabulary: the score of token {} is {}", id, data.scores[id]);
        if (!byte_level && !data.types.empty() && data.types[id] == TokenType::Byte && byte_of_piece(piece) < 0) {
            return fail("vocabulary: token {} is of type byte but is {}, not like '<0x0A>'", id, quoted(piece));
        }
    }
    return {};
}

Result<void> check_id(std::string_view what, const std::optional<int64_t>& id, size_t tokens) {
    if (!id || (*id >= 0 && static_cast<uint64_t>(*id) < tokens)) return {};
    return fail("vocabulary: the {} token is {}, but there are {} tokens", what, *id, tokens);
}

Result<void> check_ids(const VocabularyData& data) {
    const std::pair<std::string_view, const std::optional<int64_t>*> named[] = {
        {"BOS", &data.bos},
        {"EOS", &data.eos},
        {"EOT", &data.eot},
        {"EOM", &data.eom},
        {"unknown", &data.unk},
        {"SEP", &data.sep},
        {"padding", &data.pad},
        {"mask", &data.mask},
        {"fill-in prefix", &data.fim_prefix},
        {"fill-in suffix", &data.fim_suffix},
        {"fill-in middle", &data.fim_middle},
        {"fill-in padding", &data.fim_pad},
        {"fill-in repository", &data.fim_repository},
        {"fill-in separator", &data.fim_separator},
    };
    for (const auto& [what, id] : named) CELLAR_TRY_VOID(check_id(what, *id, data.pieces.size()));
    for (const int64_t id : data.end_of_generation) CELLAR_TRY_VOID(check_id("end-of-generation", id, data.pieces.size()));
    return {};
}

std::string lower_case(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return lower;
}

void append_with_visible_spaces(std::string_view text, std::string& out) {
    for (const char c : text) {
        if (c == ' ') {
            out += kVisibleSpace;
        } else {
            out += c;
        }
    }
}

std::string with_plain_spaces(std::string_view piece) {
    std::string out;
    for (size_t at; (at = piece.find(kVisibleSpace)) != std::string_view::npos; piece.remove_prefix(at + kVisibleSpace.size())) {
        out += piece.substr(0, at);
        out += ' ';
    }
    return out += piece;
}

std::string bytes_of_characters(std::string_view piece) {
    std::string out;
    while (!piece.empty()) {
        const size_t length = utf8_character(piece);
        const int byte = length > 0 ? byte_of_character(utf8_code_point(piece)) : -1;
        if (byte >= 0) {
            out += static_cast<char>(byte);
        } else {
            out += piece.substr(0, std::max<size_t>(length, 1));
        }
        piece.remove_prefix(std::max<size_t>(length, 1));
    }
    return out;
}

}  // namespace

struct Tokenizer::Parts {
    VocabularyData data;
    std::vector<TokenType> types;  // [tokens]
    PieceIndex index;
    const ModelTraits* model = nullptr;
    std::optional<int32_t> bos, eos, eot, unk, sep, pad;
    bool add_bos = false, add_eos = false, add_space = false;
    std::vector<int32_t> ending;  // sorted
    SpecialTokens special;
    std::unique_ptr<Encoder> encoder;

    // In this order.
    void settle_types();
    void settle_ids(bool default_bos);
    void settle_endings();
    [[nodiscard]] Result<void> settle_additions(const PretokenizerTraits& traits);
    void settle_special_tokens();
    [[nodiscard]] Result<void> make_encoder();
};

void Tokenizer::Parts::settle_types() {
    types = data.types;
    if (!types.empty()) return;
    types.assign(data.pieces.size(), TokenType::Normal);
    if (model->byte_level) return;
    for (size_t id = 0; id < types.size(); ++id) {
        if (byte_of_piece(data.pieces[id]) >= 0) types[id] = TokenType::Byte;
    }
}

void Tokenizer::Parts::settle_ids(bool default_bos) {
    const auto settle = [&](const std::optional<int64_t>& named, int32_t otherwise) -> std::optional<int32_t> {
        if (named) return static_cast<int32_t>(*named);
        if (otherwise < 0 || static_cast<size_t>(otherwise) >= data.pieces.size()) return std::nullopt;
        return otherwise;
    };
    bos = settle(data.bos, default_bos ? model->bos : -1);
    eos = settle(data.eos, model->eos);
    unk = settle(data.unk, model->unk);
    sep = settle(data.sep, -1);
    pad = settle(data.pad, model->pad);
    eot = settle(data.eot, -1);
}

void Tokenizer::Parts::settle_endings() {
    const KnownTokens known = find_known_tokens(index, types);
    if (!eot) eot = known.eot;
    ending = known.end_of_generation;
    // Text that is filled in ends where padding or another file begins.
    for (const auto& id : {data.eom, data.fim_pad, data.fim_repository, data.fim_separator}) {
        if (id) ending.push_back(static_cast<int32_t>(*id));
    }
    for (const int64_t id : data.end_of_generation) ending.push_back(static_cast<int32_t>(id));
    for (const int32_t id : known.end_of_generation) types[static_cast<size_t>(id)] = TokenType::Control;
    for (const auto& id : {eos, eot}) {
        if (id) ending.push_back(*id);
    }
    std::sort(ending.begin(), ending.end());
    ending.erase(std::unique(ending.begin(), ending.end()), ending.end());
}

Result<void> Tokenizer::Parts::settle_additions(const PretokenizerTraits& traits) {
    add_bos = data.add_bos.value_or(model->add_bos || traits.add_bos);
    add_eos = data.add_eos.value_or(model->add_eos);
    add_space = !model->byte_level && data.add_space_prefix.value_or(model->add_space_prefix);
    if (add_bos && !bos) return fail("vocabulary: BOS is to be added, but no BOS token is named");
    if (add_eos && !eos) return fail("vocabulary: EOS is to be added, but no EOS token is named");
    return {};
}

void Tokenizer::Parts::settle_special_tokens() {
    const std::string name = lower_case(data.name);
    const bool phi3 = name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
    const bool mask_eats_left = data.pre == "jina-v2-de" || data.pre == "jina-v2-es" || data.pre == "jina-v2-code" ||
                                data.architecture == "nomic-bert-moe" || data.architecture == "jina-bert-v3";
    std::vector<SpecialToken> tokens;
    for (size_t id = 0; id < types.size(); ++id) {
        const std::string_view piece = data.pieces[id];
        const bool special = types[id] == TokenType::Control || types[id] == TokenType::UserDefined || types[id] == TokenType::Unknown;
        if (!special || piece.empty()) continue;
        SpecialToken token{static_cast<int32_t>(id), piece};
        token.only_when_asked = types[id] != TokenType::UserDefined;
        token.eats_left = (mask_eats_left && piece == "<mask>") || (name.find("modern-bert") != std::string::npos && piece == "[MASK]");
        token.eats_right = phi3 && piece != "<unk>" && piece != "<s>" && piece != "<|endoftext|>";
        tokens.push_back(token);
    }
    special = SpecialTokens(std::move(tokens));
}

Result<void> Tokenizer::Parts::make_encoder() {
    const EncoderInput input{data, index, types, unk.value_or(-1)};
    if (model->name == "llama") {
        CELLAR_TRY(encoder, make_score_encoder(input));
    } else if (model->name == "gpt2") {
        CELLAR_TRY(encoder, make_byte_encoder(input));
    } else {
        CELLAR_TRY(encoder, make_unigram_encoder(input, {add_space, data.remove_extra_whitespaces.value_or(false)}));
    }
    data.merges = {};
    data.precompiled_charsmap = {};
    return {};
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::make(VocabularyData data) {
    auto parts = std::make_unique<Parts>();
    CELLAR_TRY(parts->model, find_model(data.model));
    CELLAR_TRY_VOID(check_counts(data));
    parts->data = std::move(data);
    parts->index = PieceIndex(parts->data.pieces);
    CELLAR_TRY_VOID(check_tokens(parts->data, parts->index, parts->model->byte_level));
    CELLAR_TRY_VOID(check_ids(parts->data));
    PretokenizerTraits traits;
    if (parts->model->byte_level) {
        CELLAR_TRY(traits, pretokenizer_traits(parts->data.pre));
    }
    parts->settle_types();
    parts->settle_ids(traits.default_bos);
    parts->settle_endings();
    CELLAR_TRY_VOID(parts->settle_additions(traits));
    parts->settle_special_tokens();
    CELLAR_TRY_VOID(parts->make_encoder());
    return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts)));
}

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
    CHECK_LT(text.size(), size_t{1} << 31);
    std::vector<int32_t> ids;
    if (options.add_special && parts_->add_bos) ids.push_back(*parts_->bos);
    std::string escaped;
    bool after_special = true;
    for (const Fragment& fragment : parts_->special.split(text, options.parse_special)) {
        if (fragment.token >= 0) {
            ids.push_back(fragment.token);
        } else if (parts_->model->name == "llama") {
            escaped.clear();
            if (parts_->add_space && after_special) escaped += kVisibleSpace;
            append_with_visible_spaces(fragment.text, escaped);
            parts_->encoder->encode(escaped, ids);
        } else {
            parts_->encoder->encode(fragment.text, ids);
        }
        after_special = fragment.token >= 0;
    }
    if (options.add_special && parts_->add_eos) ids.push_back(*parts_->eos);
    return ids;
}

std::string Tokenizer::decode(int32_t id, bool render_special) const {
    const std::string_view text = piece(id);
    switch (type(id)) {
        case TokenType::Control:
        case TokenType::Unknown:
            return render_special ? std::string(text) : std::string();
        case TokenType::UserDefined:
            return std::string(text);
        case TokenType::Byte:
            if (const int byte = byte_of_piece(text); byte >= 0) return std::string(1, static_cast<char>(byte));
            break;
        default:
            break;
    }
    return parts_->model->byte_level ? bytes_of_characters(text) : with_plain_spaces(text);
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids, bool render_special) const {
    Detokenizer detokenizer(*this, {.render_special = render_special});
    std::string text;
    for (const int32_t id : ids) text += detokenizer.push(id);
    return text += detokenizer.finish();
}

int32_t Tokenizer::size() const {
    return static_cast<int32_t>(parts_->types.size());
}

std::string_view Tokenizer::piece(int32_t id) const {
    CHECK(id >= 0 && id < size());
    return parts_->data.pieces[static_cast<size_t>(id)];
}

TokenType Tokenizer::type(int32_t id) const {
    CHECK(id >= 0 && id < size());
    return parts_->types[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::find(std::string_view piece) const {
    const int32_t id = parts_->index.find(piece);
    return id >= 0 ? std::optional(id) : std::nullopt;
}

std::optional<int32_t> Tokenizer::bos() const {
    return parts_->bos;
}
std::optional<int32_t> Tokenizer::eos() const {
    return parts_->eos;
}
std::optional<int32_t> Tokenizer::eot() const {
    return parts_->eot;
}
std::optional<int32_t> Tokenizer::unk() const {
    return parts_->unk;
}
std::optional<int32_t> Tokenizer::sep() const {
    return parts_->sep;
}
std::optional<int32_t> Tokenizer::pad() const {
    return parts_->pad;
}
bool Tokenizer::adds_bos() const {
    return parts_->add_bos;
}
bool Tokenizer::adds_eos() const {
    return parts_->add_eos;
}
bool Tokenizer::adds_space() const {
    return parts_->add_space;
}

bool Tokenizer::is_end_of_generation(int32_t id) const {
    return std::binary_search(parts_->ending.begin(), parts_->ending.end(), id);
}

std::vector<int32_t> Tokenizer::end_of_generation() const {
    return parts_->ending;
}

bool Tokenizer::stands_for_itself(int32_t id) const {
    const TokenType type_of_id = type(id);
    return type_of_id == TokenType::Control || type_of_id == TokenType::UserDefined || type_of_id == TokenType::Unknown;
}

const VocabularyData& Tokenizer::data() const {
    return parts_->data;
}

std::vector<std::string_view> known_models() {
    std::vector<std::string_view> names;
    names.reserve(std::size(kModels));
    for (const ModelTraits& model : kModels) names.push_back(model.name);
    return names;
}

}  // namespace cellar::text
