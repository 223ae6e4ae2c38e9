// What befalls session files: they are moved, replaced, damaged, cut and made by strangers. Nothing that was saved is lost without a word.
#include <sys/stat.h>

#include <cstring>

#include "base/memory.h"
#include "kv/verify.h"
#include "support/session_files.h"

namespace cellar {
namespace {

namespace fs = std::filesystem;

TEST_F(SessionFiles, OneThatIsDeletedWhileItIsOpenIsWrittenAnew) {
    auto session = open();
    ASSERT_TRUE(save(*session, "one"));
    fs::remove(path_);
    const auto saved = save(*session, "two");
    ASSERT_TRUE(saved) << saved.error().message;
    EXPECT_NE(saved->note.find("deleted or moved"), std::string::npos) << saved->note;
    EXPECT_EQ(saved->tokens_written, 0) << "rows that stood in the file come along";
    EXPECT_EQ(save(*session, "three")->note, "");
    session.reset();
    EXPECT_EQ(look(), "three");
}

TEST_F(SessionFiles, OneThatIsMovedAwayStaysAsItWas) {
    auto session = open();
    ASSERT_TRUE(save(*session, "one"));
    const std::string before = bytes_of(path_);
    fs::rename(path_, path_ + "-moved");
    ASSERT_TRUE(save(*session, "two"));
    EXPECT_EQ(bytes_of(path_ + "-moved"), before);
    session.reset();
    EXPECT_EQ(look(), "two");
}

TEST_F(SessionFiles, OneWhosePlaceWasTakenIsNotWrittenAndTheOtherNeither) {
    auto session = open();
    ASSERT_TRUE(save(*session, "one"));
    fs::rename(path_, path_ + "-moved");
    std::ofstream(path_) << "precious";
    const auto saved = save(*session, "two");
    ASSERT_FALSE(saved);
    EXPECT_NE(saved.error().message.find("another file has taken its place"), std::string::npos) << saved.error().message;
    EXPECT_EQ(bytes_of(path_), "precious");
    // What was opened is still there, and its rows can go elsewhere.
    const SeqId seq = *engine_->cache().open();
    EXPECT_TRUE(session->restore("main", seq));
}

// The lock keeps sessions apart; a shell's redirection knows nothing of it.
TEST_F(SessionFiles, OneThatWasCutOrOverwrittenInPlaceIsNotWritten) {
    for (const bool cut : {true, false}) {
        auto session = open();
        ASSERT_TRUE(save(*session, "one"));
        const auto size = fs::file_size(path_);
        if (cut) {
            fs::resize_file(path_, size / 2);
        } else {
            std::fstream(path_, std::ios::in | std::ios::out).write("precious", 8);
            fs::resize_file(path_, size / 2);
            fs::resize_file(path_, size);
        }
        const std::string before = bytes_of(path_);
        const auto saved = save(*session, "two");
        ASSERT_FALSE(saved);
        EXPECT_NE(saved.error().message.find("another program has changed it"), std::string::npos) << saved.error().message;
        EXPECT_EQ(bytes_of(path_), before);
        EXPECT_FALSE(session->file().rewrite());
        EXPECT_EQ(bytes_of(path_), before);
        session.reset();
        fs::remove(path_);
    }
}

// Where only the end is as it was, what is written anew would carry the damage along as if it were whole.
TEST_F(SessionFiles, WhatWasChangedInPlaceIsNotCopied) {
    auto session = open();
    ASSERT_TRUE(save(*session, "one"));
    {
        std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(fs::file_size(path_) / 2));
        file.write("precious", 8);
    }
    const std::string before = bytes_of(path_);
    const auto written = session->file().rewrite();
    ASSERT_FALSE(written);
    EXPECT_NE(written.error().message.find("another program has changed"), std::string::npos) << written.error().message;
    EXPECT_EQ(bytes_of(path_), before);
    EXPECT_EQ(files(), (std::vector<std::string>{"s"}));
}

TEST_F(SessionFiles, OneThatCannotBeMadeIsRefusedBeforeTheFirstTurn) {
    path_ = folder_ / "no" / "such" / "folder";
    EXPECT_NE(refusal().find("there is no folder"), std::string::npos) << refusal();
}

TEST_F(SessionFiles, ASaveThatDidNotEndIsNoDamage) {
    ASSERT_TRUE(save(*open(), "one"));
    {
        auto session = open();
        int calls = 0;
        session->file().set_fault_hook([&](size_t) { return ++calls == 5 ? Fault{3, EIO} : Fault{}; });
        ASSERT_FALSE(save(*session, "two"));
    }
    auto session = open();
    EXPECT_GT(session->file().unread_bytes(), 0U);
    EXPECT_EQ(session->file().lost_saves(), 0U);
    EXPECT_EQ(session->find("main")->host, "one");
    ASSERT_TRUE(save(*session, "three"));
    EXPECT_EQ(files(), (std::vector<std::string>{"s"}));
}

TEST_F(SessionFiles, ADamagedLastSaveIsSaidAndKeptUnderAnotherName) {
    {
        auto session = open();
        ASSERT_TRUE(save(*session, "one"));
        ASSERT_TRUE(save(*session, "two"));
        damage(sections(*session, SectionKind::Host).front().offset + kSectionHeaderBytes);
    }
    const std::string damaged = bytes_of(path_);
    auto session = open();
    ASSERT_NE(session, nullptr);
    EXPECT_EQ(session->file().lost_saves(), 1U);
    EXPECT_EQ(session->find("main")->host, "one");
    EXPECT_EQ(bytes_of(path_), damaged) << "nothing is written before somebody saves";
    const auto saved = save(*session, "three");
    ASSERT_TRUE(saved) << saved.error().message;
    EXPECT_NE(saved->note.find(path_ + ".damaged"), std::string::npos) << saved->note;
    EXPECT_EQ(bytes_of(path_ + ".damaged"), damaged);
    EXPECT_EQ(save(*session, "four")->note, "");
    session.reset();
    EXPECT_EQ(look(), "four");
    EXPECT_EQ(files(), (std::vector<std::string>{"s", "s.damaged"}));
}

TEST_F(SessionFiles, DamageInWhatIsDeadCostsNothing) {
    uint64_t at = 0;
    {
        auto session = open();
        ASSERT_TRUE(save(*session, "one"));
        at = sections(*session, SectionKind::Host).front().offset;
        ASSERT_TRUE(save(*session, "two"));
    }
    for (const uint64_t where : {at + 16, at + kSectionHeaderBytes}) {
        const std::string good = bytes_of(path_);
        damage(where);
        auto session = open();
        ASSERT_NE(session, nullptr);
        EXPECT_EQ(session->find("main")->host, "two");
        EXPECT_EQ(session->file().lost_saves(), 0U);
        session.reset();
        std::ofstream(path_, std::ios::binary) << good;
    }
}

TEST_F(SessionFiles, TheLongestValidPrefixIsTakenOnRequest) {
    uint64_t second = 0;
    {
        auto session = open();
        ASSERT_TRUE(save(*session, "one"));
        ASSERT_TRUE(engine_->append(seq_, tiny::tokens(*model_, 40, 2)));
        ASSERT_TRUE(save(*session, "two"));
        second = sections(*session, SectionKind::Piece).back().offset + kSectionHeaderBytes + 64;
        ASSERT_EQ(sections(*session, SectionKind::Piece).size(), 2U);
    }
    damage(second);
    const std::string damaged = bytes_of(path_);
    // Without asking for it: the older state, whole.
    EXPECT_EQ(look(), "one");
    auto session = open(Reading::Prefix);
    ASSERT_NE(session, nullptr);
    EXPECT_EQ(session->file().lost_pieces(), 1U);
    EXPECT_EQ(session->find("main")->host, "two");
    EXPECT_EQ(session->find("main")->length, 100);
    EXPECT_EQ(session->find("main")->held, 60);
    const SeqId seq = *engine_->cache().open();
    const auto restored = session->restore("main", seq);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(restored->length, 60);
    EXPECT_EQ(engine_->cache().pure(seq), 60);
    EXPECT_EQ(kv::verify(engine_->cache()), "");
    // Saving goes on, and the damaged file is kept.
    ASSERT_TRUE(save(*session, "three"));
    EXPECT_EQ(bytes_of(path_ + ".damaged"), damaged);
    session.reset();
    EXPECT_EQ(look(), "three");
}

TEST_F(SessionFiles, APrefixIsAlsoWhatASmallerContextHolds) {
    ASSERT_TRUE(save(*open(), "one"));
    EngineOptions options = options_;
    options.context = 32;
    options.cells = 0;
    auto small = tiny::engine(model_, options);
    const SeqId seq = *small->cache().open();
    const auto refused = open_with(*small)->restore("main", seq);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("--session-prefix"), std::string::npos) << refused.error().message;
    const auto restored = open_with(*small, Reading::Prefix)->restore("main", seq);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(restored->length, 32);
    EXPECT_EQ(kv::verify(small->cache()), "");
}

