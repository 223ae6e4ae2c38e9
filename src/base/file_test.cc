#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace cellar {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class FileTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string form = (fs::temp_directory_path() / "cellar-file-XXXXXX").string();
        ASSERT_NE(::mkdtemp(form.data()), nullptr);
        folder_ = form;
    }
    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
    std::string make(const std::string& name, const std::string& text) const {
        std::ofstream(path(name), std::ios::binary) << text;
        return path(name);
    }
    // Files left in the folder, to see that no temporary one stays behind.
    [[nodiscard]] size_t entries() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator())); }

    std::string folder_;
};

template <class T>
std::string message(const Result<T>& result) {
    return result ? "no error" : result.error().message;
}

#define EXPECT_SAYS(result, words) EXPECT_NE(message(result).find(words), std::string::npos) << message(result)

TEST_F(FileTest, MapsWhatIsThere) {
    const std::string text(100'000, 'x');
    auto map = MappedFile::open(make("a", text + "end"));
    ASSERT_TRUE(map) << message(map);
    EXPECT_EQ(map->size(), text.size() + 3);
    EXPECT_EQ(map->path(), path("a"));
    EXPECT_EQ(text_of(map->bytes()), text + "end");

    const std::byte* data = map->bytes().data();
    MappedFile moved = std::move(*map);
    EXPECT_EQ(moved.bytes().data(), data);
    auto other = MappedFile::open(make("b", "other"));
    ASSERT_TRUE(other);
    moved = std::move(*other);
    EXPECT_EQ(text_of(moved.bytes()), "other");
}

TEST_F(FileTest, DroppedPagesComeBackFromTheFile) {
    std::string text(1 << 20, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 4096);
    const auto map = MappedFile::open(make("a", text));
    ASSERT_TRUE(map);
    EXPECT_EQ(text_of(map->bytes()), text);
    const auto resident = [&] {
        std::ifstream smaps("/proc/self/smaps");
        const std::string name = path("a");
        for (std::string line; std::getline(smaps, line);) {
            if (line.find(name) == std::string::npos) continue;
            while (std::getline(smaps, line)) {
                if (line.rfind("Rss:", 0) == 0) return std::stol(line.substr(4));
            }
        }
        return -1L;
    };
    const long before = resident();
    map->drop(map->bytes().subspan(100'000, 800'000));
    const long after = resident();
    if (before >= 0) {
        EXPECT_LE(after, before - 780) << "kB";
    }
    EXPECT_EQ(text_of(map->bytes()), text);
    // Ranges that are not inside the map are cut to it.
    const std::string elsewhere(10'000, 'e');
    map->drop(bytes_of(elsewhere));
    map->drop({map->bytes().data() + map->size() - 10, 100});
    map->drop({});
    EXPECT_EQ(elsewhere, std::string(10'000, 'e'));
    EXPECT_EQ(text_of(map->bytes()), text);
}

TEST_F(FileTest, SaysWhyItCannotMap) {
    EXPECT_SAYS(MappedFile::open(path("none")), "no such file");
    EXPECT_SAYS(MappedFile::open(path("none")), path("none"));
    EXPECT_SAYS(MappedFile::open(folder_), "is a folder");
    EXPECT_SAYS(MappedFile::open(make("empty", "")), "is empty");
    EXPECT_SAYS(MappedFile::open(""), "empty");
    EXPECT_SAYS(MappedFile::open("/dev/null"), "not a regular file");
    EXPECT_SAYS(MappedFile::open(make("a", "x") + "/b"), "not a folder");
    EXPECT_SAYS(MappedFile::open(path("a") + std::string("\0b", 2)), "zero byte");
    EXPECT_SAYS(MappedFile::open(path("two\nlines")), "two\\nlines");
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    EXPECT_SAYS(MappedFile::open(path("pipe")), "not a regular file");
}

TEST_F(FileTest, SaysThatPermissionIsMissing) {
    const std::string file = make("secret", "x");
    ASSERT_EQ(::chmod(file.c_str(), 0), 0);
    ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
    // Root may read everything, so a child becomes somebody else.
    EXPECT_EXIT(
        {
            if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(3);
            const auto map = MappedFile::open(file);
            const auto text = read_file(file, 10);
            const auto written = write_file_atomically(file, bytes_of("y"));
            if (message(map).find("no permission to read") == std::string::npos) ::_exit(4);
            if (message(text).find("no permission to read") == std::string::npos) ::_exit(5);
            if (::geteuid() == 65534 && message(written).find("no permission to write") == std::string::npos) ::_exit(6);
            ::_exit(0);
        },
        testing::ExitedWithCode(0), "");
}

using FileDeathTest = FileTest;

TEST_F(FileDeathTest, AFileThatShrinksWhileMappedEndsWithItsName) {
    testing::FLAGS_gtest_death_test_style = "fast";
    const std::string file = make("shrinks", std::string(100'000, 'x'));
    EXPECT_EXIT(
        {
            const auto other = MappedFile::open(make("other", "y"));
            auto first = MappedFile::open(file);
            const MappedFile map = std::move(*first);
            if (::truncate(file.c_str(), 10) != 0) ::_exit(3);
            unsigned sum = 0;
            for (const std::byte b : map.bytes()) sum += std::to_integer<unsigned>(b);
            ::_exit(sum == 0 ? 4 : 5);
        },
        testing::ExitedWithCode(kExitFileLost), "cellar: " + file + ": the file became shorter");
}

TEST_F(FileDeathTest, AThreadMayMeetTheMissingPart) {
    testing::FLAGS_gtest_death_test_style = "fast";
    const std::string file = make("shrinks", std::string(100'000, 'x'));
    EXPECT_EXIT(
        {
            const auto map = MappedFile::open(file);
            if (::truncate(file.c_str(), 10) != 0) ::_exit(3);
            std::thread([&] { ::_exit(std::to_integer<int>(map->bytes()[50'000])); }).join();
        },
        testing::ExitedWithCode(kExitFileLost), file);
}

// Faults that are not ours go to the handler that was there first.
TEST_F(FileDeathTest, OtherFaultsGoOnToTheHandlerBefore) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            ::signal(SIGBUS, [](int) { ::_exit(7); });
            const std::string file = make("foreign", std::string(100'000, 'x'));
            { const auto closed = MappedFile::open(file); }
            const auto mine = MappedFile::open(make("mine", "y"));
            const int fd = ::open(file.c_str(), O_RDONLY);
            const auto* foreign = static_cast<const volatile char*>(::mmap(nullptr, 100'000, PROT_READ, MAP_SHARED, fd, 0));
            if (::truncate(file.c_str(), 10) != 0) ::_exit(3);
            ::_exit(foreign[50'000] == 'x' ? 4 : 5);
        },
        testing::ExitedWithCode(7), "");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(FileDeathTest, ASentSignalStillKills) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            const auto mine = MappedFile::open(make("mine", "y"));
            ::kill(::getpid(), SIGBUS);
            ::_exit(4);
        },
        testing::KilledBySignal(SIGBUS), "");
}
#endif

TEST_F(FileTest, ReadsWholeFiles) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{65535}, size_t{65536}, size_t{300'000}}) {
        std::string text(size, '\0');
        for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31);
        const auto read = read_file(make("a", text), size);
        ASSERT_TRUE(read) << message(read);
        EXPECT_EQ(*read, text);
        if (size > 0) {
            EXPECT_SAYS(read_file(path("a"), size - 1), std::to_string(size));
        }
    }
    EXPECT_SAYS(read_file(path("none"), 10), "no such file");
    EXPECT_SAYS(read_file(folder_, 10), "is a folder");
    EXPECT_SAYS(read_file("/dev/zero", 1000), "more than the 1000 bytes");
}

TEST_F(FileTest, ReadsAPipeToItsEnd) {
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    const std::string text(200'000, 'p');
    std::thread writer([&] { std::ofstream(path("pipe"), std::ios::binary) << text; });
    const auto read = read_file(path("pipe"), 1 << 20);
    writer.join();
    ASSERT_TRUE(read) << message(read);
    EXPECT_EQ(*read, text);
}

TEST_F(FileTest, ReadsWhatIsOpenFromWhereItStands) {
    const int file = ::open(make("a", "one two").c_str(), O_RDONLY);
    ASSERT_EQ(::lseek(file, 4, SEEK_SET), 4);
    EXPECT_EQ(read_descriptor(file, "the input", 100).value(), "two");
    EXPECT_EQ(read_descriptor(file, "the input", 100).value(), "") << "nothing is left";
    EXPECT_SAYS(read_descriptor(file, "the input", 6), "the input: has 7 bytes, at most 6");
    ::close(file);
    EXPECT_SAYS(read_descriptor(file, "the input", 100), "the input: cannot read it: Bad file descriptor");
    const int folder = ::open(folder_.c_str(), O_RDONLY);
    EXPECT_SAYS(read_descriptor(folder, "the input", 100), "the input: is a folder, not a file");
    ::close(folder);
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::write(ends[1], "piped", 5), 5);
    ::close(ends[1]);
    EXPECT_EQ(read_descriptor(ends[0], "the input", 5).value(), "piped");
    ::close(ends[0]);
}

TEST_F(FileTest, WritesAtomically) {
    ASSERT_TRUE(write_file_atomically(path("a"), bytes_of("one")));
    EXPECT_EQ(read_file(path("a"), 100).value(), "one");
    ASSERT_TRUE(write_file_atomically(path("a"), bytes_of("two"), FileMode::Private));
    EXPECT_EQ(read_file(path("a"), 100).value(), "two");
    struct stat status {};
    ASSERT_EQ(::stat(path("a").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    ASSERT_TRUE(write_file_atomically(path("empty"), {}));
    EXPECT_EQ(read_file(path("empty"), 100).value(), "");
    EXPECT_EQ(entries(), 2U);
}

TEST_F(FileTest, NothingChangesWithoutCommit) {
    make("a", "old");
    {
        auto file = AtomicFile::create(path("a"));
        ASSERT_TRUE(file);
        ASSERT_TRUE(file->write(bytes_of("new ")));
        AtomicFile moved = std::move(*file);
        ASSERT_TRUE(moved.write(bytes_of("text")));
        EXPECT_EQ(read_file(path("a"), 100).value(), "old");
        EXPECT_EQ(entries(), 2U);
    }
    EXPECT_EQ(read_file(path("a"), 100).value(), "old");
    EXPECT_EQ(entries(), 1U);
    auto file = AtomicFile::create(path("a"));
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(bytes_of("new ")));
    ASSERT_TRUE(file->write(bytes_of("text")));
    ASSERT_TRUE(file->commit());
    EXPECT_EQ(read_file(path("a"), 100).value(), "new text");
    EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, SaysWhyItCannotWrite) {
    EXPECT_SAYS(write_file_atomically(path("none/a"), bytes_of("x")), "there is no folder");
    EXPECT_SAYS(write_file_atomically(folder_, bytes_of("x")), "not a regular file");
    EXPECT_SAYS(write_file_atomically("", bytes_of("x")), "empty");
    EXPECT_EQ(entries(), 0U);
    if (fs::exists("/dev/full")) {
        EXPECT_SAYS(write_file_atomically("/dev/full", bytes_of("x")), "not a regular file");
    }
}

TEST_F(FileTest, RenamesOnlyToANameThatIsFree) {
    for (const auto rename : {rename_to_free_name, rename_by_link}) {
        make("a", "first");
        make("b", "second");
        EXPECT_EQ(rename(path("a"), path("b")), EEXIST);
        EXPECT_EQ(read_file(path("a"), 100).value(), "first");
        EXPECT_EQ(read_file(path("b"), 100).value(), "second");
        EXPECT_EQ(rename(path("none"), path("c")), ENOENT);
        EXPECT_EQ(rename(path("a"), path("c")), 0);
        EXPECT_EQ(read_file(path("c"), 100).value(), "first");
        EXPECT_EQ(entries(), 2U);
        fs::remove(path("c"));
    }
}

TEST_F(FileTest, SetsAsideUnderTheFirstNameThatIsFree) {
    for (const auto give : {rename_to_free_name, rename_by_link, link_to_free_name}) {
        make("a.old", "first");
        make("a.old2", "second");
        make("a", "third");
        const SetAside aside = set_aside(path("a"), "old", give);
        EXPECT_EQ(aside.error, 0);
        EXPECT_EQ(aside.name, path("a.old3"));
        EXPECT_EQ(read_file(path("a.old"), 100).value(), "first");
        EXPECT_EQ(read_file(path("a.old2"), 100).value(), "second");
        EXPECT_EQ(read_file(path("a.old3"), 100).value(), "third");
        EXPECT_EQ(fs::exists(path("a")), give == link_to_free_name);
        fs::remove(path("a.old3"));
    }
    EXPECT_EQ(set_aside(path("a"), "damaged", link_to_free_name).name, path("a.damaged"));
    EXPECT_EQ(set_aside(path("none"), "old", rename_to_free_name).error, ENOENT);
    EXPECT_EQ(set_aside(path("a"), "old", [](const std::string&, const std::string&) { return EEXIST; }).error, EEXIST) << "it ends";
}

// A limit on the size of files stands for a disk that fills up in the middle of a write.
TEST_F(FileDeathTest, AWriteThatRunsOutOfRoomLeavesTheOldFile) {
    testing::FLAGS_gtest_death_test_style = "fast";
    make("a", "old");
    EXPECT_EXIT(
        {
            ::signal(SIGXFSZ, SIG_IGN);
            rlimit limit{};
            limit.rlim_cur = limit.rlim_max = 50'000;
            if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(3);
            const auto written = write_file_atomically(path("a"), bytes_of(std::string(100'000, 'x')));
            if (message(written).find("cannot write") == std::string::npos) ::_exit(4);
            ::_exit(entries() == 1 ? 0 : 5);
        },
        testing::ExitedWithCode(0), "");
    EXPECT_EQ(read_file(path("a"), 100).value(), "old");
    EXPECT_EQ(entries(), 1U);
}

}  // namespace
}  // namespace cellar
