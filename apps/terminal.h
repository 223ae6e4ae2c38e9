#pragma once
// What differs between a terminal and a pipe: colours, moving status lines, escaped control characters, Ctrl-C.
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/result.h"
#include "engine/engine.h"

namespace cellar::apps {

bool stdout_is_terminal();
bool stderr_is_terminal();
bool stdin_is_terminal();

// Text on stderr as it is. Where stderr cannot be written nobody can be told, and nothing happens.
void print_aside(std::string_view text);
template <class... Args>
void print_aside(fmt::format_string<const Args&...> format, const Args&... args) {
    print_aside(std::string_view(fmt::format(format, args...)));
}
// One line of it, "cellar: ...", control characters escaped.
void say(std::string_view line);

// Text of a model on stdout: bytes into a pipe; escaped, but for lines and tabs, on a terminal. Written at once.
// False when nobody reads it any more.
bool print_text(std::string_view text);
// The same, dim on a terminal.
bool print_dim(std::string_view text);

// The number of the first error that stdout gave; 0: everything was written. EPIPE: nobody reads it any more.
int output_error();

// A line on stderr that moves while something takes long; nothing at all when stderr is no terminal.
class StatusLine {
  public:
    explicit StatusLine(std::string_view text = {});
    ~StatusLine() { clear(); }
    StatusLine(const StatusLine&) = delete;
    StatusLine& operator=(const StatusLine&) = delete;
    void show(std::string_view text);
    void clear();

  private:
    bool shown_ = false;
};

// A Progress that shows "reading 512 of 4096 tokens" for prompts of several chunks.
Progress prompt_progress(StatusLine& status);

// Set by Ctrl-C from the first call on. The second Ctrl-C in a row, unseen by the program, ends it.
Cancel& interrupts();

struct Line {
    std::string text;
    bool interrupted = false;  // Ctrl-C came on a terminal, instead of a line
    bool typed = false;        // something was typed at this prompt, also if it was taken back
};

// A line of input: with editing and history on a terminal, plain elsewhere. Nothing at the end of input. An error is no end: what was read of
// the line is not a line then.
Result<std::optional<Line>> read_line(const std::string& prompt);

}  // namespace cellar::apps
