#pragma once
// Runs a program to its end, for tests of the command line.
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

}  // namespace cellar::process
