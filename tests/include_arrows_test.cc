// Checks the tree against DESIGN.md: who may include whom, and that no path of one machine stands in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace cellar {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kKvWords = {"kv/run.h", "kv/view.h", "kv/spec.h"};

// What a folder may include: whole folders, and single headers of others.
struct Arrows {
    std::set<std::string> folders;
    std::set<std::string> headers;
};

const std::map<std::string, Arrows>& arrows() {
    static const std::map<std::string, Arrows> table = {
        {"base", {{"base"}, {}}},
        {"tensor", {{"base", "tensor"}, {}}},
        {"kv", {{"base", "tensor", "kv"}, {}}},
        {"text", {{"base", "text"}, {}}},
        {"ops", {{"base", "tensor", "ops"}, {"kv/run.h", "kv/view.h"}}},
        {"graph", {{"base", "tensor", "ops", "graph"}, kKvWords}},
        {"model", {{"base", "tensor", "ops", "graph", "text", "model"}, kKvWords}},
        {"engine", {{"base", "tensor", "kv", "ops", "graph", "text", "model", "engine", "cellar"}, {}}},
        {"serve", {{"base", "tensor", "kv", "ops", "graph", "text", "model", "engine", "serve", "cellar"}, {}}},
        {"apps", {{"base", "tensor", "kv", "ops", "graph", "text", "model", "engine", "serve", "cellar", "apps"}, {}}},
        {"cellar", {{"cellar"}, {}}},
    };
    return table;
}

struct Include {
    int line = 0;
    bool quoted = false;
    std::string name;
};

std::vector<Include> includes_of(std::string_view text) {
    std::vector<Include> found;
    std::istringstream lines{std::string(text)};
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        line.erase(std::remove_if(line.begin(), line.end(), [](char c) { return c == ' ' || c == '\t'; }), line.end());
        if (!line.starts_with("#include") || line.size() < 10) continue;
        const char close = line[8] == '<' ? '>' : line[8];
        const size_t end = line.find(close, 9);
        if ((line[8] != '<' && line[8] != '"') || end == std::string::npos) continue;
        found.push_back({number, line[8] == '"', line.substr(9, end - 9)});
    }
    return found;
}

// A header of the C++ library, or one of the few of C that a C header needs.
bool is_standard(const std::string& name) {
    static const std::set<std::string> c_headers = {"stdbool.h", "stddef.h", "stdint.h"};
    return c_headers.contains(name) ||
           std::all_of(name.begin(), name.end(), [](char c) { return std::islower(static_cast<unsigned char>(c)) || c == '_'; });
}

// Why a file may not have this include; nothing where it may. `folder` is that of the file, `test` whether it is a test.
std::optional<std::string> refuse(const std::string& folder, bool test, const Include& include) {
    const size_t slash = include.name.find('/');
    const std::string target = slash == std::string::npos ? "" : include.name.substr(0, slash);
    const bool ours = arrows().contains(target);
    if (include.quoted && !ours) return "names no folder of ours";
    if (folder == "cellar" && !ours && !is_standard(include.name)) return "a public header shows a part that users need not have";
    if (target == "hwy" && folder != "ops") return "only ops knows about vectors";
    if (target == "CLI" && folder != "apps") return "only apps parses command lines";
    if (!ours) return std::nullopt;
    const Arrows& allowed = arrows().at(folder);
    if (allowed.folders.contains(target) || allowed.headers.contains(include.name)) return std::nullopt;
    // A test may build what it reads through the narrow headers.
    if (test && !allowed.headers.empty() && target == "kv") return std::nullopt;
    return "against the arrows: " + folder + " may not see " + include.name;
}

std::vector<std::string> check_file(const std::string& path, const std::string& folder, std::string_view text) {
    std::vector<std::string> violations;
    for (const Include& include : includes_of(text)) {
        if (const auto reason = refuse(folder, path.ends_with("_test.cc"), include)) {
            violations.push_back(path + ":" + std::to_string(include.line) + ": " + include.name + ": " + *reason);
        }
    }
    return violations;
}

