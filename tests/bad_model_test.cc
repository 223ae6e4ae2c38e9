// Model files that are well-formed GGUF and wrong as models: each is refused with a line that says why.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <span>
#include <thread>

#include "base/file.h"
#include "engine/engine.h"
#include "model/gguf_writer.h"
#include "support/golden_recipe.h"
#include "support/process.h"
#include "support/tiny_model.h"

namespace cellar {
namespace {

// A copy of a model with some keys and tensors changed.
class Copy {
  public:
    explicit Copy(const std::string& recipe) {
        if (recipe == "shipped") {
            file_.emplace(*gguf::File::open(tiny::shipped_path()));
            return;
        }
        bytes_ = *golden::make_gguf(*golden::read_named(recipe));
        file_.emplace(*gguf::File::parse(bytes_, recipe));
        prefix_ = std::string(*file_->string("general.architecture")) + ".";
    }
    Copy& drop(const std::string& key) { return dropped_.insert(full(key)), *this; }
    template <class T>
    Copy& set(const std::string& key, T value) {
        drop(key);
        added_.push_back([name = full(key), value](gguf::Writer& w) { w.add(name, value); });
        return *this;
    }
    template <class T>
    Copy& set_array(const std::string& key, std::vector<T> values) {
        drop(key);
        added_.push_back([name = full(key), values](gguf::Writer& w) { w.add_array(name, values); });
        return *this;
    }
    Copy& set_strings(const std::string& key, std::vector<std::string> values) {
        drop(key);
        added_.push_back([name = full(key), values](gguf::Writer& w) { w.add_strings(name, values); });
        return *this;
    }
    Copy& drop_tensor(const std::string& name) { return dropped_tensors_.insert(name), *this; }
    Copy& set_tensor(const std::string& name, std::vector<int64_t> dims, float value = 0.5F) {
        drop_tensor(name);
        added_.push_back([=](gguf::Writer& w) {
            int64_t n = 1;
            for (const int64_t d : dims) n *= d;
            w.add_tensor(name, DType::F32, dims, std::vector<float>(static_cast<size_t>(n), value));
        });
        return *this;
    }

    void write(const std::string& path) const {
        gguf::Writer out;
        for (const gguf::Key& key : file_->keys())
            if (!dropped_.contains(std::string(key.name))) copy(key, out);
        for (const gguf::TensorInfo& t : file_->tensors())
            if (!dropped_tensors_.contains(std::string(t.name)))
                out.add_tensor(t.name, t.type, std::vector<int64_t>(t.dims.begin(), t.dims.begin() + t.n_dims),
                               std::vector<std::byte>(t.data, t.data + t.bytes));
        for (const auto& add : added_) add(out);
        const auto written = out.write(path);
        EXPECT_TRUE(written) << written.error().message;
    }

    // What opening it says; empty when it is accepted, engine included. The same whether or not weights are packed meanwhile, by any number
    // of threads.
    [[nodiscard]] std::string refusal() const {
        const std::string path = CELLAR_BINARY_DIR "/bad-model.gguf";
        write(path);
        std::string message = refusal_of(path, {});
        for (const auto& [pack, threads] : {std::pair{false, 2}, {true, 1}, {true, 2}}) {
            model::LoadOptions load;
            load.pack = pack;
            load.threads = threads;
            EXPECT_EQ(refusal_of(path, load), message) << (pack ? "packed by " : "") << threads << " threads";
        }
        std::filesystem::remove(path);
        return message;
    }

  private:
    static std::string refusal_of(const std::string& path, const model::LoadOptions& load) {
        const auto model = model::Model::open(path, load);
        if (!model) return model.error().message;
        const auto engine = Engine::make(*model, tiny::options());
        return engine ? "" : engine.error().message;
    }

    // Short names are those of the architecture's own keys.
    std::string full(const std::string& key) const { return key.starts_with("tokenizer.") || key.starts_with("general.") ? key : prefix_ + key; }
    void copy(const gguf::Key& key, gguf::Writer& out) const {
        if (key.type != gguf::ValueType::Array) return out.add_raw(key.name, key.type, {key.data, key.bytes});
        if (key.element == gguf::ValueType::String) {
            std::vector<std::string> texts;
            const gguf::StringArray strings = *file_->strings(key.name);
            for (const std::string_view text : strings) texts.emplace_back(text);
            return out.add_strings(key.name, texts);
        }
        if (key.element == gguf::ValueType::F32) return out.add_array(key.name, *file_->numbers(key.name));
        const std::vector<int64_t> wide = *file_->integers(key.name);
        out.add_array(key.name, std::vector<int32_t>(wide.begin(), wide.end()));
    }

