#include "support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

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
        for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
        std::vector<char*> argv;
        for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
        argv.push_back(nullptr);
        execv(argv[0], argv.data());
        _exit(127);
    }
    close(in.read);
    close(out.write);
    close(err.write);
    Outcome outcome;
    exchange(in, out, err, input, outcome);
    int status = 0;
    rusage usage{};
    CHECK_EQ(wait4(child, &status, 0, &usage), child);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.peak_kilobytes = usage.ru_maxrss;
    return outcome;
}

Outcome cellar(std::vector<std::string> arguments, const std::string& input, const std::vector<std::pair<std::string, std::string>>& environment) {
    arguments.insert(arguments.begin(), CELLAR_BINARY_DIR "/cellar");
    return run(arguments, input, environment);
}

}  // namespace cellar::process
