#pragma once
// Where the time of walks goes: one line for each kind of stage, summed over layers and steps.
//
// Thread rule: used by the thread that walks.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kv/view.h"

namespace cellar::graph {

class Profile {
  public:
    struct Line {
        Op op{};
        std::string what;  // "ffn_down Q4_0 896 x 4864": the nodes' labels without their layer, and the shapes of their weights
        int64_t calls = 0;
        double seconds = 0.0;
        double bytes = 0.0;       // of weights and of cache that the calls had to read; of experts as many as may have been chosen
        double operations = 0.0;  // additions and multiplications of matrix products and attention
    };

    // A walk calls begin, then mark behind each stage in order, then end.
    void begin(const Graph& graph);
    void mark() { marks_.push_back(Clock::now()); }
    void end(const Graph& graph, const kv::View& view);

    void clear();
    [[nodiscard]] int64_t walks() const { return walks_; }
    [[nodiscard]] double seconds() const { return seconds_; }
    [[nodiscard]] std::vector<Line> lines() const;  // longest first
    // A table: milliseconds of a walk, share of the time, GB/s and GOP/s of each line.
    [[nodiscard]] std::string text() const;

  private:
    using Clock = std::chrono::steady_clock;
    Line& line(const Graph& graph, const Stage& stage);

    std::vector<Clock::time_point> marks_;  // [stages + 1]
    std::vector<Line> lines_;
    int64_t walks_ = 0;
    double seconds_ = 0.0;
};

}  // namespace cellar::graph
