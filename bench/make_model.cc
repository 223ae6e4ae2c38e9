// Writes a model of a well-known shape with random weights: for measuring speed, where only the shape and the format matter.
//
//   make_model --like qwen2-0.5b --format Q4_0 --out FILE
//
// The file is a whole GGUF model with a vocabulary of the real size, so that other engines load it too. Blocks of quantized formats are
// random bytes with a sane scale, which is as fast as writing the file. A matrix whose rows are no whole blocks of the format takes
// the nearest format with blocks of 32, as is the custom.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numbers>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/gguf_writer.h"
#include "tensor/row_codec.h"

namespace {

using namespace cellar;  // NOLINT: a program of one file

struct Shape {
    const char* name;
    const char* arch;
    int layers, embedding, feed_forward, heads, kv_heads, head_width;
    int words;       // tokens that are text; special ones follow
    int vocabulary;  // rows of the embedding
    int context;
    float rope_base, epsilon;
    bool tied, qkv_bias, qk_norm, rope_factors;
    const char* pre;
};

constexpr Shape kShapes[] = {
    {"qwen2-0.5b", "qwen2", 24, 896, 4864, 14, 2, 64, 151643, 151936, 32768, 1e6F, 1e-6F, true, true, false, false, "qwen2"},
    {"qwen2.5-1.5b", "qwen2", 28, 1536, 8960, 12, 2, 128, 151643, 151936, 32768, 1e6F, 1e-6F, true, true, false, false, "qwen2"},
    {"qwen2.5-7b", "qwen2", 28, 3584, 18944, 28, 4, 128, 151643, 152064, 32768, 1e6F, 1e-6F, false, true, false, false, "qwen2"},
    {"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151643, 151936, 40960, 1e6F, 1e-6F, true, false, true, false, "qwen2"},
    {"qwen3-4b", "qwen3", 36, 2560, 9728, 32, 8, 128, 151643, 151936, 40960, 1e6F, 1e-6F, true, false, true, false, "qwen2"},
    {"llama-3.2-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128000, 128256, 131072, 5e5F, 1e-5F, true, false, false, true, "llama-bpe"},
    {"llama-3.2-3b", "llama", 28, 3072, 8192, 24, 8, 128, 128000, 128256, 131072, 5e5F, 1e-5F, true, false, false, true, "llama-bpe"},
    {"llama-3.1-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128000, 128256, 131072, 5e5F, 1e-5F, false, false, false, true, "llama-bpe"},
    {"smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49135, 49152, 8192, 1e5F, 1e-5F, true, false, false, false, "smollm"},
    {"smollm2-360m", "llama", 32, 960, 2560, 15, 5, 64, 49135, 49152, 8192, 1e5F, 1e-5F, true, false, false, false, "smollm"},
};

// A stream of random bits; the same for the same seed on every machine.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = state_ += 0x9E3779B97F4A7C15U;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
        return z ^ (z >> 31);
    }
    size_t below(size_t n) { return static_cast<size_t>((static_cast<unsigned __int128>(next()) * n) >> 64); }
    void fill(std::byte* out, size_t bytes) {
        for (; bytes >= 8; out += 8, bytes -= 8) put(out, 8);
        if (bytes > 0) put(out, bytes);
    }

  private:
    void put(std::byte* out, size_t bytes) {
        const uint64_t bits = next();
        std::memcpy(out, &bits, bytes);
    }
    uint64_t state_;
};

uint64_t name_hash(const std::string& name) {
    uint64_t hash = 1469598103934665603U;
    for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211U;
    return hash;
}

// Where a block holds its scale, and what the minimum's factor is in scales so that values lie around zero.
struct ScalePlace {
    int scale = -1;
    int minimum = -1;
    float minimum_factor = 0.0F;
};

ScalePlace scale_place(DType type) {
    switch (type) {
        case DType::Q4_1:
            return {0, 2, -7.5F};
        case DType::Q5_1:
            return {0, 2, -15.5F};
        case DType::Q2_K:
            return {80, 82, 1.5F};
        case DType::Q3_K:
            return {108, -1, 0.0F};
        case DType::Q4_K:
            return {0, 2, 7.5F};
        case DType::Q5_K:
            return {0, 2, 15.5F};
        case DType::Q6_K:
            return {208, -1, 0.0F};
        default:
            return {0, -1, 0.0F};
    }
}

void set_f16(std::byte* at, float value) {
    const uint16_t bits = f32_to_f16(value);
    std::memcpy(at, &bits, sizeof(bits));
}

// Gives random bytes the scale that they lack.
void set_scales(DType type, std::byte* data, size_t blocks, float scale) {
    const auto step = static_cast<size_t>(info(type).block_bytes);
    if (type == DType::MXFP4) {
        const auto exponent = static_cast<std::byte>(128 + std::lround(std::log2(scale)));
        for (size_t i = 0; i < blocks; ++i) data[i * step] = exponent;
        return;
    }
    const ScalePlace place = scale_place(type);
    for (size_t i = 0; i < blocks; ++i) {
        // An eighth up or down, so that no two neighbours are alike.
        const float own = scale * (0.875F + static_cast<float>(i & 3) / 12.0F);
        std::byte* block = data + i * step;
        set_f16(block + place.scale, own);
        if (place.minimum >= 0) set_f16(block + place.minimum, own * place.minimum_factor);
    }
}

// Plain numbers: random sign and mantissa, the exponent of `scale`.
void set_exponents(DType type, std::byte* data, size_t bytes, float scale) {
    const auto power = static_cast<uint64_t>(std::ilogb(scale));
    uint64_t keep = 0x807FFFFF807FFFFFU;
    uint64_t exponent = (power + 127) << 23;
    if (type == DType::F16) keep = 0x83FF83FF83FF83FFU, exponent = (power + 15) << 10;
    if (type == DType::BF16) keep = 0x807F807F807F807FU, exponent = (power + 127) << 7;
    if (type != DType::F32) exponent |= exponent << 16;
    exponent |= exponent << 32;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t bits = 0;
        std::memcpy(&bits, data + i, 8);
        bits = (bits & keep) | exponent;
        std::memcpy(data + i, &bits, 8);
    }
}

bool is_plain(DType type) {
    return info(type).block == 1;
}

void make_blocks(DType type, std::byte* data, size_t blocks, float scale, Random& random) {
    const size_t bytes = blocks * static_cast<size_t>(info(type).block_bytes);
    random.fill(data, bytes);
    if (is_plain(type)) {
        set_exponents(type, data, bytes, scale);
    } else {
        set_scales(type, data, blocks, scale);
    }
}

// Standard deviation of values made with scale 1.
double spread(DType type) {
    if (is_plain(type)) return 1.5;
    constexpr size_t kBlocks = 64;
    Random random(1);
    std::vector<std::byte> data(kBlocks * static_cast<size_t>(info(type).block_bytes));
    make_blocks(type, data.data(), kBlocks, 1.0F, random);
    std::vector<float> values(kBlocks * static_cast<size_t>(info(type).block));
    decode_row(type, data.data(), static_cast<int64_t>(values.size()), values.data());
    double sum = 0.0;
    for (const float x : values) sum += static_cast<double>(x) * x;
    return std::sqrt(sum / static_cast<double>(values.size()));
}

// The format for rows of `cols` elements.
DType fitting(DType type, int64_t cols) {
    if (cols % info(type).block == 0) return type;
    switch (type) {
        case DType::Q2_K:
        case DType::Q3_K:
            return DType::Q4_0;
        case DType::Q5_K:
            return DType::Q5_1;
        case DType::Q6_K:
            return DType::Q8_0;
        case DType::IQ4_XS:
            return DType::IQ4_NL;
        default:
            return DType::Q5_0;  // Q4_K
    }
}

class ModelFile {
  public:
    ModelFile(const Shape& shape, DType format) : shape_(shape), format_(format) {}

    Result<void> write(const std::string& path) {
        add_keys();
        add_vocabulary();
        add_weights();
        return writer_.write(path);
    }

  private:
    template <class T>
    void key(const char* name, T value) {
        writer_.add(fmt::format("{}.{}", shape_.arch, name), value);
    }

    void add_keys() {
        const auto u32 = [this](const char* name, int value) { key(name, static_cast<uint32_t>(value)); };
        writer_.add("general.architecture", shape_.arch);
        writer_.add("general.name", fmt::format("{} with random weights", shape_.name));
        writer_.add("general.quantization_version", uint32_t{2});
        u32("context_length", shape_.context);
        u32("embedding_length", shape_.embedding);
        u32("block_count", shape_.layers);
        u32("feed_forward_length", shape_.feed_forward);
        u32("attention.head_count", shape_.heads);
        u32("attention.head_count_kv", shape_.kv_heads);
        u32("attention.key_length", shape_.head_width);
        u32("attention.value_length", shape_.head_width);
        u32("rope.dimension_count", shape_.head_width);
        u32("vocab_size", shape_.vocabulary);
        key("rope.freq_base", shape_.rope_base);
        key("attention.layer_norm_rms_epsilon", shape_.epsilon);
    }

    void add_vocabulary();
    void add_weights();

    void vector(const std::string& name, int64_t size, float mean, float spread) {
        Random random(name_hash(name));
        std::vector<float> values(static_cast<size_t>(size));
        for (float& x : values)
            x = mean + spread * static_cast<float>(static_cast<int64_t>(random.next() >> 32) - (int64_t{1} << 31)) / 2147483648.0F;
        writer_.add_tensor(name, DType::F32, {size}, values);
    }
    void matrix(const std::string& name, int64_t cols, int64_t rows) {
        const DType type = fitting(format_, cols);
        const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(cols)) / spread(type));
        const size_t blocks = static_cast<size_t>(cols / info(type).block * rows);
        writer_.add_tensor(name, type, {cols, rows}, [type, scale, blocks, seed = name_hash(name)](const gguf::Writer::Sink& sink) -> Result<void> {
            constexpr size_t kPiece = size_t{1} << 20;
            const auto step = static_cast<size_t>(info(type).block_bytes);
            // An even number of elements, since plain numbers are made eight bytes at a time.
            const size_t most = kPiece / step / 8 * 8;
            std::vector<std::byte> data(most * step);
            Random random(seed);
            for (size_t at = 0; at < blocks; at += most) {
                const size_t count = std::min(most, blocks - at);
                make_blocks(type, data.data(), count, scale, random);
                CELLAR_TRY_VOID(sink({data.data(), count * step}));
            }
            return {};
        });
    }

