// docs/conformance.md against the tree: every item has one line, every claim names a test, and every named test exists.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace cellar {
namespace {

namespace fs = std::filesystem;

struct Line {
    std::string id, promise, state, how;
};

std::vector<Line> read_lines(std::istream& text) {
    static const std::regex kRow(R"(\| ([MX][0-9]+) \| (.*?) \| (.*?) \|(.*)\|)");
    std::vector<Line> lines;
    std::smatch match;
    for (std::string line; std::getline(text, line);) {
        if (std::regex_match(line, match, kRow)) lines.push_back({match[1], match[2], match[3], match[4]});
    }
    return lines;
}

// Field reports: one or several in a line, with a state between what must not happen and how it is shown, or without one.
struct Report {
    std::vector<std::string> ids;
    std::string state, how;
};

std::vector<Report> read_reports(std::istream& text) {
    static const std::regex kRow(R"(\| ([ADEFHJ][0-9]+(?:, [ADEFHJ][0-9]+)*) \| [^|]* \|(?: (done|otherwise|open) \|)?([^|]*)\|)");
    static const std::regex kId("[A-Z][0-9]+");
    std::vector<Report> reports;
    std::smatch match;
    for (std::string line; std::getline(text, line);) {
        if (!std::regex_match(line, match, kRow)) continue;
        Report report{{}, match[2], match[3]};
        const std::string ids = match[1];
        for (std::sregex_iterator it(ids.begin(), ids.end(), kId), end; it != end; ++it) report.ids.push_back(it->str());
        reports.push_back(std::move(report));
    }
    return reports;
}

// Names of the form `Suite.Name`.
std::set<std::string> named_tests(const std::string& how) {
    static const std::regex kName("`([A-Z][A-Za-z]*\\.[A-Za-z][A-Za-z0-9_]*)`");
    std::set<std::string> names;
    for (std::sregex_iterator it(how.begin(), how.end(), kName), end; it != end; ++it) names.insert((*it)[1]);
    return names;
}

std::set<std::string> tests_in_tree() {
    static const std::regex kTest("^(?:TEST|TEST_F|TEST_P|RC_GTEST_PROP)\\(([A-Za-z0-9]+), *([A-Za-z0-9_]+)");
    std::set<std::string> names;
    for (const char* top : {"src", "apps", "tests"}) {
        for (const auto& entry : fs::recursive_directory_iterator(fs::path(CELLAR_SOURCE_DIR) / top)) {
            if (!entry.path().string().ends_with("_test.cc")) continue;
            std::ifstream file(entry.path());
            std::smatch match;
            for (std::string line; std::getline(file, line);) {
                if (line.starts_with("TEST") || line.starts_with("RC_GTEST")) {
                    if (std::regex_search(line, match, kTest)) names.insert(match[1].str() + "." + match[2].str());
                }
            }
        }
    }
    return names;
}

TEST(Conformance, EveryItemHasOneLineAndEveryClaimItsTest) {
    std::ifstream file(fs::path(CELLAR_SOURCE_DIR) / "docs" / "conformance.md");
    ASSERT_TRUE(file);
    const std::set<std::string> tests = tests_in_tree();
    ASSERT_GT(tests.size(), 100U);
    std::map<std::string, int> seen;
    for (const Line& line : read_lines(file)) {
        ++seen[line.id];
        EXPECT_TRUE(line.state == "done" || line.state == "otherwise" || line.state == "open") << line.id << ": " << line.state;
        const std::set<std::string> named = named_tests(line.how);
        if (line.state != "open") {
            EXPECT_FALSE(named.empty()) << line.id << " names no test";
        }
        for (const std::string& name : named) EXPECT_TRUE(tests.contains(name)) << line.id << " names " << name << ", which does not exist";
    }
    for (const auto& [letter, last] : std::map<std::string, int>{{"M", 104}, {"X", 90}}) {
        for (int i = 1; i <= last; ++i) EXPECT_EQ(seen[letter + std::to_string(i)], 1) << letter << i;
    }
    EXPECT_EQ(seen.size(), 194U);
}

TEST(Conformance, EveryFieldReportHasItsLineAndItsTest) {
    std::ifstream file(fs::path(CELLAR_SOURCE_DIR) / "docs" / "conformance.md");
    ASSERT_TRUE(file);
    const std::set<std::string> tests = tests_in_tree();
    std::set<std::string> seen;
    for (const Report& report : read_reports(file)) {
        seen.insert(report.ids.begin(), report.ids.end());
        const std::set<std::string> named = named_tests(report.how);
        if (report.state != "open") {
            EXPECT_FALSE(named.empty()) << report.ids[0] << " names no test";
        }
        for (const std::string& name : named) EXPECT_TRUE(tests.contains(name)) << report.ids[0] << " names " << name << ", which does not exist";
    }
    // About the store, shifts, sessions, memory, determinism and formats; the other chapters are about what is not there yet.
    const std::map<std::string, std::vector<int>> chapters{{"A", {1, 2, 3, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21}},
                                                           {"D", {51, 52, 53, 55, 56, 57, 58, 59, 60, 108}},
                                                           {"E", {64, 65, 66, 67, 68, 69, 70}},
                                                           {"F", {71, 72, 74, 75, 76, 77, 78}},
                                                           {"H", {86}},
                                                           {"J", {95, 96, 97, 99, 101, 102, 103, 104, 105, 106}}};
    for (const auto& [letter, numbers] : chapters)
        for (const int number : numbers) EXPECT_TRUE(seen.contains(letter + std::to_string(number))) << letter << number;
}

TEST(ConformanceChecker, ReadsReports) {
    std::istringstream text(
        "| A1 | wrong | `Suite.Name` |\n| D5, D16 | wrong | open | nothing so far |\n| report | x | y |\n| M1 | p | done | `A.B` |\n");
    const std::vector<Report> reports = read_reports(text);
    ASSERT_EQ(reports.size(), 2U);
    EXPECT_EQ(reports[0].ids, std::vector<std::string>{"A1"});
    EXPECT_EQ(named_tests(reports[0].how), std::set<std::string>{"Suite.Name"});
    EXPECT_EQ(reports[1].ids, (std::vector<std::string>{"D5", "D16"}));
    EXPECT_EQ(reports[1].state, "open");
}

TEST(ConformanceChecker, ReadsLinesAndNames) {
    std::istringstream text(
        "# M1\n| M1 | some promise | done | by `Suite.Name`, `Cache::begin`, `kv/run.h` and `Other.Name2` |\n| item | x | y | z |\n| X2 | p | open | "
        "|\n");
    const std::vector<Line> lines = read_lines(text);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].id, "M1");
    EXPECT_EQ(lines[0].state, "done");
    EXPECT_EQ(named_tests(lines[0].how), (std::set<std::string>{"Suite.Name", "Other.Name2"}));
    EXPECT_EQ(lines[1].state, "open");
    EXPECT_TRUE(named_tests(lines[1].how).empty());
}

}  // namespace
}  // namespace cellar
