// Whether any combination of formats, widths, windows and batches takes a road that is several times slower than its neighbours'. Times are
// those of one thread on the processor, the shortest of several, and only compared with each other within one run. How fast each road is, the
// other programs here say.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>

#include "support/tiny_model.h"

namespace cellar {
namespace {

double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

EngineOptions one_thread(kv::RowFormat k, kv::RowFormat v) {
    EngineOptions options = tiny::options();
    options.formats = {k, v};
    options.threads = 1;
    options.poison = false;
    options.context = 2200;
    options.cells = 2304;
    options.max_seqs = 8;
    options.max_outputs = 8;
    options.chunk = 512;
    return options;
}

double seconds_of(const std::function<bool()>& work) {
    const double start = processor_seconds();
    EXPECT_TRUE(work());
    return processor_seconds() - start;
}

// Reads 2,000 tokens, and then some one by one, where most of the time is attention.
class Reader {
  public:
    Reader(const std::string& recipe, kv::RowFormat k, kv::RowFormat v)
        : model_(tiny::model(recipe)), engine_(tiny::engine(model_, one_thread(k, v))), seq_(*engine_->cache().open()) {}
    void measure() {
        engine_->cache().trim(seq_, 0);
        prefill = std::min(prefill, seconds(2000, 1));
        for (int i = 0; i < 4; ++i) {
            engine_->cache().trim(seq_, 2000);
            decode = std::min(decode, seconds(1, 8));
        }
    }
    double decode = 1e9;
    double prefill = 1e9;

  private:
    double seconds(size_t tokens, int times) {
        const std::vector<int32_t> ids = tiny::tokens(*model_, tokens);
        return seconds_of([&] {
            bool done = true;
            for (int i = 0; i < times; ++i) done = done && engine_->append(seq_, ids);
            return done;
        });
    }
    std::shared_ptr<const model::Model> model_;
    std::unique_ptr<Engine> engine_;
    SeqId seq_;
};

TEST(SlowPaths, NoFormatTakesOneAtAnyWidthOfHeads) {
    using kv::RowFormat;
    for (const char* recipe : {"qwen3-hd64", "qwen3-hd80", "qwen3-hd96", "qwen3-hd128"}) {
        Reader f16(recipe, RowFormat::F16, RowFormat::F16);
        std::vector<std::pair<std::string, std::unique_ptr<Reader>>> others;
        for (const auto& [k, v] : std::vector<std::pair<RowFormat, RowFormat>>{{RowFormat::F32, RowFormat::F32},
                                                                               {RowFormat::BF16, RowFormat::BF16},
                                                                               {RowFormat::Q8_0, RowFormat::Q8_0},
                                                                               {RowFormat::Q8_0, RowFormat::F16},
                                                                               {RowFormat::F16, RowFormat::Q8_0}})
            others.emplace_back(fmt::format("{} {} {}", recipe, kv::name(k), kv::name(v)), std::make_unique<Reader>(recipe, k, v));
        for (int round = 0; round < 2; ++round) {
            f16.measure();
            for (auto& [name, reader] : others) reader->measure();
        }
        for (auto& [name, reader] : others) {
            const bool twice_the_bytes = name.find("f32") != std::string::npos;
            EXPECT_LT(reader->decode, (twice_the_bytes ? 4 : 2) * f16.decode) << name;
            EXPECT_LT(reader->prefill, 2 * f16.prefill) << name;
        }
    }
}

// A layer with a window does the work of what it sees, wherever it is, in prompts and in answers.
TEST(SlowPaths, AWindowCostsWhatItSees) {
    const auto model = tiny::model("olmo2");
    auto engine = tiny::engine(model, one_thread(kv::RowFormat::F16, kv::RowFormat::F16));
    const std::vector<int32_t> chunk = tiny::tokens(*model, 500);
    double near = 1e9;
    double far = 1e9;
    double decode_near = 1e9;
    double decode_far = 1e9;
    const auto decode = [&](SeqId seq) {
        return seconds_of([&] {
            bool done = true;
            for (int i = 0; i < 8; ++i) done = done && engine->append(seq, std::vector<int32_t>{5});
            return done;
        });
    };
    for (int round = 0; round < 8; ++round) {
        const SeqId seq = *engine->cache().open();
        for (int i = 0; i < 4; ++i) {
            const double seconds = seconds_of([&] { return engine->append(seq, chunk).has_value(); });
            if (i == 0) near = std::min(near, seconds);
            if (i == 0) decode_near = std::min(decode_near, decode(seq));
            if (i == 3) far = std::min(far, seconds);
            if (i == 3) decode_far = std::min(decode_far, decode(seq));
        }
        engine->cache().close(seq);
    }
    EXPECT_LT(far, 1.5 * near) << "of 500 tokens behind 1,500, against the first 500";
    EXPECT_LT(decode_far, 1.5 * decode_near);
}

// Prompts of several sequences in one step, alone and behind a beginning that all of them share, cost what they cost one after another.
TEST(SlowPaths, PromptsOfSeveralSequencesAreReadTogether) {
    for (const kv::RowFormat format : {kv::RowFormat::F16, kv::RowFormat::Q8_0}) {
        const auto model = tiny::model("qwen3-hd64");
        auto engine = tiny::engine(model, one_thread(format, format));
        kv::Cache& cache = engine->cache();
        for (const size_t shared : {size_t{0}, size_t{1000}}) {
            const SeqId parent = *cache.open();
            if (shared > 0) {
                ASSERT_TRUE(engine->append(parent, tiny::tokens(*model, shared)));
            }
            std::vector<SeqId> seqs;
            for (int i = 0; i < 7; ++i) seqs.push_back(*cache.fork(parent, static_cast<int32_t>(shared)));
            std::vector<std::vector<Token>> tokens(seqs.size());
            for (size_t i = 0; i < seqs.size(); ++i)
                for (const int32_t id : tiny::tokens(*model, 64, i)) tokens[i].push_back({id, static_cast<int32_t>(shared + tokens[i].size()), 0});
            const auto restart = [&] {
                for (const SeqId seq : seqs) cache.trim(seq, static_cast<int32_t>(shared));
            };
            double together = 1e9;
            double apart = 1e9;
            for (int round = 0; round < 8; ++round) {
                std::vector<kv::Append> appends;
                for (size_t i = 0; i < seqs.size(); ++i) appends.push_back({seqs[i], tokens[i]});
                restart();
                together = std::min(together, seconds_of([&] { return engine->step(appends).has_value(); }));
                restart();
                apart = std::min(apart, seconds_of([&] {
                                     bool done = true;
                                     for (const kv::Append& append : appends) done = done && engine->step({&append, 1}).has_value();
                                     return done;
                                 }));
            }
            EXPECT_LT(together, 1.5 * apart) << kv::name(format) << ", " << shared << " shared";
            for (const SeqId seq : seqs) cache.close(seq);
            cache.close(parent);
        }
    }
}

}  // namespace
}  // namespace cellar
