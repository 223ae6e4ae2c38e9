#pragma once
// Lines for the person who runs the program, on stderr. Any thread may log; a line is written whole.
// What a user asked for goes to stdout and is no business of this header.
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/result.h"

namespace cellar {

enum class LogLevel { Debug, Info, Warning, Error, Silent };

// Lines below this level are dropped. Warning until set.
void set_log_level(LogLevel level);
[[nodiscard]] LogLevel log_level();

// "debug", "info", "warning", "error", "silent". `what` names the flag or variable in the error.
Result<LogLevel> parse_log_level(std::string_view text, std::string_view what);

// Writes one line. On a terminal control characters are escaped. Costs nothing but a comparison when the level is dropped.
void log_line(LogLevel level, std::string_view text);

[[nodiscard]] inline bool log_enabled(LogLevel level) {
    return level >= log_level();
}

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::Debug)) log_line(LogLevel::Debug, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::Info)) log_line(LogLevel::Info, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::Warning)) log_line(LogLevel::Warning, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::Error)) log_line(LogLevel::Error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace cellar
