#include "text/pretokenizer_table.h"

namespace cellar::text {

namespace {

// Pieces of expressions that many names share. They are macros because only literals can be put together at compile time.
#define CONTRACTIONS R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
#define LETTERS R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define SYMBOLS R"( ?[^\s\p{L}\p{N}]+[\r\n]*)"
#define SYMBOLS_SLASH R"( ?[^\s\p{L}\p{N}]+[\r\n/]*)"
#define SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
// Words of which only the beginning may be upper case.
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define CASED_WORDS(suffix) R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER "+" suffix R"(|[^\r\n\p{L}\p{N}]?)" UPPER "+" LOWER "*" suffix
// The same classes without Han characters, said by what they are not, since a class cannot be cut out of another.
#define UPPER_NO_HAN R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}])"
#define LOWER_NO_HAN R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}])"
#define ASCII_SYMBOL_WORD R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
#define MARKED_LETTERS R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 = CONTRACTIONS "|" LETTERS R"(|\p{N}{1,3}|)" SYMBOLS "|" SPACES;
constexpr std::string_view kQwen2 = CONTRACTIONS "|" LETTERS R"(|\p{N}|)" SYMBOLS "|" SPACES;
constexpr std::string_view kGpt4o = CASED_WORDS(CONTRACTIONS "?") R"(|\p{N}{1,3}|)" SYMBOLS_SLASH "|" SPACES;
constexpr std::string_view kDeepseek3 = ASCII_SYMBOL_WORD "|" MARKED_LETTERS R"(| ?[\p{P}\p{S}]+[\r\n]*|)" SPACES;
constexpr std::string_view kNotPunctuation = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kHanAndKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kHanAndHangul = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

// Latin, Greek, Cyrillic, Armenian, Georgian, Cherokee and the like.
constexpr std::string_view kBicameral =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376})"
    R"(\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})"
    R"(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57})"
    R"(\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113})"
    R"(\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})"
    R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06})"
    R"(\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";

// Han, kana, Thai, Lao, Khmer, Myanmar, Hangul.
constexpr std::string_view kUnspaced =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF})"
    R"(\x{E00}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF})"
    R"(\x{1100}-\x{11FF}]+)";

constexpr std::string_view kKoreanAndChinese =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C})"
    R"(\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";

// White space at the very end. It may only begin where a run of white space begins: else every place of a long run were tried.
constexpr std::string_view kTrailingSpace = R"((?<!\s)\s++\z)";

// A long run of spaces becomes many words here. What follows a word that ends in a space has no line end in it, or the word had
// been another: without the look behind, each word would look through the whole run again.
#define HALVING_SPACES                                                                                                 \
    R"((?<!(?![\r\n])\s)\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|)" \
    R"(\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)"