    std::vector<std::byte> bytes_;
    std::optional<gguf::File> file_;
    std::string prefix_ = "llama.";
    std::set<std::string> dropped_;
    std::set<std::string> dropped_tensors_;
    std::vector<std::function<void(gguf::Writer&)>> added_;
};

void expect_refused(const Copy& copy, std::initializer_list<const char*> words) {
    const std::string message = copy.refusal();
    ASSERT_NE(message, "") << "was accepted";
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
}

uint32_t u(uint32_t x) {
    return x;
}

TEST(BadModel, TheGoodOnesAreAccepted) {
    EXPECT_EQ(Copy("llama").refusal(), "");
    EXPECT_EQ(Copy("llama-moe").refusal(), "");
    EXPECT_EQ(Copy("bailingmoe2").refusal(), "");
    EXPECT_EQ(Copy("phi3").refusal(), "");
    EXPECT_EQ(Copy("olmo2").refusal(), "");
    EXPECT_EQ(Copy("shipped").refusal(), "");
}

TEST(BadModel, MissingKeysAreNamed) {
    for (const char* key : {"embedding_length", "block_count", "context_length", "attention.head_count", "feed_forward_length"}) {
        SCOPED_TRACE(key);
        expect_refused(Copy("llama").drop(key), {key});
    }
    expect_refused(Copy("llama").drop("general.architecture"), {"general.architecture"});
    expect_refused(Copy("bailingmoe2").drop("expert_feed_forward_length"), {"expert_feed_forward_length"});
    expect_refused(Copy("bailingmoe2").drop("expert_count").drop("expert_used_count"), {"expert_count"});
    expect_refused(Copy("qwen3moe").drop("expert_count").drop("expert_used_count"), {"expert_count"});
    expect_refused(Copy("stablelm").drop("attention.layer_norm_epsilon"), {"layer_norm_epsilon"});
}

TEST(BadModel, KeysOfTheWrongTypeAreNamed) {
    for (const char* key : {"embedding_length", "block_count", "context_length", "attention.head_count", "attention.head_count_kv",
                            "feed_forward_length", "attention.key_length", "attention.value_length", "rope.dimension_count"}) {
        SCOPED_TRACE(key);
        expect_refused(Copy("llama").set(key, "four"), {key, "string"});
        expect_refused(Copy("llama").set(key, 4.5F), {key, "f32"});
    }
    expect_refused(Copy("llama").set("rope.freq_base", "fast"), {"rope.freq_base", "string"});
    expect_refused(Copy("llama").set("attention.layer_norm_rms_epsilon", true), {"layer_norm_rms_epsilon", "bool"});
    expect_refused(Copy("llama").set("general.architecture", u(3)), {"general.architecture", "u32"});
    expect_refused(Copy("granite").set("rope.scaling.finetuned", u(1)), {"rope.scaling.finetuned", "u32"});
}

TEST(BadModel, ValuesOutOfRangeAreNamed) {
    for (const char* key :
         {"embedding_length", "block_count", "context_length", "attention.head_count", "attention.head_count_kv", "attention.key_length"}) {
        SCOPED_TRACE(key);
        expect_refused(Copy("llama").set(key, u(0)), {std::string_view(key).find("head") == std::string_view::npos ? key : "head"});
        expect_refused(Copy("llama").set(key, int32_t{-1}), {key});
        expect_refused(Copy("llama").set(key, u(4000000000U)), {key});
    }
    expect_refused(Copy("llama").set("rope.freq_base", 0.0F), {"rope.freq_base", "above 0"});
    expect_refused(Copy("llama").set("rope.freq_base", -1.0F), {"rope.freq_base"});
    expect_refused(Copy("llama").set("rope.dimension_count", u(31)), {"rope.dimension_count", "31", "even"});
    expect_refused(Copy("llama").set("rope.dimension_count", u(64)), {"rope.dimension_count", "64"});
    expect_refused(Copy("llama").set("attention.layer_norm_rms_epsilon", -1.0F), {"epsilon"});
    expect_refused(Copy("llama").set("rope.scaling.type", "spiral"), {"spiral", "yarn"});
    expect_refused(Copy("llama").set("rope.scaling.factor", -2.0F), {"rope.scaling.factor"});
}

TEST(BadModel, HeadsThatDoNotDivide) {
    expect_refused(Copy("llama").set("attention.head_count_kv", u(3)), {"4 heads", "3 KV heads"});
    expect_refused(Copy("llama").set_array("attention.head_count_kv", std::vector<int32_t>{2, 3}), {"layer 1", "3 KV heads"});
    expect_refused(Copy("llama").set_array("attention.head_count_kv", std::vector<int32_t>{2, 2, 2}), {"3 values", "2 layers"});
    expect_refused(Copy("llama").set("attention.head_count", u(3)).set("attention.head_count_kv", u(3)).drop("attention.key_length"),
                   {"128", "3 heads"});
}

TEST(BadModel, ShapesThatDoNotMatch) {
    expect_refused(Copy("llama").set("embedding_length", u(64)), {"token_embd.weight", "shape"});
    expect_refused(Copy("llama").set("feed_forward_length", u(191)), {"ffn", "191"});
    expect_refused(Copy("llama").set("attention.head_count", u(8)), {"attn_q", "shape"});
    expect_refused(Copy("llama").set("attention.head_count_kv", u(4)), {"attn_k", "shape"});
    expect_refused(Copy("llama").set_tensor("blk.0.attn_norm.weight", {127}), {"blk.0.attn_norm.weight", "127"});
    expect_refused(Copy("llama").set_tensor("blk.1.ffn_down.weight", {128, 192}), {"blk.1.ffn_down.weight", "[128, 192]", "[192, 128]"});
    expect_refused(Copy("llama").set_tensor("output.weight", {128, 127}), {"output.weight", "127"});
    expect_refused(Copy("llama").set_tensor("rope_freqs.weight", {15}, 1.0F), {"rope_freqs.weight", "15"});
    expect_refused(Copy("llama").set_tensor("rope_freqs.weight", {16}, 0.0F), {"rope_freqs.weight", "above 0"});
    expect_refused(Copy("llama").set_tensor("token_embd.weight", {128}), {"token_embd.weight", "2 dimensions"});
    expect_refused(Copy("llama-moe").set_tensor("blk.0.ffn_gate_exps.weight", {128, 192, 3}), {"ffn_gate_exps", "3"});
}

TEST(BadModel, MissingTensorsAreNamed) {
    for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight", "blk.1.attn_q.weight", "blk.0.attn_output.weight",
                             "blk.1.ffn_norm.weight", "blk.0.ffn_down.weight"}) {
        SCOPED_TRACE(name);
        expect_refused(Copy("llama").drop_tensor(name), {name});
    }
    expect_refused(Copy("qwen3").drop_tensor("blk.0.attn_q_norm.weight"), {"blk.0.attn_q_norm.weight"});
    expect_refused(Copy("stablelm").drop_tensor("blk.0.attn_q_norm.weight"), {"attn_q_norm", "attn_k_norm"});
    expect_refused(Copy("phi3").drop_tensor("rope_factors_long.weight"), {"rope_factors_long.weight"});
    expect_refused(Copy("bailingmoe2").drop_tensor("blk.1.ffn_gate_inp.weight"), {"ffn_gate_inp"});
}