TEST_F(SessionFiles, LinksAreFollowedOnlyIfTheyBelongToTheUser) {
    ASSERT_TRUE(save(*open(), "one"));
    const std::string link = path_ + "-link";
    fs::create_symlink(path_, link);
    if (geteuid() == 0) {
        EXPECT_TRUE(Session::open(link, *engine_));
        ASSERT_EQ(lchown(link.c_str(), 65534, 65534), 0);
        path_ = link;
    } else {
        EXPECT_TRUE(Session::open(link, *engine_));
        path_ = "/proc/1/exe";  // a link of the system's
    }
    EXPECT_NE(refusal().find("belongs to another user"), std::string::npos) << refusal();
}

// Rights that do not hold for this process while it is not root.
class AsNobody {
  public:
    AsNobody() : root_(geteuid() == 0) {
        if (root_) {
            EXPECT_EQ(seteuid(65534), 0);
        }
    }
    ~AsNobody() {
        if (root_) {
            EXPECT_EQ(seteuid(0), 0);
        }
    }
    AsNobody(const AsNobody&) = delete;
    AsNobody& operator=(const AsNobody&) = delete;

  private:
    bool root_;
};

TEST_F(SessionFiles, OneThatMayOnlyBeReadCanBeRead) {
    ASSERT_TRUE(save(*open(), "one"));
    // Where everybody may look.
    const fs::path shared = fs::temp_directory_path() / ("cellar-read-" + std::to_string(getpid()));
    fs::create_directory(shared);
    fs::permissions(shared, fs::perms(0755));
    fs::copy(folder_, shared / "here");
    fs::remove_all(folder_);
    folder_ = shared;
    path_ = shared / "here" / "s";
    const std::string leftover = path_ + ".cellar-unfinished-abcdef";
    std::ofstream(leftover).flush();
    fs::permissions(path_, fs::perms(0444));
    const auto before = fs::last_write_time(path_);
    {
        const AsNobody nobody;
        EXPECT_FALSE(SessionFile::open(path_));
        auto file = SessionFile::open(path_, Reading::Whole, Access::Read);
        ASSERT_TRUE(file) << file.error().message;
        EXPECT_EQ(read_directory(**file)->branches.size(), 1U);
        const auto another = SessionFile::open(path_, Reading::Prefix, Access::Read);
        EXPECT_TRUE(another) << "readers do not get in each other's way";
        const auto rewritten = (*file)->rewrite();
        ASSERT_FALSE(rewritten);
        EXPECT_NE(rewritten.error().message.find("read only"), std::string::npos) << rewritten.error().message;
        auto changes = (*file)->begin();
        EXPECT_FALSE(changes.add(SectionKind::Host, std::span<const std::byte>()));
    }
    EXPECT_EQ(fs::last_write_time(path_), before);
    EXPECT_TRUE(fs::exists(leftover)) << "a reader tidies nothing up";
    fs::permissions(path_, fs::perms(0600));
    const auto reader = SessionFile::open(path_, Reading::Whole, Access::Read);
    ASSERT_TRUE(reader);
    EXPECT_FALSE(SessionFile::open(path_)) << "nobody writes what is being read";
    EXPECT_FALSE(SessionFile::open(path_ + "-none", Reading::Whole, Access::Read)) << "what is not there cannot be read";
}

