#include "engine/session_map.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/check.h"

namespace cellar {
namespace {

// An open file without a name.
class OpenFile {
  public:
    explicit OpenFile(const std::string& text) : fd(memfd_create("session_map_test", MFD_CLOEXEC)) {
        CHECK_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    ~OpenFile() { close(fd); }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    const int fd;
};

std::string text_of(const SessionMap& map) {
    return {reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()};
}

TEST(SessionMap, HasTheBytesOfTheFileWhereverItMoves) {
    const OpenFile file("one"), empty("");
    SessionMap map = *SessionMap::make("a.session", file.fd);
    const std::byte* const at = map.bytes().data();
    EXPECT_EQ(text_of(map), "one");
    SessionMap moved(std::move(map));
    EXPECT_EQ(moved.bytes().data(), at);
    map = std::move(moved);
    EXPECT_EQ(text_of(map), "one");
    EXPECT_TRUE(SessionMap::make("empty.session", empty.fd)->bytes().empty());
    EXPECT_TRUE(SessionMap().bytes().empty());
}

TEST(SessionMap, SaysWhichFileItCannotMap) {
    const auto map = SessionMap::make("a.session", -1);
    ASSERT_FALSE(map);
    EXPECT_EQ(map.error().message, "a.session: cannot be read: Bad file descriptor");
}

}  // namespace
}  // namespace cellar
