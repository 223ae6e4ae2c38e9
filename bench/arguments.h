#pragma once
// Arguments of benches: what is no number or no name ends the program, because a bench that measured something else says nothing.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "apps/settings.h"
#include "ops/ops.h"

namespace cellar::bench {

class Arguments {
  public:
    // Takes "--cpu-target NAME" away, and limits the kernels to it.
    Arguments(std::string program, int argc, char** argv) : program_(std::move(program)), left_(argv + 1, argv + argc) {
        if (left_.size() < 2 || left_[0] != "--cpu-target") return;
        if (!ops::limit_cpu_target(left_[1])) refuse("this machine or this build has no target '" + left_[1] + "'; it has " + ops::cpu_targets());
        left_.erase(left_.begin(), left_.begin() + 2);
    }

    // The next argument, or what stands for none.
    int number(const std::string& what, int otherwise, int high) {
        if (left_.empty()) return otherwise;
        const auto value = apps::parse_integer(left_.front(), what, 1, high);
        if (!value) refuse(value.error().message);
        left_.erase(left_.begin());
        return static_cast<int>(*value);
    }
    // All others, each of which must be known.
    std::vector<std::string> names(const std::vector<std::string>& known) const {
        for (const std::string& name : left_) {
            if (std::find(known.begin(), known.end(), name) == known.end()) refuse("there is no format '" + name + "'");
        }
        return left_;
    }

  private:
    [[noreturn]] void refuse(const std::string& why) const {
        std::fprintf(stderr, "%s: %s\n", program_.c_str(), why.c_str());
        std::exit(2);
    }

    std::string program_;
    std::vector<std::string> left_;
};

// Whether a format is to be measured: one of these, or any where there are none.
inline bool wanted(const std::vector<std::string>& names, std::string_view name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace cellar::bench