TEST_F(SessionFiles, OneThatIsWrittenIsNotRead) {
    const auto session = open();
    ASSERT_TRUE(save(*session, "one"));
    const auto reader = SessionFile::open(path_, Reading::Whole, Access::Read);
    ASSERT_FALSE(reader);
    EXPECT_NE(reader.error().message.find("another process has this session open"), std::string::npos) << reader.error().message;
}

TEST_F(SessionFiles, OneThatIsCutWhileItIsReadEndsWithAMessage) {
    EXPECT_TRUE(engine_->append(seq_, tiny::tokens(*model_, 400, 3)));
    ASSERT_TRUE(save(*open(), "one"));
    EXPECT_EXIT(
        {
            auto session = open();
            if (truncate(path_.c_str(), 20000) != 0) _exit(1);
            (void)session->restore("main", *engine_->cache().open());
            _exit(2);
        },
        testing::ExitedWithCode(kExitFileLost), "cellar: .*/s: the file became shorter");
}

TEST_F(SessionFiles, ABranchSharesItsCellsWithOpenOnes) {
    auto session = open();
    const SeqId fork = *engine_->cache().fork(seq_, 60);
    ASSERT_TRUE(engine_->append(seq_, tiny::tokens(*model_, 50, 2)));
    ASSERT_TRUE(engine_->append(fork, tiny::tokens(*model_, 30, 3)));
    const std::vector<Session::Source> sources{{"one", seq_, ""}, {"two", fork, ""}};
    ASSERT_TRUE(session->save(sources));
    session.reset();
    for (const kv::RowFormat format : {kv::RowFormat::F16, kv::RowFormat::Q8_0}) {
        EngineOptions options = options_;
        options.formats = {format, format};
        auto engine = tiny::engine(model_, options);
        session = open_with(*engine);
        const auto one = session->restore_beside("one", {});
        ASSERT_TRUE(one) << one.error().message;
        const size_t alone = engine->cache().ledger_bytes();
        const Session::OpenBranch beside{"one", one->seq};
        const auto two = session->restore_beside("two", {&beside, 1});
        ASSERT_TRUE(two) << two.error().message;
        EXPECT_EQ(two->length, 90);
        EXPECT_EQ(two->shared, 60);
        EXPECT_EQ(kv::verify(engine->cache()), "");
        engine->index().clear();  // which has the same cells
        EXPECT_EQ(engine->cache().stats().groups[0].blocks_shared, 2);
        EXPECT_EQ(engine->cache().stats().groups[0].blocks_used, 5) << "110 tokens in 4 blocks, and 30 more in 1";
        EXPECT_GT(engine->cache().ledger_bytes(), alone);
        // Both are what they are without sharing.
        const SeqId again = *engine->cache().open();
        ASSERT_TRUE(session->restore("two", again));
        const std::vector<int32_t> next{7};
        const auto a = *engine->append(two->seq, next);
        const std::vector<float> shared(a.begin(), a.end());
        const auto b = *engine->append(again, next);
        EXPECT_EQ(std::memcmp(shared.data(), b.data(), shared.size() * sizeof(float)), 0);
        session.reset();
    }
}

