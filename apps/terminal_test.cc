// What comes in line by line where nobody types. What is different at a terminal: tests/cli_terminal_test.cc.
#include "apps/terminal.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/check.h"

namespace cellar::apps {
namespace {

// This text as stdin, for as long as a test needs it.
class Stdin {
  public:
    enum class End { Whole, BreaksOff };
    Stdin(const std::string& text, End end) : before_(dup(STDIN_FILENO)) {
        int ends[2];
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        CHECK_EQ(write(ends[0], text.data(), text.size()), static_cast<ssize_t>(text.size()));
        // A socket that closes before it has read everything resets the connection.
        if (end == End::BreaksOff) CHECK_EQ(write(ends[1], "x", 1), 1);
        close(ends[0]);
        dup2(ends[1], STDIN_FILENO);
        close(ends[1]);
        std::clearerr(stdin);
    }
    ~Stdin() {
        dup2(before_, STDIN_FILENO);
        close(before_);
        std::clearerr(stdin);
    }
    Stdin(const Stdin&) = delete;
    Stdin& operator=(const Stdin&) = delete;

  private:
    int before_;
};

// The text of the next line, if there is one.
Result<std::optional<std::string>> next_line() {
    CELLAR_TRY(auto line, read_line("> "));
    if (!line) return std::nullopt;
    EXPECT_FALSE(line->interrupted);
    return std::move(line->text);
}

TEST(ReadLine, GivesLinesUntilTheEnd) {
    const Stdin input("one\ntwo\r\n\nfour", Stdin::End::Whole);
    for (const char* line : {"one", "two", "", "four"}) EXPECT_EQ(*next_line(), std::optional<std::string>(line));
    EXPECT_EQ(*next_line(), std::nullopt);
}

TEST(ReadLine, AnErrorIsNoEndAndWhatBreaksOffIsNoLine) {
    const Stdin input("one\nhalf of", Stdin::End::BreaksOff);
    EXPECT_EQ(*next_line(), std::optional<std::string>("one"));
    const auto broken = next_line();
    ASSERT_FALSE(broken);
    EXPECT_EQ(broken.error().message, "stdin: cannot read it: Connection reset by peer");
}

}  // namespace
}  // namespace cellar::apps
