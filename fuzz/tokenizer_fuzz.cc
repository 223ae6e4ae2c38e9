// Any text through small vocabularies of each kind: ids stay inside, what comes back is UTF-8, and bytes come back where they can.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/detokenizer.h"
#include "text/small_vocabularies.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace cellar::text;

void require(bool condition) {
    if (!condition) std::abort();
}

struct Subject {
    std::unique_ptr<Tokenizer> tokenizer;
    bool keeps_bytes;  // decoding gives back the very bytes
};

std::vector<Subject> make_subjects() {
    std::vector<Subject> subjects;
    const auto add = [&](VocabularyData data, bool keeps_bytes) {
        auto made = Tokenizer::make(std::move(data));
        require(made.has_value());
        subjects.push_back({std::move(*made), keeps_bytes});
    };
    for (const std::string_view pre :
         {"gpt-2", "llama-bpe", "deepseek-llm", "deepseek-v3", "kimi-k2", "afmoe", "tiny_aya", "jais-2", "tekken", "exaone-moe"}) {
        add(small_byte_vocabulary(pre), true);
    }
    add(small_score_vocabulary(), true);
    add(small_unigram_vocabulary(), false);
    add(small_unigram_vocabulary(true), false);
    VocabularyData phi = small_score_vocabulary();
    phi.name = "phi-3";
    add(std::move(phi), false);  // special tokens eat spaces
    return subjects;
}

void check(const Subject& subject, std::string_view text, EncodeOptions options) {
    const Tokenizer& tokenizer = *subject.tokenizer;
    const std::vector<int32_t> ids = tokenizer.encode(text, options);
    Detokenizer detokenizer(tokenizer, {.render_special = true});
    std::string back;
    std::string bytes;
    for (const int32_t id : ids) {
        require(id >= 0 && id < tokenizer.size());
        require(options.parse_special || options.add_special || tokenizer.type(id) != TokenType::Control);
        back += detokenizer.push(id);
        bytes += tokenizer.decode(id, true);
    }
    back += detokenizer.finish();
    require(is_utf8(back));
    if (!subject.keeps_bytes || options.add_special) return;
    if (!tokenizer.adds_space()) require(bytes == text);
    if (is_utf8(text) && text.find(kVisibleSpace) == std::string_view::npos) require(back == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const std::vector<Subject> subjects = make_subjects();
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const Subject& subject : subjects) {
        check(subject, text, {.add_special = false, .parse_special = false});
        check(subject, text, {.add_special = false, .parse_special = true});
        check(subject, text, {});
    }
    return 0;
}
