#include "apps/cells_picture.h"

#include <gtest/gtest.h>

#include "kv/cache.h"
#include "kv/index.h"

namespace cellar::apps {
namespace {

class CellsPicture : public testing::Test {
  protected:
    void SetUp() override {
        kv::CacheSpec spec;
        spec.layers = {{0, 0}};
        spec.groups = {{kv::Keep::all(), 1, {{"k", 1, 32, kv::RowFormat::F16}, {"v", 1, 32, kv::RowFormat::F16}}}};
        kv::CacheLimits limits;
        limits.context = 1024;
        limits.cells = 1024;
        limits.block = 32;
        auto made = kv::Cache::make(std::move(spec), limits);
        ASSERT_TRUE(made) << made.error().message;
        cache_ = *std::move(made);
        main_ = *cache_->open();
    }
    void grow(kv::SeqId seq, int32_t n) {
        std::vector<kv::Token> tokens(static_cast<size_t>(n));
        for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = {1, cache_->length(seq) + i, 0};
        const kv::Append append{seq, tokens};
        kv::Step step;
        ASSERT_TRUE(cache_->begin({&append, 1}, step));
        cache_->commit(step);
    }
    std::string picture(std::vector<PicturedBranch> branches, bool colours = false) { return cells_picture(*cache_, branches, colours); }

    std::unique_ptr<kv::Cache> cache_;
    kv::SeqId main_{};
};

TEST_F(CellsPicture, ShowsWhoHoldsWhatAndWhatIsShared) {
    grow(main_, 70);
    const kv::SeqId other = *cache_->fork(main_, 64);
    grow(main_, 30);
    grow(other, 40);
    const std::string text = picture({{"main", main_, true}, {"other", other, false}});
    EXPECT_NE(text.find("6 in use, 2 of them by several branches, 0 kept alone, 26 free"), std::string::npos) << text;
    EXPECT_NE(text.find("**aabb\n"), std::string::npos) << text;
    EXPECT_NE(text.find("a main      100 tokens < **aa\n"), std::string::npos) << text;
    EXPECT_NE(text.find("b other     104 tokens   **bb\n"), std::string::npos) << text;
}

TEST_F(CellsPicture, ShowsWhatIsTurnedColouredAndGone) {
    grow(main_, 160);
    ASSERT_TRUE(cache_->remove_and_shift(main_, {96, 128}));
    EXPECT_NE(picture({{"main", main_, true}}).find("aaa>\n"), std::string::npos) << picture({{"main", main_, true}});
    cache_->remove(main_, {32, 64});
    EXPECT_NE(picture({{"main", main_, true}}).find("a_~>\n"), std::string::npos) << picture({{"main", main_, true}});
}

TEST_F(CellsPicture, WhatIsKeptForLaterIsTheBranchsAsLongAsItIsThere) {
    grow(main_, 64);
    kv::Index index(*cache_);
    index.keep("root", main_, 64);
    EXPECT_NE(picture({{"main", main_, true}}).find("main      64 tokens < aa\n"), std::string::npos) << picture({{"main", main_, true}});
    EXPECT_NE(picture({}).find("2 in use, 0 of them by several branches, 2 kept alone"), std::string::npos) << picture({});
}

TEST_F(CellsPicture, ColoursRepeatWhatTheCharactersSay) {
    grow(main_, 40);
    const std::string plain = picture({{"a\033b", main_, true}});
    EXPECT_EQ(plain.find('\033'), std::string::npos) << "names are escaped";
    std::string coloured = picture({{"a\033b", main_, true}}, true);
    for (size_t at; (at = coloured.find('\033')) != std::string::npos;) coloured.erase(at, coloured.find('m', at) - at + 1);
    EXPECT_EQ(coloured, plain);
}

TEST_F(CellsPicture, AnEmptyCacheHasAPictureToo) {
    EXPECT_NE(picture({{"main", main_, true}}).find("0 in use"), std::string::npos);
}

}  // namespace
}  // namespace cellar::apps
