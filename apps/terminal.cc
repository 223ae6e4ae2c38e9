#include "apps/terminal.h"

#include <editline/readline.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>

#include <fmt/format.h>

#include "base/signals.h"
#include "base/text_escape.h"

namespace cellar::apps {
namespace {

constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kPlain = "\033[0m";
constexpr std::string_view kClearLine = "\r\033[K";

Cancel interrupted_flag{false};
// Of the line that is being read.
int input_error = 0;
bool typed = false;

void on_interrupt(int) {
    if (interrupted_flag.exchange(true)) _exit(130);
}

// The next byte that is typed, or EOF. Ctrl-C is let through only while this waits: one that came between two bytes would be noticed with the
// byte after it otherwise.
int next_byte() {
    sigset_t waiting;
    pthread_sigmask(SIG_SETMASK, nullptr, &waiting);
    sigdelset(&waiting, SIGINT);
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (interrupted_flag.load()) return EOF;
    while (ppoll(&input, 1, nullptr, &waiting) < 0) {
        if (errno != EINTR || interrupted_flag.load()) return EOF;
    }
    unsigned char byte = 0;
    const ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got < 0) input_error = errno;
    typed = typed || got == 1;
    return got == 1 ? byte : EOF;
}

// The next character in the encoding of the locale, or EOF. What is no character is left out.
int next_character(FILE* /*stream*/) {
    std::mbstate_t state{};
    while (true) {
        const int byte = next_byte();
        if (byte == EOF) return EOF;
        const char one = static_cast<char>(byte);
        wchar_t character = 0;
        const bool first = std::mbsinit(&state) != 0;
        const size_t used = std::mbrtowc(&character, &one, 1, &state);
        if (used == static_cast<size_t>(-2)) continue;
        if (used != static_cast<size_t>(-1)) return static_cast<int>(character);
        // The byte may begin another one.
        state = std::mbstate_t{};
        if (!first && std::mbrtowc(&character, &one, 1, &state) == 1) return static_cast<int>(character);
    }
}

// Models speak UTF-8, so lines are edited in it, whatever the environment says or does not say.
void edit_in_utf8() {
    static const bool settled = [] {
        std::setlocale(LC_CTYPE, "");
        if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
        return true;
    }();
    (void)settled;
}

tl::unexpected<Error> no_input(int error) {
    return fail(ErrorKind::System, "stdin: cannot read it: {}", std::strerror(error));
}

Result<std::optional<Line>> read_plain_line() {
    char* buffer = nullptr;
    size_t room = 0;
    const ssize_t got = getline(&buffer, &room, stdin);
    const int error = std::ferror(stdin) != 0 ? errno : 0;
    std::string line(buffer == nullptr ? "" : buffer, got < 0 ? 0 : static_cast<size_t>(got));
    std::free(buffer);
    if (error == EINTR) return std::nullopt;  // Ctrl-C where nobody types
    if (error != 0) return no_input(error);
    if (got < 0) return std::nullopt;
    if (line.ends_with('\n')) line.pop_back();
    if (line.ends_with('\r')) line.pop_back();  // written on a system whose lines end so
    return Line{std::move(line), false, true};
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

void print_aside(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
}

void say(std::string_view line) {
    print_aside("cellar: {}\n", escape_for_terminal(line));
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
    print_aside("{}{}{}{}", kClearLine, kDim, escape_for_terminal(text), kPlain);
    std::fflush(stderr);
    shown_ = true;
}

void StatusLine::clear() {
    if (!shown_) return;
    print_aside(kClearLine);
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

Result<std::optional<Line>> read_line(const std::string& prompt) {
    if (!stdin_is_terminal()) return read_plain_line();
    edit_in_utf8();
    Cancel& cancel = interrupts();
    char* line = nullptr;
    input_error = 0;
    typed = false;
    {
        const SignalsBlocked blocked(SIGINT);
        cancel.store(false);
        rl_getc_function = next_character;
        line = readline(prompt.c_str());
    }
    std::string text(line == nullptr ? "" : line);
    const bool ended = line == nullptr;
    std::free(line);
    if (cancel.exchange(false)) {
        print_aside("\n");
        std::clearerr(stdin);
        return Line{"", true, typed};
    }
    if (input_error != 0) return no_input(input_error);
    if (ended) return std::nullopt;
    if (!text.empty()) add_history(text.c_str());
    return Line{std::move(text), false, typed};
}

}  // namespace cellar::apps
