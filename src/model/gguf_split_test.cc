// Files in several parts: good ones, and parts that do not belong together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"

namespace cellar::gguf {
namespace {

namespace fs = std::filesystem;

class GgufSplit : public testing::Test {
  protected:
    void SetUp() override {
        std::string form = (fs::temp_directory_path() / "cellar-split-XXXXXX").string();
        ASSERT_NE(::mkdtemp(form.data()), nullptr);
        folder_ = form;
    }
    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string path(int part, int count) const { return fmt::format("{}/m-{:05}-of-{:05}.gguf", folder_, part, count); }

    static Writer sample() {
        Writer writer;
        writer.add("general.architecture", "llama");
        for (int i = 0; i < 7; ++i) writer.add_tensor("t" + std::to_string(i), DType::F32, {8}, std::vector<float>(8, static_cast<float>(i)));
        return writer;
    }
    void make(int parts) const { ASSERT_TRUE(sample().write_split(folder_ + "/m", parts)); }

    // A part on its own: its keys and one tensor.
    struct PartKeys {
        int number = 1;  // from 0
        int count = 3;
        int tensors = 7;
        uint32_t version = 3;
        std::string architecture;
        std::vector<std::string> names;
    };
    void replace(int part, int count, const PartKeys& keys) const {
        Writer writer(keys.version);
        if (!keys.architecture.empty()) writer.add("general.architecture", keys.architecture);
        writer.add("split.no", static_cast<uint16_t>(keys.number));
        writer.add("split.count", static_cast<uint16_t>(keys.count));
        writer.add("split.tensors.count", keys.tensors);
        for (const std::string& name : keys.names) writer.add_tensor(name, DType::F32, {1}, std::vector<float>{1});
        ASSERT_TRUE(writer.write(path(part, count)));
    }

    void expect_refused(const std::string& file, const std::string& words, const std::string& names = "") const {
        const auto opened = File::open(file);
        ASSERT_FALSE(opened);
        EXPECT_NE(opened.error().message.find(words), std::string::npos) << opened.error().message;
        EXPECT_NE(opened.error().message.find(names), std::string::npos) << opened.error().message;
        EXPECT_EQ(opened.error().message.find('\n'), std::string::npos);
    }

