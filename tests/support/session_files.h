#pragma once
// A session file in a folder of its own, an engine with a sequence of 60 tokens to save, and what tests do with the file from outside.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "engine/session.h"
#include "support/tiny_model.h"

namespace cellar {

inline std::string bytes_of(const std::string& path) {
    return *read_file(path, size_t{1} << 28);
}

class SessionFiles : public testing::Test {
  protected:
    void SetUp() override {
        model_ = tiny::model("llama");
        options_ = tiny::options();
        options_.context = 512;
        options_.cells = 2048;
        engine_ = tiny::engine(model_, options_);
        seq_ = *engine_->cache().open();
        EXPECT_TRUE(engine_->append(seq_, tiny::tokens(*model_, 60)));
        folder_ = std::filesystem::path(CELLAR_BINARY_DIR) / ("session-safety-" + std::to_string(getpid()));
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directory(folder_);
        path_ = folder_ / "s";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::unique_ptr<Session> open(Reading reading = Reading::Whole) { return open_with(*engine_, reading); }
    std::unique_ptr<Session> open_with(Engine& engine, Reading reading = Reading::Whole) {
        auto session = Session::open(path_, engine, reading);
        EXPECT_TRUE(session) << session.error().message;
        return session ? *std::move(session) : nullptr;
    }
    Result<Session::Saved> save(Session& session, const std::string& host) {
        const Session::Source source{"main", seq_, host};
        return session.save({&source, 1});
    }
    std::string refusal() {
        const auto session = Session::open(path_, *engine_);
        return session ? "" : session.error().message;
    }
    std::string look() {
        auto session = open();
        return session == nullptr || session->branches().empty() ? "nothing" : session->find("main")->host;
    }
    // The sections of a kind, in the order of their ids.
    static std::vector<Section> sections(const Session& session, SectionKind kind) {
        std::vector<Section> out;
        for (const auto& [id, section] : const_cast<Session&>(session).file().sections())
            if (section.kind == kind) out.push_back(section);
        return out;
    }
    void damage(uint64_t at) {
        std::string bytes = bytes_of(path_);
        bytes.at(at) ^= 0x10;
        std::ofstream(path_, std::ios::binary) << bytes;
    }
    std::vector<std::string> files() const {
        std::vector<std::string> out;
        for (const auto& entry : std::filesystem::directory_iterator(folder_)) out.push_back(entry.path().filename());
        std::sort(out.begin(), out.end());
        return out;
    }

    std::shared_ptr<const model::Model> model_;
    EngineOptions options_;
    std::unique_ptr<Engine> engine_;
    SeqId seq_{};
    std::filesystem::path folder_;
    std::string path_;
};

}  // namespace cellar