    const Shape& shape_;
    DType format_;
    gguf::Writer writer_;
};

// The visible character that stands for a byte in vocabularies of this kind.
std::string byte_piece(int byte) {
    const auto visible = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255); };
    int point = byte;
    if (!visible(byte)) {
        point = 256;
        for (int b = 0; b < byte; ++b) point += visible(b) ? 0 : 1;
    }
    if (point < 128) return {static_cast<char>(point)};
    return {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
}

void ModelFile::add_vocabulary() {
    std::vector<std::string> pieces;
    std::vector<std::string> merges;
    for (int byte = 0; byte < 256; ++byte) pieces.push_back(byte_piece(byte));
    std::unordered_set<std::string> known(pieces.begin(), pieces.end());
    // Words of letters, with and without a space in front: each is two shorter ones. All pairs of letters come first, then what chance
    // brings, early ones more often than late ones.
    std::vector<std::string> fronts{byte_piece(' ')};
    std::vector<std::string> backs;
    for (char c = 'a'; c <= 'z'; ++c) backs.emplace_back(1, c);
    const auto merge = [&](const std::string& left, const std::string& right, std::vector<std::string>& into) {
        std::string both = left + right;
        if (both.size() > 16 || !known.insert(both).second) return;
        merges.push_back(left + " " + right);
        pieces.push_back(both);
        into.push_back(std::move(both));
    };
    const std::vector<std::string> letters = backs;
    for (const std::string& letter : letters) merge(fronts[0], letter, fronts);
    for (const std::string& left : letters)
        for (const std::string& right : letters) merge(left, right, backs);
    Random random(7);
    const auto early = [&random](const std::vector<std::string>& from) { return from[random.below(random.below(from.size()) + 1)]; };
    while (static_cast<int>(pieces.size()) < shape_.words) {
        std::vector<std::string>& into = (random.next() & 1) != 0 ? fronts : backs;
        const std::string left = early(into);
        merge(left, early(backs), into);
    }
    std::vector<int32_t> types(pieces.size(), 1);
    const bool llama = std::string(shape_.pre) == "llama-bpe";
    for (const char* special :
         {llama ? "<|begin_of_text|>" : "<|endoftext|>", llama ? "<|end_of_text|>" : "<|im_start|>", llama ? "<|eot_id|>" : "<|im_end|>"}) {
        pieces.emplace_back(special);
        types.push_back(3);
    }
    while (static_cast<int>(pieces.size()) < shape_.vocabulary) {
        pieces.push_back(fmt::format("<|reserved_{}|>", pieces.size()));
        types.push_back(3);
    }
    const auto first = static_cast<uint32_t>(shape_.words);
    writer_.add("tokenizer.ggml.model", "gpt2");
    writer_.add("tokenizer.ggml.pre", shape_.pre);
    writer_.add_strings("tokenizer.ggml.tokens", pieces);
    writer_.add_array("tokenizer.ggml.token_type", types);
    writer_.add_strings("tokenizer.ggml.merges", merges);
    writer_.add("tokenizer.ggml.bos_token_id", first);
    writer_.add("tokenizer.ggml.eos_token_id", first + 2);
    writer_.add("tokenizer.ggml.padding_token_id", first);
    writer_.add("tokenizer.ggml.add_bos_token", llama);
}

