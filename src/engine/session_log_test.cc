// Files as somebody may make them: sections that lie within others, named by commits whose checksums are right.
#include "engine/session_log.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace cellar {
namespace {

// Sections of which each lies in the content of the one before, and commits that name some of them.
class NestedFile {
  public:
    explicit NestedFile(size_t depth) {
        add(session_header());
        constexpr size_t kCore = 4096;
        file_.resize(file_.size() + depth * kSectionHeaderBytes + kCore);
        // From the innermost on: the checksum of each covers those within.
        for (size_t i = depth; i-- > 0;) {
            Section section;
            section.kind = SectionKind::Host;
            section.id = i + 1;
            section.offset = kSessionHeaderBytes + i * kSectionHeaderBytes;
            section.length = (depth - 1 - i) * kSectionHeaderBytes + kCore;
            section.checksum = checksum(file_.data() + section.offset + kSectionHeaderBytes, section.length);
            const auto head = section_header(section);
            std::memcpy(file_.data() + section.offset, head.data(), head.size());
            sections_[section.id] = section;
        }
    }
    // The id that stands nowhere is of a section that is not there.
    void commit(const std::vector<uint64_t>& ids) {
        std::map<uint64_t, Section> alive;
        for (const uint64_t id : ids) {
            const auto known = sections_.find(id);
            alive[id] = known != sections_.end() ? known->second : Section{SectionKind::Host, id, 1 << 20, 8, 0};
        }
        const auto content = commit_content(++saves_, alive);
        Section section{SectionKind::Commit, 1000 + saves_, file_.size(), content.size(), checksum(content.data(), content.size())};
        add(section_header(section));
        add(content);
    }
    [[nodiscard]] Result<SessionState> state() const { return find_state(file_, "file", Reading::Whole); }

  private:
    static uint64_t checksum(const std::byte* bytes, size_t n) { return XXH3_64bits(bytes, n); }
    void add(const std::vector<std::byte>& bytes) { file_.insert(file_.end(), bytes.begin(), bytes.end()); }

    std::vector<std::byte> file_;
    std::map<uint64_t, Section> sections_;
    uint64_t saves_ = 0;
};

TEST(SessionLog, AStateWhoseSectionsShareBytesDoesNotCount) {
    for (const auto& [ids, counts] :
         std::vector<std::pair<std::vector<uint64_t>, bool>>{{{1}, true}, {{2}, true}, {{1, 2}, false}, {{1, 3}, false}}) {
        NestedFile file(3);
        file.commit(ids);
        const auto state = file.state();
        EXPECT_EQ(state.has_value(), counts) << ids.size() << " sections, the last " << ids.back();
        if (!state) {
            EXPECT_NE(state.error().message.find("none of its saved states is whole"), std::string::npos) << state.error().message;
        }
    }
    // One before it does.
    NestedFile file(3);
    file.commit({2});
    file.commit({1, 2});
    const auto state = file.state();
    ASSERT_TRUE(state) << state.error().message;
    EXPECT_EQ(state->saves, 1U);
    EXPECT_EQ(state->lost_saves, 1U);
    EXPECT_TRUE(state->alive.contains(2));
}

// Each commit names another of the sections that lie within each other, and one that is not there. Reading nearly the whole file for each of them
// would take the square of its size, so the first state, which is whole, is not reached.
TEST(SessionLog, NoMoreIsReadThanTheFile) {
    constexpr uint64_t kNowhere = 900;
    NestedFile deep(8);
    deep.commit({1});
    for (uint64_t id = 2; id <= 8; ++id) deep.commit({id, kNowhere});
    EXPECT_FALSE(deep.state());
    NestedFile file(8);
    file.commit({1});
    for (int i = 0; i < 8; ++i) file.commit({1, kNowhere});
    const auto state = file.state();
    ASSERT_TRUE(state) << "a section that several states name is read once: " << state.error().message;
    EXPECT_EQ(state->lost_saves, 8U);
}

}  // namespace
}  // namespace cellar
