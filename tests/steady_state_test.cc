// Decoding builds no graph and calls no allocator once it runs; memory follows what is used, not what is allowed.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/memory.h"
#include "support/tiny_model.h"

namespace {

std::atomic<int64_t> allocations{0};

void* counted(std::size_t bytes) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* at = std::malloc(bytes)) return at;
    throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
    return counted(bytes);
}
void* operator new[](std::size_t bytes) {
    return counted(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    allocations.fetch_add(1, std::memory_order_relaxed);
    return std::malloc(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
    allocations.fetch_add(1, std::memory_order_relaxed);
    return std::malloc(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t align) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* at = std::aligned_alloc(static_cast<std::size_t>(align), (bytes + static_cast<std::size_t>(align) - 1) /
                                                                           static_cast<std::size_t>(align) * static_cast<std::size_t>(align)))
        return at;
    throw std::bad_alloc();
}
void operator delete(void* at) noexcept {
    std::free(at);
}
void operator delete[](void* at) noexcept {
    std::free(at);
}
void operator delete(void* at, std::size_t) noexcept {
    std::free(at);
}
void operator delete[](void* at, std::size_t) noexcept {
    std::free(at);
}
void operator delete(void* at, std::align_val_t) noexcept {
    std::free(at);
}
void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
    std::free(at);
}

namespace cellar {
namespace {

class SteadyState : public testing::TestWithParam<const char*> {};

TEST_P(SteadyState, FiveHundredTokensBuildNoGraphAndAllocateNothing) {
    const auto model = tiny::model(GetParam());
    EngineOptions options = tiny::options();
    options.context = 1024;
    auto engine = tiny::engine(model, options);
    const SeqId seq = *engine->cache().open();
    const std::vector<int32_t> ids = tiny::tokens(*model, 540);
    ASSERT_TRUE(engine->append(seq, std::span<const int32_t>(ids).first(39)));
    ASSERT_TRUE(engine->append(seq, std::span<const int32_t>(ids).subspan(39, 1)));
    const int64_t graphs = engine->graphs_built();
    const int64_t before = allocations.load();
    bool all = true;
    for (size_t i = 40; i < 540; ++i) all = all && engine->append(seq, std::span<const int32_t>(ids).subspan(i, 1)).has_value();
    const int64_t after = allocations.load();
    EXPECT_TRUE(all);
    EXPECT_EQ(engine->graphs_built(), graphs);
    EXPECT_EQ(after, before);
}

INSTANTIATE_TEST_SUITE_P(Models, SteadyState, testing::Values("llama", "olmo2", "llama-moe"), [](const auto& info) {
    std::string out = info.param;
    std::replace(out.begin(), out.end(), '-', '_');
    return out;
});

#if !defined(CELLAR_REDUCED_TESTS)  // sanitizers keep memory of their own
TEST(Memory, AMillionTokensOfContextCostWhatIsUsed) {
    const auto model = tiny::shipped();
    const int64_t before = static_cast<int64_t>(resident_bytes());
    EngineOptions options;
    options.threads = 2;
    options.context = 1000000;
    auto engine = tiny::engine(model, options);
    const SeqId seq = *engine->cache().open();
    ASSERT_TRUE(engine->append(seq, tiny::tokens(*model, 100)));
    for (const kv::GroupStats& group : engine->cache().stats().groups) EXPECT_LE(group.blocks_used, 5);
    // Everything that is not the five blocks: tables, scratch, address space. The workspace of a step does not know the context.
    options.context = 1024;
    const int64_t large = static_cast<int64_t>(resident_bytes()) - before;
    engine.reset();
    const int64_t floor = static_cast<int64_t>(resident_bytes());
    auto small = tiny::engine(model, options);
    const SeqId again = *small->cache().open();
    ASSERT_TRUE(small->append(again, tiny::tokens(*model, 100)));
    const int64_t little = static_cast<int64_t>(resident_bytes()) - floor;
    EXPECT_LT(large - little, int64_t{16} << 20) << large << " against " << little;
}
#endif

}  // namespace
}  // namespace cellar