TEST(BadModel, ExpertsThatDoNotFit) {
    expect_refused(Copy("llama-moe").set("expert_used_count", u(5)), {"expert_used_count", "5", "4"});
    expect_refused(Copy("llama-moe").set("expert_used_count", u(0)), {"expert_used_count"});
    expect_refused(Copy("llama-moe").drop("expert_used_count"), {"expert_used_count"});
    expect_refused(Copy("bailingmoe2").set("expert_group_count", u(3)), {"4 experts in 3 groups"});
    expect_refused(Copy("bailingmoe2").set("expert_group_count", u(4)).set("expert_group_used_count", u(1)), {"groups"});
    expect_refused(Copy("bailingmoe2").set("expert_gating_func", u(9)), {"expert_gating_func", "9"});
    expect_refused(Copy("bailingmoe2").set("nextn_predict_layers", u(2)), {"2 of 2 layers"});
}

TEST(BadModel, VocabulariesThatDoNotFit) {
    for (const char* key : {"bos", "eos", "unknown"}) {
        SCOPED_TRACE(key);
        expect_refused(Copy("shipped").set(std::string("tokenizer.ggml.") + key + "_token_id", u(1024)), {"1024"});
        expect_refused(Copy("shipped").set(std::string("tokenizer.ggml.") + key + "_token_id", "two"), {"token_id", "string"});
    }
    expect_refused(Copy("shipped").set("tokenizer.ggml.model", "sentencepeace"), {"sentencepeace", "gpt2"});
    expect_refused(Copy("shipped").drop("tokenizer.ggml.tokens"), {"tokenizer.ggml.tokens"});
    expect_refused(Copy("shipped").set_strings("tokenizer.ggml.tokens", {"a", "b"}), {"2"});
    expect_refused(Copy("shipped").set_array("tokenizer.ggml.scores", std::vector<float>{1.0F}), {"scores", "1024"});
    expect_refused(Copy("shipped").set_array("tokenizer.ggml.token_type", std::vector<int32_t>(1024, 77)), {"77"});
    expect_refused(Copy("shipped").set_tensor("token_embd.weight", {256, 1000}), {"1024", "1000"});
    expect_refused(Copy("shipped").set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "martian"), {"martian", "llama-bpe"});
    expect_refused(Copy("shipped").set("tokenizer.chat_template", u(1)), {"tokenizer.chat_template"});
}