// A path that begins in a folder where people keep their own things.
std::vector<std::string> check_paths(const std::string& path, std::string_view text) {
    std::vector<std::string> violations;
    for (const std::string top : {"home", "root", "work"}) {
        const std::string needle = "/" + top + "/";
        for (size_t at = text.find(needle); at != std::string_view::npos; at = text.find(needle, at + 1)) {
            const char before = at == 0 ? ' ' : text[at - 1];
            if (std::isalnum(static_cast<unsigned char>(before)) || before == '_' || before == '.' || before == '}' || before == '/') continue;
            violations.push_back(path + ":" + std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n')) +
                                 ": " + needle);
        }
    }
    return violations;
}

std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return std::move(text).str();
}

bool is_source(const fs::path& path) {
    return path.extension() == ".cc" || path.extension() == ".h";
}

std::vector<fs::path> files_under(const fs::path& folder) {
    std::vector<fs::path> files;
    if (!fs::exists(folder)) return files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += "\n  " + line;
    return text;
}

TEST(IncludeArrows, TheTreeFollowsThem) {
    const fs::path root = CELLAR_SOURCE_DIR;
    std::vector<std::string> violations;
    int seen = 0;
    for (const std::string top : {"src", "include", "apps"}) {
        for (const fs::path& path : files_under(root / top)) {
            if (!is_source(path)) continue;
            ++seen;
            const fs::path relative = fs::relative(path, root);
            const std::string folder = top == "apps" ? "apps" : std::next(relative.begin())->string();
            ASSERT_TRUE(arrows().contains(folder)) << relative << ": DESIGN.md names no such folder";
            const auto found = check_file(relative.string(), folder, read(path));
            violations.insert(violations.end(), found.begin(), found.end());
            if (const auto text = read(path); path.extension() == ".h" && std::count(text.begin(), text.end(), '\n') > 150) {
                std::printf("note: %s is longer than 150 lines\n", relative.c_str());
            }
        }
    }
    EXPECT_GT(seen, 20);
    EXPECT_TRUE(violations.empty()) << joined(violations);
}

TEST(IncludeArrows, NoPathOfOneMachine) {
    const fs::path root = CELLAR_SOURCE_DIR;
    std::vector<fs::path> files;
    for (const char* top : {"src", "include", "apps", "tests", "bench", "fuzz", "tools", "docs", "cmake", ".ci"}) {
        const std::vector<fs::path> found = files_under(root / top);
        files.insert(files.end(), found.begin(), found.end());
    }
    for (const auto& entry : fs::directory_iterator(root)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
    }
    static const std::set<std::string> kinds = {".cc", ".h", ".c", ".md", ".sh", ".py", ".cmake", ".txt", ".json", ""};
    std::vector<std::string> violations;
    for (const fs::path& path : files) {
        if (!kinds.contains(path.extension().string())) continue;
        const auto found = check_paths(fs::relative(path, root).string(), read(path));
        violations.insert(violations.end(), found.begin(), found.end());
    }
    EXPECT_TRUE(violations.empty()) << joined(violations);
}

bool allowed(const std::string& folder, const std::string& line, const std::string& name = "x.cc") {
    return check_file(name, folder, line + "\n").empty();
}

