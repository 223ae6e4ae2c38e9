// Opening files by name: one alone, or all parts of a split one.
#include <optional>

#include <fmt/format.h>

#include "base/quote.h"
#include "model/gguf.h"

namespace cellar::gguf {
namespace {

constexpr int64_t kMaxParts = 65535;

// STEM-00002-of-00005.gguf, counted from 1.
struct SplitName {
    std::string stem;
    int part = 0;
    int count = 0;

    [[nodiscard]] std::string path(int64_t of_part) const { return fmt::format("{}-{:05}-of-{:05}.gguf", stem, of_part, count); }
};

std::optional<SplitName> split_name(const std::string& path) {
    constexpr std::string_view kForm = "-00000-of-00000.gguf";
    if (path.size() < kForm.size()) return std::nullopt;
    const size_t start = path.size() - kForm.size();
    for (size_t i = 0; i < kForm.size(); ++i) {
        const char c = path[start + i];
        if (kForm[i] == '0' ? c < '0' || c > '9' : c != kForm[i]) return std::nullopt;
    }
    const SplitName name{path.substr(0, start), std::stoi(path.substr(start + 1, 5)), std::stoi(path.substr(start + 10, 5))};
    if (name.part < 1 || name.part > name.count) return std::nullopt;
    return name;
}

// How many files `first` is made of, from its keys and its name, which must agree.
Result<int64_t> count_parts(const File& first, const std::optional<SplitName>& name, const std::string& shown) {
    CELLAR_TRY(const int64_t count, first.integer_or("split.count", 1, 0, kMaxParts));
    CELLAR_TRY(const int64_t number, first.integer_or("split.no", 0));
    if (count <= 1) {
        if (!name || name->count == 1) return 1;
        return fail("{}: its name says that it is one of {} parts, but its key split.count says that it is not split", shown, name->count);
    }
    if (!name) {
        return fail("{}: is part {} of {} (split.no, split.count), but its name does not end in -{:05}-of-{:05}.gguf, so the others cannot be found",
                    shown, number + 1, count, number + 1, count);
    }
    if (name->count != count) return fail("{}: its name says {} parts, its key split.count says {}", shown, name->count, count);
    if (number != 0) return fail("{}: its name says part 1, its key split.no says part {}", shown, number + 1);
    return count;
}

// That `part`, in its place `number` (from 0), belongs to `first`.
Result<void> check_part(const File& first, const File& part, int64_t number, int64_t count) {
    const std::string shown = escaped(part.path(), 4096);
    if (part.version() != first.version()) {
        return fail("{}: split parts disagree: this part has GGUF version {}, the first {}", shown, part.version(), first.version());
    }
    CELLAR_TRY(const int64_t its_number, part.integer("split.no"));
    if (its_number != number) return fail("{}: its name says part {}, its key split.no says part {}", shown, number + 1, its_number + 1);
    CELLAR_TRY(const int64_t its_count, part.integer("split.count"));
    if (its_count != count) return fail("{}: split parts disagree: split.count is {} here, {} in the first part", shown, its_count, count);
    CELLAR_TRY(const int64_t tensors, first.integer_or("split.tensors.count", -1));
    CELLAR_TRY(const int64_t its_tensors, part.integer_or("split.tensors.count", tensors));
    if (its_tensors != tensors) {
        return fail("{}: split parts disagree: split.tensors.count is {} here, {} in the first part", shown, its_tensors, tensors);
    }
    constexpr std::string_view kArchitecture = "general.architecture";
    CELLAR_TRY(const auto architecture, first.string_or(kArchitecture, ""));
    CELLAR_TRY(const auto its_architecture, part.string_or(kArchitecture, architecture));
    if (its_architecture != architecture) {
        return fail("{}: split parts disagree: {} is {} here, {} in the first part", shown, kArchitecture, quoted(its_architecture),
                    quoted(architecture));
    }
    return {};
}

}  // namespace

std::vector<std::string> part_paths(const std::string& path) {
    const auto name = split_name(path);
    if (!name) return {path};
    std::vector<std::string> out;
    for (int part = 1; part <= name->count; ++part) out.push_back(name->path(part));
    return out;
}

Result<File> File::open_alone(const std::string& path) {
    CELLAR_TRY(MappedFile map, MappedFile::open(path));
    CELLAR_TRY(File file, read(map.bytes(), path));
    file.maps_.push_back(std::move(map));
    return file;
}

Result<File> File::open(const std::string& path) {
    CELLAR_TRY(File file, open_alone(path));
    const std::optional<SplitName> name = split_name(path);
    if (name && name->part > 1) {
        return fail("{}: is part {} of {}; open the first part, {}", file.shown_, name->part, name->count, escaped(name->path(1), 4096));
    }
    CELLAR_TRY(const int64_t count, count_parts(file, name, file.shown_));
    for (int64_t number = 1; number < count; ++number) {
        auto part = open_alone(name->path(number + 1));
        if (!part) return fail(part.error().kind, "part {} of {}: {}", number + 1, count, part.error().message);
        CELLAR_TRY_VOID(check_part(file, *part, number, count));
        file.tensors_.insert(file.tensors_.end(), part->tensors_.begin(), part->tensors_.end());
        file.file_bytes_ += part->file_bytes_;
        file.maps_.push_back(std::move(part->maps_.front()));
    }
    const auto found = static_cast<int64_t>(file.tensors_.size());
    CELLAR_TRY(const int64_t tensors, file.integer_or("split.tensors.count", found));
    if (count > 1 && tensors != found) {
        return fail("{}: split parts disagree: split.tensors.count is {}, but the {} parts have {} tensors", file.shown_, tensors, count, found);
    }
    CELLAR_TRY_VOID(file.index_tensors());
    return file;
}

}  // namespace cellar::gguf