// Where weights are wrong too, these are what is said: whoever read the vocabulary meanwhile is waited for and not heard.
TEST(BadModel, WeightsComeBeforeVocabularies) {
    expect_refused(Copy("shipped").set("tokenizer.ggml.model", "sentencepeace").drop_tensor("blk.0.ffn_down.weight"), {"blk.0.ffn_down.weight"});
    expect_refused(Copy("shipped").drop_tensor("blk.0.ffn_down.weight"), {"blk.0.ffn_down.weight"});
}

size_t entries(const char* folder) {
    const std::filesystem::directory_iterator all(folder);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// Opening with several threads reads the vocabulary beside the weights. Whichever of the two is refused, nothing of either stays.
TEST(BadModel, NothingStaysOfAModelThatIsRefused) {
    const std::string path = CELLAR_BINARY_DIR "/bad-model-again.gguf";
    const auto open = [&] {
        model::LoadOptions load;
        load.pack = true;
        load.threads = 2;
        return model::Model::open(path, load).has_value();
    };
    for (const bool words : {true, false}) {
        SCOPED_TRACE(words ? "the vocabulary is wrong" : "the weights are wrong");
        Copy copy("shipped");
        words ? copy.set("tokenizer.ggml.unknown_token_id", u(1024)) : copy.drop_tensor("blk.0.ffn_down.weight");
        copy.write(path);
        EXPECT_FALSE(open());
        const size_t threads = entries("/proc/self/task");
        const size_t files = entries("/proc/self/fd");
        for (int i = 0; i < 20; ++i) EXPECT_FALSE(open());
        EXPECT_EQ(entries("/proc/self/fd"), files);
        EXPECT_EQ(read_file("/proc/self/maps", size_t{1} << 24)->find("bad-model-again"), std::string::npos);
        // A thread that was waited for is in the list a moment longer.
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (entries("/proc/self/task") > threads && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        EXPECT_LE(entries("/proc/self/task"), threads);
    }
    std::filesystem::remove(path);
}

TEST(BadModel, UnknownArchitecturesAreRefusedWithTheList) {
    expect_refused(Copy("llama").set("general.architecture", "perceptron"), {"perceptron", "llama", "stablelm"});
}

TEST(BadModel, WindowsThatDoNotFit) {
    expect_refused(Copy("olmo2").set_array("attention.sliding_window_pattern", std::vector<bool>{true}), {"sliding_window_pattern"});
    expect_refused(Copy("olmo2").set("attention.sliding_window", int32_t{-4}), {"sliding_window"});
}

// Writes the model with one weight that is no number (of Q8_0 a scale).
void write_with_nan(std::span<const std::byte> model, std::string_view tensor, const std::string& path) {
    const auto file = *gguf::File::parse(model, "model");
    std::string bytes(reinterpret_cast<const char*>(model.data()), model.size());
    std::fill_n(bytes.begin() + (file.tensor(tensor)->data - model.data()), 4, '\xFF');
    std::ofstream(path, std::ios::binary) << bytes;
}

// Weights that are no numbers end the answer with the name of the layer, not in nonsense.
TEST(BadModel, WeightsThatAreNotFiniteAreFoundByName) {
    const std::string path = CELLAR_BINARY_DIR "/nan-model.gguf";
    write_with_nan(*golden::make_gguf(*golden::read_named("llama")), "blk.1.ffn_up.weight", path);
    auto model = *model::Model::open(path);
    EngineOptions options = tiny::options();
    options.check_finite = true;
    auto engine = tiny::engine(model, options);
    const SeqId seq = *engine->cache().open();
    const auto result = engine->append(seq, tiny::tokens(*model, 5));
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("blk.1.ffn_up"), std::string::npos) << result.error().message;
    EXPECT_EQ(engine->cache().length(seq), 0);
    std::filesystem::remove(path);
    // A perplexity that is no number is none.
    const std::string words = CELLAR_BINARY_DIR "/nan-words.gguf";
    const std::string shipped = *read_file(tiny::shipped_path(), size_t{1} << 26);
    write_with_nan(std::as_bytes(std::span(shipped)), "blk.1.ffn_up.weight", words);
    const std::string text = process::temporary("text.txt", "My name is Ada. I live in Oslo.");
    const process::Outcome outcome = process::cellar({"perplexity", words, "-f", text});
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_NE(outcome.err.find("blk.1.ffn_up"), std::string::npos) << outcome.err;
    std::filesystem::remove(words);
}

}  // namespace
}  // namespace cellar
