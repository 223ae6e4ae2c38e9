#include "model/vocabulary_from_gguf.h"

#include <utility>

#include "base/quote.h"

namespace cellar::model {

namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model";

Result<text::StringPool> read_pool(const gguf::File& file, std::string_view key) {
    CELLAR_TRY(const gguf::StringArray strings, file.strings(key));
    size_t bytes = 0;
    for (const std::string_view string : strings) bytes += string.size();
    text::StringPool pool;
    pool.reserve(strings.size(), bytes);
    for (const std::string_view string : strings) pool.add(string);
    return pool;
}

Result<std::vector<text::TokenType>> read_types(const gguf::File& file) {
    CELLAR_TRY(const std::vector<int64_t> numbers, file.integers("tokenizer.ggml.token_type", 0, 6));
    std::vector<text::TokenType> types;
    types.reserve(numbers.size());
    for (const int64_t number : numbers) types.push_back(static_cast<text::TokenType>(number));
    return types;
}

Result<void> read_ids(const gguf::File& file, text::VocabularyData& data) {
    const std::pair<std::string_view, std::optional<int64_t>*> ids[] = {
        {"tokenizer.ggml.bos_token_id", &data.bos},
        {"tokenizer.ggml.eos_token_id", &data.eos},
        {"tokenizer.ggml.eot_token_id", &data.eot},
        {"tokenizer.ggml.eom_token_id", &data.eom},
        {"tokenizer.ggml.unknown_token_id", &data.unk},
        {"tokenizer.ggml.seperator_token_id", &data.sep},  // the format spells it so
        {"tokenizer.ggml.padding_token_id", &data.pad},
        {"tokenizer.ggml.mask_token_id", &data.mask},
        // Older names first, so that the newer ones count where a file has both.
        {"tokenizer.ggml.prefix_token_id", &data.fim_prefix},
        {"tokenizer.ggml.suffix_token_id", &data.fim_suffix},
        {"tokenizer.ggml.middle_token_id", &data.fim_middle},
        {"tokenizer.ggml.fim_pre_token_id", &data.fim_prefix},
        {"tokenizer.ggml.fim_suf_token_id", &data.fim_suffix},
        {"tokenizer.ggml.fim_mid_token_id", &data.fim_middle},
        {"tokenizer.ggml.fim_pad_token_id", &data.fim_pad},
        {"tokenizer.ggml.fim_rep_token_id", &data.fim_repository},
        {"tokenizer.ggml.fim_sep_token_id", &data.fim_separator},
    };
    for (const auto& [key, id] : ids) {
        if (!file.has(key)) continue;
        CELLAR_TRY(*id, file.integer(key));
    }
    return {};
}

Result<void> read_flags(const gguf::File& file, text::VocabularyData& data) {
    const std::pair<std::string_view, std::optional<bool>*> flags[] = {
        {"tokenizer.ggml.add_bos_token", &data.add_bos},
        {"tokenizer.ggml.add_eos_token", &data.add_eos},
        {"tokenizer.ggml.add_space_prefix", &data.add_space_prefix},
        {"tokenizer.ggml.remove_extra_whitespaces", &data.remove_extra_whitespaces},
    };
    for (const auto& [key, flag] : flags) {
        if (!file.has(key)) continue;
        CELLAR_TRY(*flag, file.boolean(key));
    }
    return {};
}

Result<std::string> read_charsmap(const gguf::File& file) {
    constexpr std::string_view kKey = "tokenizer.ggml.precompiled_charsmap";
    const gguf::Key* const key = file.find(kKey);
    if (key == nullptr) return std::string();
    const bool is_bytes = key->type == gguf::ValueType::Array && (key->element == gguf::ValueType::U8 || key->element == gguf::ValueType::I8);
    if (!is_bytes) return fail("{}: key '{}' must be an array of bytes, but is {}", file.path(), kKey, gguf::name(key->type));
    return std::string(reinterpret_cast<const char*>(key->data), key->bytes);
}

}  // namespace

bool has_vocabulary(const gguf::File& file) {
    if (!file.has(kModel)) return false;
    const Result<std::string_view> model = file.string(kModel);
    return !model || (*model != "no_vocab" && *model != "none");
}

Result<text::VocabularyData> read_vocabulary(const gguf::File& file) {
    if (!has_vocabulary(file)) return fail("{}: the file has no vocabulary", file.path());
    text::VocabularyData data;
    CELLAR_TRY(data.model, file.string(kModel));
    CELLAR_TRY(data.pre, file.string_or("tokenizer.ggml.pre", ""));
    CELLAR_TRY(data.pieces, read_pool(file, "tokenizer.ggml.tokens"));
    if (file.has("tokenizer.ggml.scores")) {
        CELLAR_TRY(data.scores, file.numbers("tokenizer.ggml.scores"));
    }
    if (file.has("tokenizer.ggml.token_type")) {
        CELLAR_TRY(data.types, read_types(file));
    }
    if (file.has("tokenizer.ggml.merges")) {
        CELLAR_TRY(data.merges, read_pool(file, "tokenizer.ggml.merges"));
    }
    CELLAR_TRY_VOID(read_ids(file, data));
    CELLAR_TRY_VOID(read_flags(file, data));
    CELLAR_TRY(data.precompiled_charsmap, read_charsmap(file));
    CELLAR_TRY(data.architecture, file.string_or("general.architecture", ""));
    CELLAR_TRY(data.name, file.string_or("general.name", ""));
    return data;
}

}  // namespace cellar::model
