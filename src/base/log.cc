#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "base/text_escape.h"

namespace cellar {
namespace {

std::atomic<LogLevel> current_level{LogLevel::Warning};

constexpr std::string_view kNames[] = {"debug", "info", "warning", "error", "silent"};

// One write where possible, so that lines of several threads and processes do not mix.
void write_all(std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;  // nobody is left to be told
        text.remove_prefix(static_cast<size_t>(written));
    }
}

}  // namespace

void set_log_level(LogLevel level) {
    current_level.store(level, std::memory_order_relaxed);
}

LogLevel log_level() {
    return current_level.load(std::memory_order_relaxed);
}

Result<LogLevel> parse_log_level(std::string_view text, std::string_view what) {
    for (size_t i = 0; i < std::size(kNames); ++i) {
        if (text == kNames[i]) return static_cast<LogLevel>(i);
    }
    return fail("{}: '{}' is no log level; use debug, info, warning, error or silent", what, text);
}

void log_line(LogLevel level, std::string_view text) {
    if (!log_enabled(level) || level == LogLevel::Silent) return;
    std::string line = "cellar: ";
    if (level != LogLevel::Info) line.append(kNames[static_cast<size_t>(level)]).append(": ");
    if (isatty(STDERR_FILENO) == 1) {
        line += escape_for_terminal(text, EscapeKeep::LinesAndTabs);
    } else {
        line += text;
    }
    line += '\n';
    write_all(line);
}

}  // namespace cellar