    std::string folder_;
};

TEST_F(GgufSplit, AllPartsAreOneFile) {
    for (const int parts : {1, 2, 3, 7, 9}) {
        make(parts);
        const auto file = File::open(path(1, parts));
        ASSERT_TRUE(file) << file.error().message;
        EXPECT_EQ(file->string("general.architecture").value(), "llama");
        EXPECT_EQ(file->integer("split.count").value(), parts);
        ASSERT_EQ(file->tensors().size(), 7U);
        uint64_t bytes = 0;
        for (int part = 1; part <= parts; ++part) bytes += fs::file_size(path(part, parts));
        EXPECT_EQ(file->file_bytes(), bytes);
        for (int i = 0; i < 7; ++i) {
            const TensorInfo* tensor = file->tensor("t" + std::to_string(i));
            ASSERT_NE(tensor, nullptr);
            EXPECT_EQ(tensor, &file->tensors()[static_cast<size_t>(i)]) << "the order of the parts is kept";
            float value = 0;
            std::memcpy(&value, tensor->data + 28, 4);
            EXPECT_EQ(value, static_cast<float>(i));
            file->drop(*tensor);
        }
    }
}

TEST_F(GgufSplit, OnlyTheFirstPartIsOpened) {
    make(3);
    expect_refused(path(2, 3), "is part 2 of 3; open the first part", path(1, 3));
    expect_refused(path(3, 3), "is part 3 of 3", path(1, 3));
}

TEST_F(GgufSplit, AMissingPartIsNamed) {
    make(3);
    fs::remove(path(3, 3));
    expect_refused(path(1, 3), "part 3 of 3", path(3, 3) + ": no such file");
}

TEST_F(GgufSplit, ABrokenPartIsNamed) {
    make(3);
    fs::resize_file(path(2, 3), fs::file_size(path(2, 3)) - 40);
    expect_refused(path(1, 3), "outside the file", path(2, 3));
    fs::resize_file(path(2, 3), 0);
    expect_refused(path(1, 3), "is empty", path(2, 3));
}

TEST_F(GgufSplit, NamesThatDisagreeWithKeys) {
    make(3);
    fs::copy_file(path(1, 3), folder_ + "/renamed.gguf");
    expect_refused(folder_ + "/renamed.gguf", "is part 1 of 3", "does not end in -00001-of-00003.gguf");
    fs::copy_file(path(1, 3), path(1, 4));
    expect_refused(path(1, 4), "its name says 4 parts, its key split.count says 3");
    fs::copy_file(path(2, 3), path(1, 3), fs::copy_options::overwrite_existing);
    expect_refused(path(1, 3), "its name says part 1, its key split.no says part 2");
    ASSERT_TRUE(sample().write(path(1, 3)));
    expect_refused(path(1, 3), "one of 3 parts, but its key split.count says that it is not split");
    // Names that only look like parts.
    for (const char* name : {"/m-00000-of-00003.gguf", "/m-00004-of-00003.gguf", "/m-0001-of-00003.gguf", "/m-00001-of-00003.bin"}) {
        ASSERT_TRUE(sample().write(folder_ + name));
        EXPECT_TRUE(File::open(folder_ + name)) << name;
    }
}

TEST_F(GgufSplit, PartsThatDisagree) {
    const std::vector<std::string> right{"t2", "t3"};
    make(3);
    replace(2, 3, {.number = 2, .architecture = "", .names = right});
    expect_refused(path(1, 3), "its name says part 2, its key split.no says part 3", path(2, 3));
    replace(2, 3, {.count = 4, .architecture = "", .names = right});
    expect_refused(path(1, 3), "split parts disagree: split.count is 4 here, 3 in the first part", path(2, 3));
    replace(2, 3, {.tensors = 8, .architecture = "", .names = right});
    expect_refused(path(1, 3), "split parts disagree: split.tensors.count is 8 here, 7 in the first part", path(2, 3));
    replace(2, 3, {.version = 2, .architecture = "", .names = right});
    expect_refused(path(1, 3), "split parts disagree: this part has GGUF version 2, the first 3", path(2, 3));
    replace(2, 3, {.architecture = "qwen2", .names = right});
    expect_refused(path(1, 3), "general.architecture is 'qwen2' here, 'llama' in the first part", path(2, 3));
    replace(2, 3, {.architecture = "llama", .names = {"t2"}});
    expect_refused(path(1, 3), "split.tensors.count is 7, but the 3 parts have 6 tensors");
    replace(2, 3, {.architecture = "llama", .names = {"t2", "t0"}});
    expect_refused(path(1, 3), "duplicate tensor 't0'");
    replace(2, 3, {.architecture = "llama", .names = right});
    EXPECT_TRUE(File::open(path(1, 3)));
    ASSERT_TRUE(sample().write(path(2, 3)));
    expect_refused(path(1, 3), "key 'split.no' is missing", path(2, 3));
}

TEST_F(GgufSplit, SplitKeysOfTheWrongType) {
    Writer writer;
    writer.add("split.count", "three");
    ASSERT_TRUE(writer.write(path(1, 3)));
    expect_refused(path(1, 3), "key 'split.count' should be an integer, but it is string");
    Writer many;
    many.add("split.count", uint32_t{70'000});
    ASSERT_TRUE(many.write(path(1, 3)));
    expect_refused(path(1, 3), "'split.count' is 70000");
    const auto bytes = many.to_bytes().value();
    const auto parsed = File::parse(bytes, "memory");
    ASSERT_FALSE(parsed);
    EXPECT_NE(parsed.error().message.find("split parts"), std::string::npos);
}

TEST(PartPaths, FollowFromTheName) {
    EXPECT_EQ(part_paths("a/m-00002-of-00003.gguf"),
              (std::vector<std::string>{"a/m-00001-of-00003.gguf", "a/m-00002-of-00003.gguf", "a/m-00003-of-00003.gguf"}));
    for (const std::string one : {"m.gguf", "m-00004-of-00003.gguf", "m-0001-of-00003.gguf", ""})
        EXPECT_EQ(part_paths(one), std::vector<std::string>{one});
}

}  // namespace
}  // namespace cellar::gguf
