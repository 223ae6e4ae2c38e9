#pragma once
// Runs a program to its end, for tests of the command line, and makes the files it is given.
#include <string>
#include <utility>
#include <vector>

namespace cellar::process {

struct Outcome {
    int code = -1;    // exit code; 128 + n where signal n ended it
    std::string out;  // stdout
    std::string err;  // stderr
    long peak_kilobytes = 0;
};

// stdin is `input`. Environment variables in `environment` are set on top of this process's.
Outcome run(const std::vector<std::string>& command, const std::string& input = {},
            const std::vector<std::pair<std::string, std::string>>& environment = {});

// The program that was built beside the tests, with these arguments.
Outcome cellar(std::vector<std::string> arguments, const std::string& input = {},
               const std::vector<std::pair<std::string, std::string>>& environment = {});

// What a person types: `text`, as soon as the terminal shows `after` behind what was waited for before.
struct Typed {
    std::string after;
    std::string text;
};

// The same program, with a terminal of its own as stdin, stdout and stderr. Outcome::out is all that the terminal was given, with "\n" at the
// ends of lines. What does not come within a minute is a failure of the test, and ends the program.
Outcome cellar_at_terminal(std::vector<std::string> arguments, const std::vector<Typed>& typed = {},
                           const std::vector<std::pair<std::string, std::string>>& environment = {});

// The path of a file in the build folder with this text. Its name begins with that of the test program, since several may run at once.
std::string temporary(const std::string& name, const std::string& text);

}  // namespace cellar::process