void ModelFile::add_weights() {
    const int64_t width = shape_.embedding;
    const int64_t q = int64_t{shape_.heads} * shape_.head_width;
    const int64_t kv = int64_t{shape_.kv_heads} * shape_.head_width;
    matrix("token_embd.weight", width, shape_.vocabulary);
    if (shape_.rope_factors) {
        // Slow turns are stretched 32 times, fast ones are not, and those between are eased in.
        std::vector<float> factors;
        for (int i = 0; i < shape_.head_width / 2; ++i) {
            const double wave = 2 * std::numbers::pi * std::pow(static_cast<double>(shape_.rope_base), 2.0 * i / shape_.head_width);
            const double ease = std::clamp((8192.0 / wave - 1.0) / 3.0, 0.0, 1.0);
            factors.push_back(static_cast<float>(1.0 / ((1.0 - ease) / 32.0 + ease)));
        }
        writer_.add_tensor("rope_freqs.weight", DType::F32, {shape_.head_width / 2}, factors);
    }
    for (int layer = 0; layer < shape_.layers; ++layer) {
        const auto name = [layer](const char* part) { return fmt::format("blk.{}.{}", layer, part); };
        vector(name("attn_norm.weight"), width, 1.0F, 0.1F);
        matrix(name("attn_q.weight"), width, q);
        matrix(name("attn_k.weight"), width, kv);
        matrix(name("attn_v.weight"), width, kv);
        if (shape_.qkv_bias) {
            vector(name("attn_q.bias"), q, 0.0F, 0.1F);
            vector(name("attn_k.bias"), kv, 0.0F, 0.1F);
            vector(name("attn_v.bias"), kv, 0.0F, 0.1F);
        }
        if (shape_.qk_norm) {
            vector(name("attn_q_norm.weight"), shape_.head_width, 1.0F, 0.1F);
            vector(name("attn_k_norm.weight"), shape_.head_width, 1.0F, 0.1F);
        }
        matrix(name("attn_output.weight"), q, width);
        vector(name("ffn_norm.weight"), width, 1.0F, 0.1F);
        matrix(name("ffn_gate.weight"), width, shape_.feed_forward);
        matrix(name("ffn_up.weight"), width, shape_.feed_forward);
        matrix(name("ffn_down.weight"), shape_.feed_forward, width);
    }
    vector("output_norm.weight", width, 1.0F, 0.1F);
    if (!shape_.tied) matrix("output.weight", width, shape_.vocabulary);
}

int usage() {
    std::string shapes, formats;
    for (const Shape& shape : kShapes) shapes += fmt::format(" {}", shape.name);
    for (const DTypeInfo& type : all_dtypes()) formats += fmt::format(" {}", type.name);
    fmt::print(stderr, "make_model --like SHAPE --format FORMAT --out FILE\nshapes:{}\nformats:{}\n", shapes, formats);
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    std::string like, format, out;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string flag = argv[i];
        if (flag == "--like")
            like = argv[i + 1];
        else if (flag == "--format")
            format = argv[i + 1];
        else if (flag == "--out")
            out = argv[i + 1];
        else
            return usage();
    }
    const Shape* shape = nullptr;
    const DTypeInfo* type = nullptr;
    for (const Shape& s : kShapes)
        if (like == s.name) shape = &s;
    for (const DTypeInfo& t : all_dtypes())
        if (format == t.name) type = &t;
    if (shape == nullptr || type == nullptr || out.empty() || argc % 2 == 0) return usage();
    if (const auto written = ModelFile(*shape, type->type).write(out); !written) {
        fmt::print(stderr, "{}\n", written.error().message);
        return 1;
    }
    return 0;
}
