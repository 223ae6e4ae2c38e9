#include "engine/stop_strings.h"

#include <gtest/gtest.h>

namespace cellar {
namespace {

// Whatever the text, the stop strings and the pieces: what is shown is the text before the earliest stop string.
TEST(StopStrings, ShowsExactlyWhatStandsBeforeTheFirstStop) {
    const std::string texts[] = {"", "abc", "aab", "xxENDyy", "xxENyy", "aaaaab", "ababac", "EN", "END", "one two stop three"};
    const std::vector<std::string> sets[] = {{}, {"END"}, {"aab"}, {"abac", "b"}, {"stop", "two"}, {""}, {"c", "abc"}};
    for (const std::string& text : texts) {
        for (const auto& stops : sets) {
            size_t first = std::string::npos;
            for (const std::string& stop : stops)
                if (!stop.empty()) first = std::min(first, text.find(stop));
            for (size_t piece = 1; piece <= text.size() + 1; ++piece) {
                StopStrings filter(stops);
                std::string shown;
                for (size_t at = 0; at < text.size() && !filter.stopped(); at += piece) shown += filter.push(text.substr(at, piece));
                const bool stopped = filter.stopped();
                if (!stopped) shown += filter.finish();
                EXPECT_EQ(stopped, first != std::string::npos) << text;
                EXPECT_EQ(shown, text.substr(0, first)) << text << " in pieces of " << piece;
            }
        }
    }
}

}  // namespace
}  // namespace cellar
