#include "apps/terminal.h"

#include <editline/readline.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include <fmt/format.h>

#include "base/text_escape.h"

namespace cellar::apps {
namespace {

constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kPlain = "\033[0m";
constexpr std::string_view kClearLine = "\r\033[K";

Cancel interrupted_flag{false};

void on_interrupt(int) {
    if (interrupted_flag.exchange(true)) _exit(130);
}

int first_output_error = 0;

bool write_out(std::string_view text) {
    errno = 0;
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    const bool done = std::fflush(stdout) == 0 && written;
    if (!done && first_output_error == 0) first_output_error = errno != 0 ? errno : EIO;
    return done;
}

}  // namespace

bool stdout_is_terminal() {
    static const bool is = isatty(STDOUT_FILENO) == 1;
    return is;
}

bool stderr_is_terminal() {
    static const bool is = isatty(STDERR_FILENO) == 1;
    return is;
}

bool stdin_is_terminal() {
    static const bool is = isatty(STDIN_FILENO) == 1;
    return is;
}

void say(std::string_view line) {
    fmt::print(stderr, "cellar: {}\n", escape_for_terminal(line));
}

bool print_text(std::string_view text) {
    return write_out(stdout_is_terminal() ? escape_for_terminal(text, EscapeKeep::LinesAndTabs) : std::string(text));
}

bool print_dim(std::string_view text) {
    if (!stdout_is_terminal()) return write_out(text);
    return write_out(fmt::format("{}{}{}", kDim, escape_for_terminal(text, EscapeKeep::LinesAndTabs), kPlain));
}

int output_error() {
    return first_output_error;
}

StatusLine::StatusLine(std::string_view text) {
    if (!text.empty()) show(text);
}

void StatusLine::show(std::string_view text) {
    if (!stderr_is_terminal()) return;
    fmt::print(stderr, "{}{}{}{}", kClearLine, kDim, escape_for_terminal(text), kPlain);
    std::fflush(stderr);
    shown_ = true;
}

void StatusLine::clear() {
    if (!shown_) return;
    fmt::print(stderr, "{}", kClearLine);
    std::fflush(stderr);
    shown_ = false;
}

Progress prompt_progress(StatusLine& status) {
    return [&status](int64_t done, int64_t total) {
        if (done < total) {
            status.show(fmt::format("reading {} of {} tokens", done, total));
        } else {
            status.clear();
        }
    };
}

Cancel& interrupts() {
    static const bool installed = [] {
        struct sigaction action {};
        action.sa_handler = on_interrupt;
        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, nullptr);
        return true;
    }();
    (void)installed;
    return interrupted_flag;
}

std::optional<std::string> read_line(const std::string& prompt, bool& interrupted) {
    interrupted = false;
    if (!stdin_is_terminal()) {
        std::string line;
        if (!std::getline(std::cin, line)) return std::nullopt;
        if (line.ends_with('\r')) line.pop_back();  // written on a system whose lines end so
        return line;
    }
    Cancel& cancel = interrupts();
    cancel.store(false);
    char* line = readline(prompt.c_str());
    if (cancel.exchange(false)) {
        std::free(line);
        fmt::print(stderr, "\n");
        std::clearerr(stdin);
        interrupted = true;
        return std::string();
    }
    if (line == nullptr) return std::nullopt;
    std::string out(line);
    std::free(line);
    if (!out.empty()) add_history(out.c_str());
    return out;
}

}  // namespace cellar::apps
