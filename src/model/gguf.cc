#include "model/gguf.h"

#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "base/quote.h"
#include "model/gguf_part.h"

namespace cellar::gguf {
namespace {

// "u32", "array of 12 string": a key's type as messages say it.
std::string type_text(const Key& key) {
    if (key.type != ValueType::Array) return std::string(name(key.type));
    return fmt::format("an array of {} {}", key.count, name(key.element));
}

bool is_scalar(const Key& key) {
    return key.type != ValueType::Array;
}

// A plain cast leaves open what a double beyond the largest float becomes; here it is an infinity.
float to_float(double value) {
    constexpr double kMost = std::numeric_limits<float>::max();
    if (std::isfinite(value) && std::abs(value) > kMost) return std::copysign(std::numeric_limits<float>::infinity(), value > 0 ? 1.0F : -1.0F);
    return static_cast<float>(value);
}

std::string_view string_at(const std::byte* length) {
    return {reinterpret_cast<const char*>(length + 8), static_cast<size_t>(load<uint64_t>(length))};
}

// An integer of any type. u64 values above 2^63 - 1 do not fit.
struct Loaded {
    int64_t value = 0;
    uint64_t too_large = 0;  // the value, if it does not fit
};
Loaded load_any(ValueType type, const std::byte* data) {
    switch (type) {
        case ValueType::U8:
            return {load<uint8_t>(data)};
        case ValueType::I8:
            return {load<int8_t>(data)};
        case ValueType::U16:
            return {load<uint16_t>(data)};
        case ValueType::I16:
            return {load<int16_t>(data)};
        case ValueType::U32:
            return {load<uint32_t>(data)};
        case ValueType::I32:
            return {load<int32_t>(data)};
        case ValueType::I64:
            return {load<int64_t>(data)};
        default:
            break;
    }
    CHECK(type == ValueType::U64);
    const auto value = load<uint64_t>(data);
    if (value > static_cast<uint64_t>(INT64_MAX)) return {0, value};
    return {static_cast<int64_t>(value)};
}

std::string scalar_text(ValueType type, const std::byte* data, size_t max_bytes) {
    if (type == ValueType::String) return quoted(string_at(data), max_bytes);
    if (type == ValueType::Bool) return load<uint8_t>(data) != 0 ? "true" : "false";
    if (type == ValueType::F32) return fmt::format("{}", load<float>(data));
    if (type == ValueType::F64) return fmt::format("{}", load<double>(data));
    const Loaded loaded = load_any(type, data);
    return loaded.too_large != 0 ? fmt::format("{}", loaded.too_large) : fmt::format("{}", loaded.value);
}

}  // namespace

std::string_view name(ValueType type) {
    static constexpr std::array<std::string_view, 13> kNames{"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                             "bool", "string", "array", "u64", "i64", "f64"};
    const auto number = static_cast<size_t>(type);
    return number < kNames.size() ? kNames[number] : "?";
}

std::string_view StringArray::operator[](size_t i) const {
    CHECK_LT(i, offsets_.size());
    return string_at(data_ + offsets_[i]);
}

Result<File> File::read(std::span<const std::byte> bytes, std::string name) {
    File file;
    file.path_ = std::move(name);
    file.shown_ = escaped(file.path_, 4096);
    CELLAR_TRY(Part part, parse_part(bytes, file.shown_));
    file.version_ = part.version;
    file.alignment_ = part.alignment;
    file.file_bytes_ = bytes.size();
    file.keys_ = std::move(part.keys);
    file.key_order_ = std::move(part.key_order);
    file.tensors_ = std::move(part.tensors);
    return file;
}

Result<File> File::parse(std::span<const std::byte> bytes, std::string name) {
    CELLAR_TRY(File file, read(bytes, std::move(name)));
    CELLAR_TRY(const int64_t parts, file.integer_or("split.count", 1));
    if (parts > 1) return fail("{}: is one of {} split parts, which can only be opened by their path", file.shown_, parts);
    CELLAR_TRY_VOID(file.index_tensors());
    return file;
}

Result<void> File::index_tensors() {
    tensor_order_ = order_by_name(tensors_);
    if (const TensorInfo* twice = find_duplicate(tensors_, tensor_order_)) return fail("{}: duplicate tensor {}", shown_, quoted(twice->name));
    return {};
}

const TensorInfo* File::tensor(std::string_view name) const {
    return find_by_name(tensors_, tensor_order_, name);
}

const Key* File::find(std::string_view key) const {
    return find_by_name(keys_, key_order_, key);
}

Result<const Key*> File::require(std::string_view key) const {
    const Key* found = find(key);
    if (found == nullptr) return fail("{}: key {} is missing", shown_, quoted(key));
    return found;
}

tl::unexpected<Error> File::mistyped(const Key& key, std::string_view wanted) const {
    return fail("{}: key {} should be {}, but it is {}", shown_, quoted(key.name), wanted, type_text(key));
}

std::string File::value_text(std::string_view key, size_t max_items, size_t max_bytes) const {
    const Key* found = find(key);
    if (found == nullptr) return {};
    if (is_scalar(*found)) return scalar_text(found->type, found->data, max_bytes);
    if (found->element == ValueType::Array) return fmt::format("[{} arrays]", found->count);
    std::string text = "[";
    const std::byte* at = found->data;
    const uint64_t shown = std::min<uint64_t>(found->count, max_items);
    for (uint64_t i = 0; i < shown; ++i) {
        if (i > 0) text += ", ";
        text += scalar_text(found->element, at, max_bytes);
        at += found->element == ValueType::String ? 8 + string_at(at).size() : fixed_bytes(found->element);
    }
    if (shown < found->count) text += fmt::format("{}... {} in all", shown > 0 ? ", " : "", found->count);
    return text + "]";
}

Result<int64_t> File::load_integer(const Key& key, size_t i, int64_t low, int64_t high) const {
    const Loaded loaded = load_any(key.element, key.data + i * fixed_bytes(key.element));
    if (loaded.too_large == 0 && loaded.value >= low && loaded.value <= high) return loaded.value;
    const std::string value = loaded.too_large != 0 ? fmt::format("{}", loaded.too_large) : fmt::format("{}", loaded.value);
    const std::string where = is_scalar(key) ? "" : fmt::format(", element {},", i);
    if (loaded.too_large != 0) return fail("{}: key {}{} is {}, which is too large", shown_, quoted(key.name), where, value);
    if (low == kMin) return fail("{}: key {}{} is {}, but may be at most {}", shown_, quoted(key.name), where, value, high);
    if (high == kMax) return fail("{}: key {}{} is {}, but must be at least {}", shown_, quoted(key.name), where, value, low);
    return fail("{}: key {}{} is {}, but must be from {} to {}", shown_, quoted(key.name), where, value, low, high);
}

Result<int64_t> File::integer(std::string_view key, int64_t low, int64_t high) const {
    CELLAR_TRY(const Key* found, require(key));
    if (!is_integer(found->type)) return mistyped(*found, "an integer");
    return load_integer(*found, 0, low, high);
}

Result<int64_t> File::integer_or(std::string_view key, int64_t otherwise, int64_t low, int64_t high) const {
    return has(key) ? integer(key, low, high) : otherwise;
}

Result<float> File::number(std::string_view key) const {
    CELLAR_TRY(const Key* found, require(key));
    if (!is_float(found->type) && !is_integer(found->type)) return mistyped(*found, "a number");
    CELLAR_TRY(const std::vector<float> values, numbers(key));
    if (!std::isfinite(values[0])) return fail("{}: key {} is {}, which is not a finite float", shown_, quoted(key), value_text(key));
    return values[0];
}

Result<float> File::number_or(std::string_view key, float otherwise) const {
    return has(key) ? number(key) : otherwise;
}

Result<bool> File::boolean(std::string_view key) const {
    CELLAR_TRY(const Key* found, require(key));
    if (found->type != ValueType::Bool) return mistyped(*found, "a bool");
    return load<uint8_t>(found->data) != 0;
}

Result<bool> File::boolean_or(std::string_view key, bool otherwise) const {
    return has(key) ? boolean(key) : otherwise;
}

Result<std::string_view> File::string(std::string_view key) const {
    CELLAR_TRY(const Key* found, require(key));
    if (found->type != ValueType::String) return mistyped(*found, "a string");
    return string_at(found->data);
}

Result<std::string_view> File::string_or(std::string_view key, std::string_view otherwise) const {
    return has(key) ? string(key) : otherwise;
}

Result<std::vector<int64_t>> File::integers(std::string_view key, int64_t low, int64_t high) const {
    CELLAR_TRY(const Key* found, require(key));
    if (!is_integer(found->element)) return mistyped(*found, "an integer or an array of them");
    std::vector<int64_t> values(static_cast<size_t>(found->count));
    for (size_t i = 0; i < values.size(); ++i) {
        CELLAR_TRY(values[i], load_integer(*found, i, low, high));
    }
    return values;
}

Result<std::vector<float>> File::numbers(std::string_view key) const {
    CELLAR_TRY(const Key* found, require(key));
    if (!is_float(found->element) && !is_integer(found->element)) return mistyped(*found, "a number or an array of them");
    std::vector<float> values(static_cast<size_t>(found->count));
    if (found->element == ValueType::F32) {
        if (!values.empty()) std::memcpy(values.data(), found->data, found->bytes);
        return values;
    }
    for (size_t i = 0; i < values.size(); ++i) {
        if (is_float(found->element)) {
            values[i] = to_float(load<double>(found->data + i * 8));
        } else {
            const Loaded loaded = load_any(found->element, found->data + i * fixed_bytes(found->element));
            values[i] = loaded.too_large != 0 ? static_cast<float>(loaded.too_large) : static_cast<float>(loaded.value);
        }
    }
    return values;
}

Result<std::vector<bool>> File::booleans(std::string_view key) const {
    CELLAR_TRY(const Key* found, require(key));
    if (found->element != ValueType::Bool) return mistyped(*found, "a bool or an array of them");
    std::vector<bool> values(static_cast<size_t>(found->count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = load<uint8_t>(found->data + i) != 0;
    return values;
}

Result<StringArray> File::strings(std::string_view key) const {
    CELLAR_TRY(const Key* found, require(key));
    if (found->element != ValueType::String) return mistyped(*found, "a string or an array of them");
    StringArray strings;
    strings.data_ = found->data;
    strings.offsets_.resize(static_cast<size_t>(found->count));
    uint64_t offset = 0;
    for (uint64_t& at : strings.offsets_) {
        at = offset;
        offset += 8 + load<uint64_t>(found->data + offset);
    }
    return strings;
}

void File::drop(const TensorInfo& tensor) const {
    // Each map cuts the range to itself, so only the one that holds the tensor does anything.
    for (const MappedFile& map : maps_) map.drop({tensor.data, tensor.bytes});
}

}  // namespace cellar::gguf
