// Session files that take the place of others: first saves that were killed, files that are written anew, and what is pruned of them.
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fcntl.h>

#include <csignal>

#include "support/session_files.h"

namespace cellar {
namespace {

namespace fs = std::filesystem;

// Names as a save gives them, of six letters, and as somebody may give his own files.
TEST_F(SessionFiles, WhatAKilledFirstSaveLeftIsRemovedUnlessItIsInUse) {
    const std::string left = path_ + ".cellar-unfinished-";
    const auto head = session_header();
    const std::string begun(reinterpret_cast<const char*>(head.data()), head.size());
    std::ofstream(left + "abcdef") << begun << "and more";
    std::ofstream(left + "empty1");
    std::ofstream(left + "abc") << begun;
    std::ofstream(left + "backup") << "somebody else's";
    std::ofstream(path_ + ".new-backup") << begun;
    std::ofstream(left + "locked") << begun;
    const int fd = ::open((left + "locked").c_str(), O_RDWR);
    ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
    auto session = open();
    EXPECT_EQ(files(),
              (std::vector<std::string>{"s.cellar-unfinished-abc", "s.cellar-unfinished-backup", "s.cellar-unfinished-locked", "s.new-backup"}));
    ::close(fd);
    ASSERT_TRUE(save(*session, "one"));
    session.reset();
    session = open();
    EXPECT_EQ(files(), (std::vector<std::string>{"s", "s.cellar-unfinished-abc", "s.cellar-unfinished-backup", "s.new-backup"}));
}

// A save that was killed leaves what the next one removes.
TEST_F(SessionFiles, AKilledFirstSaveLeavesNothingForLong) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto file = *SessionFile::open(path_);
        SessionFile::Save save = file->begin();
        (void)save.add(SectionKind::Host, std::span<const std::byte>());
        kill(getpid(), SIGKILL);
    }
    waitpid(child, nullptr, 0);
    EXPECT_EQ(files().size(), 1U);
    open();
    EXPECT_EQ(files(), std::vector<std::string>());
}

// Whoever may read a session may also read it after it was written anew.
TEST_F(SessionFiles, ARewriteKeepsWhoMayReadIt) {
    auto session = open();
    ASSERT_TRUE(save(*session, "one"));
    struct stat info {};
    ASSERT_EQ(stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600U);
    for (const mode_t mode : {0640U, 0664U, 0600U}) {
        ASSERT_EQ(chmod(path_.c_str(), mode), 0);
        const bool may_give = geteuid() == 0 && chown(path_.c_str(), 65534, 65534) == 0;
        const ino_t before = info.st_ino;
        ASSERT_TRUE(session->file().rewrite());
        ASSERT_EQ(stat(path_.c_str(), &info), 0);
        EXPECT_NE(info.st_ino, before);
        EXPECT_EQ(info.st_mode & 07777, mode);
        if (may_give) {
            EXPECT_EQ(info.st_uid, 65534U);
            EXPECT_EQ(info.st_gid, 65534U);
        }
    }
}

// Whatever fails while a file is written anew, what was open goes on: the old file, read where it lies.
TEST_F(SessionFiles, ARewriteThatFailsAnywhereChangesNothing) {
    auto session = open();
    ASSERT_TRUE(save(*session, "one"));
    ASSERT_TRUE(engine_->append(seq_, tiny::tokens(*model_, 40, 2)));
    ASSERT_TRUE(save(*session, "two"));
    const std::string before = bytes_of(path_);
    for (int failing = 1;; ++failing) {
        int call = 0;
        session->file().set_fault_hook([&](size_t) { return ++call == failing ? Fault{SIZE_MAX, EIO} : Fault{}; });
        const bool rewritten = session->file().rewrite().has_value();
        session->file().set_fault_hook({});
        if (rewritten) {
            EXPECT_GT(failing, 6);
            break;
        }
        EXPECT_EQ(bytes_of(path_), before);
        EXPECT_EQ(files(), std::vector<std::string>{"s"});
        const SeqId seq = *engine_->cache().open();
        const auto restored = session->restore("main", seq);
        ASSERT_TRUE(restored) << restored.error().message << " behind call " << failing;
        EXPECT_EQ(restored->length, 100);
        engine_->cache().close(seq);
    }
    EXPECT_LT(fs::file_size(path_), before.size());
    ASSERT_TRUE(save(*session, "three"));
    session.reset();
    EXPECT_EQ(look(), "three");
}

// Rows in f32, so that the file is mostly rows: what changes a lot is written anew before it has grown by more than 15 %.
TEST_F(SessionFiles, OneThatGrowsAndChangesStaysSmall) {
    constexpr int32_t kTokens = 1000;
    options_.formats = {kv::RowFormat::F32, kv::RowFormat::F32};
    options_.context = 1024;
    engine_ = tiny::engine(model_, options_);
    seq_ = *engine_->cache().open();
    ASSERT_TRUE(engine_->append(seq_, tiny::tokens(*model_, kTokens)));
    auto session = open();
    ASSERT_TRUE(save(*session, "one"));
    const uint64_t rows = kTokens * engine_->cache().spec().bytes_per_token();
    ASSERT_GT(rows, uint64_t{800} << 10) << "else the limit for small files is what is tested";
    EXPECT_LE(fs::file_size(path_), rows + rows / 50 + (64 << 10));
    bool rewritten = false;
    for (int i = 0; i < 40; ++i) {
        const int32_t keep = 100 + i * 137 % 880;
        engine_->cache().trim(seq_, keep);
        ASSERT_TRUE(engine_->append(seq_, tiny::tokens(*model_, static_cast<size_t>(kTokens - keep), static_cast<uint64_t>(i) + 9)));
        const auto saved = save(*session, "more");
        ASSERT_TRUE(saved) << saved.error().message;
        rewritten = rewritten || saved->rewritten;
        EXPECT_LE(session->file().dead_bytes(), session->file().file_bytes() / 8);
        EXPECT_LE(fs::file_size(path_), rows * 115 / 100 + (64 << 10)) << "save " << i;
    }
    EXPECT_TRUE(rewritten);
}

TEST_F(SessionFiles, PruningForgetsBranchesAndWhatIsDead) {
    const SeqId fork = *engine_->cache().fork(seq_, 60);
    ASSERT_TRUE(engine_->append(fork, tiny::tokens(*model_, 100, 3)));
    auto session = open();
    const std::vector<Session::Source> sources{{"one", seq_, "1"}, {"two", fork, "2"}};
    ASSERT_TRUE(session->save(sources));
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(session->save(sources));
    session.reset();
    const uint64_t before = fs::file_size(path_);
    {
        auto file = *SessionFile::open(path_);
        const std::string nobody = "nobody";
        EXPECT_FALSE(prune(*file, {&nobody, 1}));
        ASSERT_TRUE(prune(*file, {}));
        EXPECT_EQ(file->dead_bytes(), 0U);
    }
    EXPECT_EQ(open()->branches().size(), 2U);
    EXPECT_LT(fs::file_size(path_), before);
    const uint64_t both = fs::file_size(path_);
    {
        auto file = *SessionFile::open(path_);
        const std::string two = "two";
        ASSERT_TRUE(prune(*file, {&two, 1}));
        const std::string one = "one";
        EXPECT_FALSE(prune(*file, {&one, 1})) << "no branch would be left";
    }
    EXPECT_LT(fs::file_size(path_), both / 2);
    session = open();
    ASSERT_EQ(session->branches().size(), 1U);
    EXPECT_EQ(session->branches()[0].host, "1");
    EXPECT_EQ(session->restore_beside("one", {})->length, 60);
}

}  // namespace
}  // namespace cellar