// A branch that went on differently shares only what it still has.
TEST_F(SessionFiles, SharingStopsWhereTheOpenBranchChanged) {
    auto session = open();
    const SeqId fork = *engine_->cache().fork(seq_, 60);
    ASSERT_TRUE(engine_->append(seq_, tiny::tokens(*model_, 50, 2)));
    const std::vector<Session::Source> sources{{"one", seq_, ""}, {"two", fork, ""}};
    ASSERT_TRUE(session->save(sources));
    engine_->cache().trim(seq_, 20);
    ASSERT_TRUE(engine_->append(seq_, tiny::tokens(*model_, 50, 5)));
    const Session::OpenBranch trimmed{"one", seq_};
    const auto two = session->restore_beside("two", {&trimmed, 1});
    ASSERT_TRUE(two) << two.error().message;
    EXPECT_EQ(two->shared, 20);
    engine_->cache().remove(seq_, {10, 12});
    const auto three = session->restore_beside("two", {&trimmed, 1});
    ASSERT_TRUE(three);
    EXPECT_EQ(three->shared, 10);
    EXPECT_EQ(engine_->cache().pure(three->seq), 60);
    EXPECT_EQ(kv::verify(engine_->cache()), "");
}

// Many branches over one piece cost what the file holds, not branches times tokens.
TEST_F(SessionFiles, ManyBranchesOverOnePieceTakeLittleMemory) {
    options_.context = 8192;
    options_.cells = 0;
    engine_ = tiny::engine(model_, options_);
    seq_ = *engine_->cache().open();
    ASSERT_TRUE(engine_->append(seq_, tiny::tokens(*model_, 8000)));
    ASSERT_TRUE(save(*open(), "one"));
    constexpr int kBranches = 20000;
    {
        auto made = SessionFile::open(path_);
        ASSERT_TRUE(made);
        SessionFile& file = **made;
        SessionDirectory directory = *read_directory(file);
        std::vector<uint64_t> alive;
        for (const auto& [id, section] : file.sections())
            if (section.kind == SectionKind::Model || section.kind == SectionKind::Piece) alive.push_back(id);
        SessionFile::Save save = file.begin();
        std::vector<SessionBranch> branches(kBranches, directory.branches.front());
        for (int i = 0; i < kBranches; ++i) {
            const auto host = save.add(SectionKind::Host, std::span<const std::byte>());
            ASSERT_TRUE(host);
            branches[static_cast<size_t>(i)].host = *host;
            branches[static_cast<size_t>(i)].name = std::to_string(i);
            alive.push_back(*host);
        }
        const auto list = save.add(SectionKind::Branches, branches_content(branches));
        ASSERT_TRUE(list);
        alive.push_back(*list);
        ASSERT_TRUE(save.commit(alive));
    }
    const uint64_t size = fs::file_size(path_);
    const uint64_t before = resident_bytes();
    auto session = open();
    ASSERT_NE(session, nullptr);
    EXPECT_EQ(session->branches().size(), static_cast<size_t>(kBranches));
    EXPECT_LE(resident_bytes(), before + 12 * size + (uint64_t{16} << 20));
}

