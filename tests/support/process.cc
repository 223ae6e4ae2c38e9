#include "support/process.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "base/check.h"

namespace cellar::process {
namespace {

struct Pipe {
    int read = -1;
    int write = -1;
    Pipe() {
        int ends[2];
        CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
        read = ends[0];
        write = ends[1];
    }
};

// Feeds stdin and drains stdout and stderr together, so that no side waits for another.
void exchange(Pipe& in, Pipe& out, Pipe& err, const std::string& input, Outcome& outcome) {
    size_t sent = 0;
    if (input.empty()) close(std::exchange(in.write, -1));
    while (out.read >= 0 || err.read >= 0) {
        pollfd fds[3] = {{in.write, POLLOUT, 0}, {out.read, POLLIN, 0}, {err.read, POLLIN, 0}};
        CHECK_GE(poll(fds, 3, 120000), 1);
        if (in.write >= 0 && fds[0].revents != 0) {
            const ssize_t n = write(in.write, input.data() + sent, input.size() - sent);
            if (n > 0) sent += static_cast<size_t>(n);
            if (n <= 0 || sent == input.size()) close(std::exchange(in.write, -1));
        }
        const auto drain = [](int& fd, short events, std::string& to) {
            if (fd < 0 || events == 0) return;
            char buffer[65536];
            const ssize_t n = read(fd, buffer, sizeof buffer);
            if (n > 0) to.append(buffer, static_cast<size_t>(n));
            if (n <= 0) close(std::exchange(fd, -1));
        };
        drain(out.read, fds[1].revents, outcome.out);
        drain(err.read, fds[2].revents, outcome.err);
    }
    if (in.write >= 0) close(in.write);
}

[[noreturn]] void become(const std::vector<std::string>& command, const std::vector<std::pair<std::string, std::string>>& environment) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
}

void wait_for_end(pid_t child, Outcome& outcome) {
    int status = 0;
    rusage usage{};
    CHECK_EQ(wait4(child, &status, 0, &usage), child);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.peak_kilobytes = usage.ru_maxrss;
}

// Adds what the terminal is given next; false at its end, which a terminal whose last program is gone tells by an error.
bool read_terminal(int terminal, std::string& to) {
    pollfd fd{terminal, POLLIN, 0};
    const int ready = poll(&fd, 1, 60000);
    if (ready == 0) ADD_FAILURE() << "nothing came for a minute";
    if (ready <= 0) return false;
    char buffer[4096];
    const ssize_t n = read(terminal, buffer, sizeof buffer);
    if (n > 0) to.append(buffer, static_cast<size_t>(n));
    return n > 0;
}

// Waits until the line editor has taken the terminal over, which it does a moment behind its prompt. Until then the terminal itself shows
// what is typed, and throws it away at Ctrl-C.
void wait_for_editor(int terminal) {
    for (int i = 0; i < 60000; ++i) {
        termios state{};
        if (tcgetattr(terminal, &state) != 0 || (state.c_lflag & ICANON) == 0) return;
        usleep(1000);
    }
    ADD_FAILURE() << "nobody reads at the prompt";
}

// Types, and returns all that was shown.
std::string sit_at(int terminal, const std::vector<Typed>& typed) {
    std::string shown;
    size_t seen = 0;
    for (const Typed& next : typed) {
        size_t at = 0;
        while ((at = shown.find(next.after, seen)) == std::string::npos) {
            if (read_terminal(terminal, shown)) continue;
            ADD_FAILURE() << "'" << next.after << "' did not come behind: " << shown.substr(0, seen) << "\nbut this did: " << shown.substr(seen);
            return shown;
        }
        seen = at + next.after.size();
        if (next.after == "> " || next.after == ". ") wait_for_editor(terminal);
        CHECK_EQ(write(terminal, next.text.data(), next.text.size()), static_cast<ssize_t>(next.text.size()));
    }
    while (read_terminal(terminal, shown)) {
    }
    return shown;
}

}  // namespace

Outcome run(const std::vector<std::string>& command, const std::string& input, const std::vector<std::pair<std::string, std::string>>& environment) {
    std::signal(SIGPIPE, SIG_IGN);
    Pipe in, out, err;
    const pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        dup2(in.read, STDIN_FILENO);
        dup2(out.write, STDOUT_FILENO);
        dup2(err.write, STDERR_FILENO);
        become(command, environment);
    }
    close(in.read);
    close(out.write);
    close(err.write);
    Outcome outcome;
    exchange(in, out, err, input, outcome);
    wait_for_end(child, outcome);
    return outcome;
}

Outcome cellar(std::vector<std::string> arguments, const std::string& input, const std::vector<std::pair<std::string, std::string>>& environment) {
    arguments.insert(arguments.begin(), CELLAR_BINARY_DIR "/cellar");
    return run(arguments, input, environment);
}

Outcome cellar_at_terminal(std::vector<std::string> arguments, const std::vector<Typed>& typed,
                           const std::vector<std::pair<std::string, std::string>>& environment) {
    arguments.insert(arguments.begin(), CELLAR_BINARY_DIR "/cellar");
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
    CHECK_GE(child, 0);
    // A terminal without arts, so that the line editor moves nothing about.
    std::vector<std::pair<std::string, std::string>> variables{{"TERM", "dumb"}};
    variables.insert(variables.end(), environment.begin(), environment.end());
    if (child == 0) become(arguments, variables);
    Outcome outcome;
    outcome.out = sit_at(terminal, typed);
    // Whoever is still there loses its terminal, and with it its life.
    close(terminal);
    wait_for_end(child, outcome);
    for (size_t at = 0; (at = outcome.out.find("\r\n", at)) != std::string::npos;) outcome.out.erase(at, 1);
    return outcome;
}

std::string temporary(const std::string& name, const std::string& text) {
    const std::string path = std::string(CELLAR_BINARY_DIR) + "/" + program_invocation_short_name + "-" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
}

}  // namespace cellar::process