TEST(IncludeArrowsChecker, AllowsWhatTheDesignAllows) {
    EXPECT_TRUE(allowed("base", "#include \"base/result.h\""));
    EXPECT_TRUE(allowed("base", "#include <fmt/core.h>"));
    EXPECT_TRUE(allowed("kv", "#include \"tensor/dtype.h\""));
    EXPECT_TRUE(allowed("ops", "#include \"kv/run.h\""));
    EXPECT_TRUE(allowed("ops", "#include \"kv/view.h\""));
    EXPECT_TRUE(allowed("ops", "#include <hwy/highway.h>"));
    EXPECT_TRUE(allowed("ops", "#include \"kv/cache.h\"", "x_test.cc"));
    EXPECT_TRUE(allowed("model", "#include \"kv/spec.h\""));
    EXPECT_TRUE(allowed("model", "#include \"text/tokenizer.h\""));
    EXPECT_TRUE(allowed("engine", "#include \"kv/cache.h\""));
    EXPECT_TRUE(allowed("engine", "#include <cellar/engine.h>"));
    EXPECT_TRUE(allowed("apps", "#include <CLI/CLI.hpp>"));
    EXPECT_TRUE(allowed("cellar", "#include <string_view>"));
    EXPECT_TRUE(allowed("cellar", "#include <stdint.h>"));
    EXPECT_TRUE(allowed("cellar", "#include <cellar/status.h>"));
}

TEST(IncludeArrowsChecker, RefusesEachViolation) {
    EXPECT_FALSE(allowed("base", "#include \"tensor/dtype.h\""));
    EXPECT_FALSE(allowed("base", "  #  include \"kv/run.h\""));
    EXPECT_FALSE(allowed("base", "#include <text/tokenizer.h>"));
    EXPECT_FALSE(allowed("text", "#include \"tensor/dtype.h\""));
    EXPECT_FALSE(allowed("tensor", "#include \"text/tokenizer.h\""));
    EXPECT_FALSE(allowed("kv", "#include \"ops/attention.h\""));
    EXPECT_FALSE(allowed("kv", "#include \"model/config.h\""));
    EXPECT_FALSE(allowed("kv", "#include \"ops/attention.h\"", "x_test.cc"));
    EXPECT_FALSE(allowed("kv", "#include <hwy/highway.h>"));
    EXPECT_FALSE(allowed("ops", "#include \"kv/cache.h\""));
    EXPECT_FALSE(allowed("ops", "#include \"kv/spec.h\""));
    EXPECT_FALSE(allowed("graph", "#include \"kv/seq.h\""));
    EXPECT_FALSE(allowed("graph", "#include \"model/config.h\""));
    EXPECT_FALSE(allowed("model", "#include \"kv/cache.h\""));
    EXPECT_FALSE(allowed("model", "#include \"engine/engine.h\""));
    EXPECT_FALSE(allowed("engine", "#include \"serve/http.h\""));
    EXPECT_FALSE(allowed("engine", "#include <CLI/CLI.hpp>"));
    EXPECT_FALSE(allowed("model", "#include <cellar/engine.h>"));
    EXPECT_FALSE(allowed("cellar", "#include <fmt/core.h>"));
    EXPECT_FALSE(allowed("cellar", "#include <nlohmann/json.hpp>"));
    EXPECT_FALSE(allowed("cellar", "#include <tl/expected.hpp>"));
    EXPECT_FALSE(allowed("cellar", "#include \"base/result.h\""));
    EXPECT_FALSE(allowed("kv", "#include \"run.h\""));
    EXPECT_FALSE(allowed("kv", "#include \"../ops/attention.h\""));
}

TEST(IncludeArrowsChecker, SaysWhere) {
    const auto violations = check_file("src/kv/x.cc", "kv", "#pragma once\n\n#include \"base/result.h\"\n#include \"ops/table.h\"  // why\n");
    ASSERT_EQ(violations.size(), 1u);
    EXPECT_EQ(violations[0], "src/kv/x.cc:4: ops/table.h: against the arrows: kv may not see ops/table.h");
}

TEST(IncludeArrowsChecker, FindsPathsOfOneMachine) {
    const std::string top = "/home";
    EXPECT_EQ(check_paths("x", "see " + top + "/me/file").size(), 1u);
    EXPECT_EQ(check_paths("x", "\"" + top + "/me\"\n(" + top + "/you)").size(), 2u);
    EXPECT_TRUE(check_paths("x", "src" + top + "/me, ." + top + "/x, ${x}" + top + "/y").empty());
    EXPECT_TRUE(check_paths("x", top).empty());
}

}  // namespace
}  // namespace cellar
