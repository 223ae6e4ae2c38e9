#pragma once
// What is in a session file, for cellar session and cellar inspect.
#include <string>

#include "base/result.h"

namespace cellar::apps {

// Prints it; gives the exit code.
Result<int> print_session_file(const std::string& path, bool json);

}  // namespace cellar::apps