std::vector<PretokenizerEntry> make_table() {
    using enum StepKind;
    return {
        {{"default"}, {{R"([\p{P}\$\+<=>\^~\|]+)"}, {kGpt2}, {R"(\p{N}+)"}, {"[0-9][0-9][0-9]"}}},
        {{"a.x-4.0", "exaone4", "gigachat", "gpt-2", "granite-docling", "jais", "jina-de", "jina-es", "jina-v1-en", "jina-v2-code", "jina-v2-de",
          "jina-v2-es", "mellum", "modern-bert", "mpt", "olmo", "phi-2", "roberta-bpe", "trillion"},
         {{kGpt2}}},

        {{"codeshell", "command-r", "exaone", "mellum2", "minerva-7b", "refact", "smollm", "starcoder"}, {{kDigit}, {kGpt2}}},
        {{"falcon-h1", "falcon3", "jina-v5-nano", "lfm2", "llama-bpe", "llama-v3", "llama3", "midm-2.0", "pixtral"},
         {{kLlama3}},
         {.ignore_merges = true, .add_bos = true}},
        {{"dbrx", "smaug-bpe"}, {{kLlama3}}},
        {{"chatglm-bpe", "glm4"}, {{kLlama3}}, {.default_bos = false}},
        {{"minicpm5"}, {{kThreeDigits}, {CONTRACTIONS "|" LETTERS R"(|\p{N}+|)" SYMBOLS "|" SPACES}}, {.ignore_merges = true}},
        {{"jais-2"}, {{CONTRACTIONS "|" LETTERS R"(|\p{N}{1,3}|)" SYMBOLS "|" HALVING_SPACES}}},
        {{"deepseek-r1-qwen", "f2llmv2", "grok-2", "hunyuan", "kormo", "megrez", "qwen2", "solar-open", "stablelm2"}, {{kQwen2}}},
        {{"qwen35"}, {{CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" SPACES}}},
        {{"ufakzeka"}, {{LETTERS R"(|\p{N}|)" SYMBOLS "|" SPACES}}},
        {{"laguna"}, {{R"([^\n]+|[\n]+)"}, {kQwen2}}},
        {{"bailingmoe", "bailingmoe2", "llada-moe"},
         {{R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|)" LETTERS R"(|\p{N}|)" SYMBOLS R"(|\s*[\r\n]|\s+(?!\S)|\s+)"}}},
        {{"seed-coder"}, {{CONTRACTIONS "|" LETTERS R"(|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|)" SPACES}}},
        {{"exaone-moe"},
         {{CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|)"
                        R"(\s*[\r\n]|\s+(?!\S)|\s+)"}}},
        {{"cohere2moe", "tiny_aya"}, {{R"((?<!\p{Nd})\p{Nd}++(?![\p{L}\p{M}\p{N}\p{Pc}]))", GroupsFromRight}, {kGpt4o}}},
        {{"gpt-4o", "kanana2", "llama4", "minimax-m2", "talkie"}, {{kGpt4o}}},
        {{"granite-embed-multi-97m"}, {{kGpt4o}}, {.ignore_merges = true}},
        {{"tekken"}, {{CASED_WORDS("") R"(|\p{N}|)" SYMBOLS_SLASH "|" SPACES}}, {.ignore_merges = true, .add_bos = true}},
        {{"youtu"}, {{kKoreanAndChinese}, {CASED_WORDS(CONTRACTIONS "?") R"(|\p{N}|)" SYMBOLS_SLASH "|" SPACES}}, {.ignore_merges = true}},
        {{"kimi-k2"},
         {{R"(\p{Han}+|[^\r\n\p{L}\p{N}]?)" UPPER_NO_HAN "*" LOWER_NO_HAN "+" CONTRACTIONS R"(?|[^\r\n\p{L}\p{N}]?)" UPPER_NO_HAN "+" LOWER_NO_HAN
           "*" CONTRACTIONS R"(?|\p{N}{1,3}|)" SYMBOLS "|" SPACES}}},
        {{"deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"}, {{kThreeDigits}, {kHanAndKana}, {kDeepseek3}}},
        {{"spark2_5"}, {{kThreeDigits}, {kHanAndKana}, {ASCII_SYMBOL_WORD "|" MARKED_LETTERS R"(| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)"}, {kDigit}}},
        {{"deepseek-llm"},
         {{R"([\r\n])"},
          {kBicameral},
          {R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"},
          {kTrailingSpace},
          {kHanAndHangul},
          {kDigit}}},
        {{"deepseek-coder"}, {{R"([\r\n])"}, {R"(\s?\p{L}+)"}, {R"(\s?\p{P}+)"}, {kHanAndHangul}, {kDigit}}},
        {{"afmoe"}, {{R"(\p{N}+)", GroupsFromRight}, {kUnspaced}, {kDeepseek3}}},
        {{"superbpe"}, {{R"(\p{N}+)"}, {R"((?<!\p{Nd})\p{Nd}++)", GroupsFromRight}}},
        {{"falcon"}, {{R"([\p{P}\$\+<=>\^~\|`]+)"}, {kGpt2}, {"[0-9][0-9][0-9]"}}},
        {{"bloom", "gpt3-finnish", "poro-chat"}, {{kNotPunctuation}}},
        {{"viking"}, {{kNotPunctuation}, {kDigit}}},
        {{"chameleon"},
         {{"<sentinel:[0-9]+>"}, {"(?:IMGIMG)[A-I]{1,4}Z"}, {R"([\t\n]|    |  )"}, {kDigit}, {R"([\p{P}!-/:-@\[-`{-~])"}, {kGpt2}},
         {.add_bos = true}},
    };
}

}  // namespace

const std::vector<PretokenizerEntry>& pretokenizer_table() {
    static const std::vector<PretokenizerEntry> table = make_table();
    return table;
}

}  // namespace cellar::text