TEST_F(SessionFiles, BranchesThatShareTheirHostStateOrTheirNameAreRefused) {
    ASSERT_TRUE(save(*open(), "one"));
    const std::string good = bytes_of(path_);
    for (const bool same_name : {false, true}) {
        std::ofstream(path_, std::ios::binary) << good;
        {
            auto file = *SessionFile::open(path_);
            SessionDirectory directory = *read_directory(*file);
            std::vector<uint64_t> alive;
            for (const auto& [id, section] : file->sections())
                if (section.kind != SectionKind::Branches) alive.push_back(id);
            SessionFile::Save save = file->begin();
            directory.branches.push_back(directory.branches.front());
            if (same_name) {
                directory.branches.back().host = *save.add(SectionKind::Host, std::span<const std::byte>());
                alive.push_back(directory.branches.back().host);
            } else {
                directory.branches.back().name = "two";
            }
            alive.push_back(*save.add(SectionKind::Branches, branches_content(directory.branches)));
            ASSERT_TRUE(save.commit(alive));
        }
        EXPECT_NE(refusal().find(same_name ? "two branches 'main'" : "the host state of another"), std::string::npos) << refusal();
    }
}

TEST_F(SessionFiles, TheNumericPathIsRecorded) {
    ASSERT_TRUE(save(*open(), "one"));
    EXPECT_EQ(open()->find("main")->numbers, ops::cpu_target());
    model::LoadOptions load;
    load.pack = false;
    EngineOptions options = options_;
    options.reference_kernels = true;
    auto other = tiny::engine(model_, options);
    auto session = open_with(*other);
    const auto restored = session->restore_beside("main", {});
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_TRUE(restored->other_numbers);
    EXPECT_FALSE(restored->converted);
    EXPECT_EQ(other->cache().pure(restored->seq), 0);
    // Saved there it is written as it is: the rows of another path do not become this one's by standing in the file.
    const Session::Source source{"main", restored->seq, "two"};
    const auto saved = session->save({&source, 1});
    ASSERT_TRUE(saved);
    EXPECT_EQ(saved->tokens_written, 0);
    EXPECT_EQ(session->find("main")->pure, 0);
    other->cache().trim(restored->seq, 0);
    ASSERT_TRUE(other->append(restored->seq, tiny::tokens(*model_, 60)));
    EXPECT_EQ(session->save({&source, 1})->tokens_written, 60) << "the same tokens, but rows of the own path";
    EXPECT_EQ(session->find("main")->pure, 60);
}

TEST_F(SessionFiles, AnotherVersionIsRefusedByName) {
    ASSERT_TRUE(save(*open(), "one"));
    std::string bytes = bytes_of(path_);
    bytes[8] = 2;
    std::ofstream(path_, std::ios::binary) << bytes;
    EXPECT_NE(refusal().find("a session file of version 2, this program reads version 1"), std::string::npos) << refusal();
    EXPECT_EQ(bytes_of(path_), bytes);
}

TEST_F(SessionFiles, AnotherRopeRegimeIsRefusedByName) {
    model_ = tiny::model("phi3");
    const auto engine_for = [&](int64_t context) {
        EngineOptions options = options_;
        options.context = context;
        return tiny::engine(model_, options);
    };
    engine_ = engine_for(200);
    seq_ = *engine_->cache().open();
    ASSERT_TRUE(engine_->append(seq_, tiny::tokens(*model_, 30)));
    ASSERT_TRUE(save(*open(), "one"));
    engine_ = engine_for(250);
    EXPECT_EQ(look(), "one");
    engine_ = engine_for(512);
    EXPECT_NE(refusal().find("rope.0 is"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace cellar
