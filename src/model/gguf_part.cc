#include "model/gguf_part.h"

#include <bit>

#include <fmt/format.h>

#include "base/check.h"
#include "base/quote.h"

namespace cellar::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read as they stand in the file");

constexpr int kMaxDepth = 4;             // arrays inside arrays
constexpr size_t kMaxKeyBytes = 65535;   // the format's limit
constexpr size_t kMaxTensorName = 1024;  // the format says 64; longer ones do no harm
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;             // name, type, a value of one byte
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, one dimension, type, offset

bool is_type(uint32_t number) {
    return number <= static_cast<uint32_t>(ValueType::F64);
}

// Fewest bytes of an element of an array.
uint64_t least_bytes(ValueType type) {
    if (type == ValueType::String) return 8;
    if (type == ValueType::Array) return 4 + 8;
    return fixed_bytes(type);
}

// Reads from the front of the bytes; what it is reading stands in its messages.
class Cursor {
  public:
    Cursor(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

    [[nodiscard]] uint64_t position() const { return position_; }
    [[nodiscard]] uint64_t left() const { return bytes_.size() - position_; }
    [[nodiscard]] const std::byte* data() const { return bytes_.data() + position_; }

    // Requires: 1 <= count; what is a word or two: "the type of key 'a.b'".
    template <class T>
    Result<T> take(std::string_view what) {
        if (left() < sizeof(T)) return truncated(what, sizeof(T));
        const T value = load<T>(data());
        position_ += sizeof(T);
        return value;
    }

    Result<void> skip(uint64_t bytes, std::string_view what) {
        if (left() < bytes) return truncated(what, bytes);
        position_ += bytes;
        return {};
    }

    // A length and that many bytes.
    Result<std::string_view> take_string(std::string_view what, uint64_t max_bytes) {
        const uint64_t start = position_;
        CELLAR_TRY(const auto length, take<uint64_t>(what));
        if (length > left()) {
            return fail("{}: truncated: {} at byte {} says it has {} bytes, but the file ends {} bytes later", file_, what, start, length, left());
        }
        if (length > max_bytes) return fail("{}: {} at byte {} is too long: {} bytes, at most {}", file_, what, start, length, max_bytes);
        const std::string_view text(reinterpret_cast<const char*>(data()), static_cast<size_t>(length));
        position_ += length;
        return text;
    }

  private:
    tl::unexpected<Error> truncated(std::string_view what, uint64_t bytes) const {
        return fail("{}: truncated: {} at byte {} needs {} bytes, but only {} are left", file_, what, position_, bytes, left());
    }

    std::span<const std::byte> bytes_;
    const std::string& file_;
    uint64_t position_ = 0;
};

struct Header {
    uint32_t version = 0;
    uint64_t tensors = 0;
    uint64_t keys = 0;
};

// What people pass by mistake.
std::string_view guess_format(std::span<const std::byte> bytes) {
    struct Start {
        std::string_view bytes;
        std::string_view meaning;
    };
    static constexpr std::array<Start, 6> kStarts{{
        {"version https://git-lfs", ": it is a Git LFS pointer; fetch the file itself with 'git lfs pull'"},
        {"PK\x03\x04", ": it is a zip archive, perhaps a PyTorch checkpoint; convert it to GGUF"},
        {"tjgg", ": it is an older GGML file; convert the model again"},
        {"lmgg", ": it is an older GGML file; convert the model again"},
        {"fmgg", ": it is an older GGML file; convert the model again"},
        {"<", ": it looks like a web page; the download went wrong"},
    }};
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (const Start& start : kStarts) {
        if (text.substr(0, start.bytes.size()) == start.bytes) return start.meaning;
    }
    const bool json_behind_length = text.size() > 9 && text[8] == '{' && text.substr(4, 4) == std::string_view("\0\0\0\0", 4);
    return json_behind_length ? ": it looks like a safetensors file; convert it to GGUF" : "";
}

Result<Header> read_header(Cursor& cursor, std::span<const std::byte> bytes, const std::string& file) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.substr(0, 4) == "FUGG") return fail("{}: is a big-endian GGUF file, only little-endian ones are read", file);
    if (text.substr(0, 4) != "GGUF") {
        return fail("{}: not a GGUF file: begins with {}, not with 'GGUF'{}", file, quoted(text.substr(0, 4)), guess_format(bytes));
    }
    CELLAR_TRY_VOID(cursor.skip(4, "the magic"));
    Header header;
    CELLAR_TRY(header.version, cursor.take<uint32_t>("the version"));
    if ((header.version & 0xFFFF) == 0 && header.version != 0) {
        return fail("{}: is a big-endian GGUF file, only little-endian ones are read", file);
    }
    if (header.version == 1) return fail("{}: GGUF version 1 is not supported, only 2 and 3; convert the model again", file);
    if (header.version != 2 && header.version != 3) return fail("{}: GGUF version {} is not supported, only 2 and 3", file, header.version);
    CELLAR_TRY(header.tensors, cursor.take<uint64_t>("the number of tensors"));
    CELLAR_TRY(header.keys, cursor.take<uint64_t>("the number of keys"));
    // Counts are believed only as far as the bytes that are left could hold them; only then is memory reserved.
    if (header.keys > cursor.left() / kMinKeyBytes) {
        return fail("{}: says it has {} keys, but the {} bytes behind the header cannot hold that many", file, header.keys, cursor.left());
    }
    const uint64_t left = cursor.left() - header.keys * kMinKeyBytes;
    if (header.tensors > left / kMinTensorBytes) {
        return fail("{}: says it has {} tensors, but the {} bytes behind the header cannot hold that many", file, header.tensors, cursor.left());
    }
    return header;
}

class KeyReader {
  public:
    KeyReader(Cursor& cursor, const std::string& file) : cursor_(cursor), file_(file) {}

    Result<Key> read(uint64_t index) {
        Key key{};
        CELLAR_TRY(key.name, cursor_.take_string(fmt::format("the name of key {}", index), kMaxKeyBytes));
        if (key.name.empty()) return fail("{}: key {} has an empty name", file_, index);
        shown_ = "key " + quoted(key.name);
        CELLAR_TRY(key.type, read_type("the type of " + shown_));
        key.element = key.type;
        key.count = 1;
        if (key.type == ValueType::Array) {
            CELLAR_TRY(key.element, read_type("the element type of " + shown_));
            CELLAR_TRY(key.count, read_count(key.element));
        }
        key.data = cursor_.data();
        CELLAR_TRY_VOID(skip_values(key.element, key.count, key.type == ValueType::Array ? 1 : 0));
        key.bytes = static_cast<size_t>(cursor_.data() - key.data);
        return key;
    }

  private:
    Result<ValueType> read_type(const std::string& what) {
        CELLAR_TRY(const auto number, cursor_.take<uint32_t>(what));
        if (!is_type(number)) return fail("{}: {} is {}, which is no type of value (0 to 12)", file_, what, number);
        return static_cast<ValueType>(number);
    }

    Result<uint64_t> read_count(ValueType element) {
        CELLAR_TRY(const auto count, cursor_.take<uint64_t>("the length of " + shown_));
        if (count > cursor_.left() / least_bytes(element)) {
            return fail("{}: {} says it has {} elements of type {}, but the {} bytes that are left cannot hold that many", file_, shown_, count,
                        name(element), cursor_.left());
        }
        return count;
    }

    // `depth` counts the arrays around the values.
    Result<void> skip_values(ValueType type, uint64_t count, int depth) {
        if (type == ValueType::String) {
            const std::string what = "a string of " + shown_;
            for (uint64_t i = 0; i < count; ++i) CELLAR_TRY_VOID(cursor_.take_string(what, UINT64_MAX));
            return {};
        }
        if (type == ValueType::Array) {
            if (depth >= kMaxDepth) return fail("{}: {} nests arrays too deep, at most {} levels", file_, shown_, kMaxDepth);
            for (uint64_t i = 0; i < count; ++i) {
                CELLAR_TRY(const ValueType element, read_type("the element type of " + shown_));
                CELLAR_TRY(const uint64_t length, read_count(element));
                CELLAR_TRY_VOID(skip_values(element, length, depth + 1));
            }
            return {};
        }
        const std::byte* values = cursor_.data();
        // read_count has shown that an array fits, so the product does not overflow.
        CELLAR_TRY_VOID(cursor_.skip(count * fixed_bytes(type), "the value of " + shown_));
        if (type != ValueType::Bool) return {};
        const auto* wrong = std::find_if(values, cursor_.data(), [](std::byte b) { return b > std::byte{1}; });
        if (wrong == cursor_.data()) return {};
        return fail("{}: {} has the bool {}, a bool is 0 or 1", file_, shown_, std::to_integer<int>(*wrong));
    }

    Cursor& cursor_;
    const std::string& file_;
    std::string shown_;  // the key that is being read, for messages
};

Result<uint32_t> read_alignment(const Part& part, const std::string& file) {
    const Key* key = find_by_name(part.keys, part.key_order, "general.alignment");
    if (key == nullptr) return kDefaultAlignment;
    if (key->type != ValueType::U32) return fail("{}: general.alignment has type {}, not u32", file, name(key->type));
    const auto alignment = load<uint32_t>(key->data);
    if (!std::has_single_bit(alignment)) return fail("{}: general.alignment is {}, which is not a power of two", file, alignment);
    if (alignment < 8) return fail("{}: general.alignment is {}, it must be a multiple of 8", file, alignment);
    return alignment;
}

std::string known_types() {
    std::string text;
    for (const DTypeInfo& type : all_dtypes()) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", static_cast<uint32_t>(type.type), type.name);
    return text;
}

// Bytes of the tensor, with every product checked.
Result<size_t> tensor_bytes(const TensorInfo& tensor, const DTypeInfo& type, const std::string& shown) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.dims) {
        if (__builtin_mul_overflow(elements, dim, &elements)) {
            return fail("{} has dimensions whose product overflows: {}", shown,
                        fmt::join(tensor.dims.data(), tensor.dims.data() + tensor.n_dims, " x "));
        }
    }
    if (tensor.dims[0] % type.block != 0) {
        return fail("{} has rows of {} elements, which is not a multiple of the block of {}: {}", shown, tensor.dims[0], type.name, type.block);
    }
    int64_t bytes = 0;
    if (__builtin_mul_overflow(elements / type.block, static_cast<int64_t>(type.block_bytes), &bytes)) {
        return fail("{} has a size in bytes that overflows: {} elements of {}", shown, elements, type.name);
    }
    return static_cast<size_t>(bytes);
}

struct RawTensor {
    TensorInfo info;
    uint64_t offset;  // from the start of the data
};

Result<RawTensor> read_tensor(Cursor& cursor, uint64_t index, const std::string& file) {
    RawTensor tensor{};
    TensorInfo& info = tensor.info;
    CELLAR_TRY(info.name, cursor.take_string(fmt::format("the name of tensor {}", index), kMaxTensorName));
    if (info.name.empty()) return fail("{}: tensor {} has an empty name", file, index);
    const std::string shown = "tensor " + quoted(info.name);
    CELLAR_TRY(const auto n_dims, cursor.take<uint32_t>("the number of dimensions of " + shown));
    if (n_dims < 1 || n_dims > 4) return fail("{}: {} has {} dimensions, it must have 1 to 4", file, shown, n_dims);
    info.n_dims = static_cast<int>(n_dims);
    info.dims.fill(1);
    for (uint32_t i = 0; i < n_dims; ++i) {
        CELLAR_TRY(const auto dim, cursor.take<uint64_t>("a dimension of " + shown));
        if (dim == 0) return fail("{}: {} has dimension {} of size 0", file, shown, i);
        if (dim > static_cast<uint64_t>(INT64_MAX)) return fail("{}: {} has dimension {} of size {}, which overflows", file, shown, i, dim);
        info.dims[i] = static_cast<int64_t>(dim);
    }
    CELLAR_TRY(const auto number, cursor.take<uint32_t>("the type of " + shown));
    const DTypeInfo* type = find_dtype(number);
    if (type == nullptr) return fail("{}: {} has the unknown type {}; known are {}", file, shown, number, known_types());
    info.type = type->type;
    CELLAR_TRY(info.bytes, tensor_bytes(info, *type, file + ": " + shown));
    CELLAR_TRY(tensor.offset, cursor.take<uint64_t>("the offset of " + shown));
    return tensor;
}

// Gives each tensor its data.
Result<void> place_tensors(std::vector<RawTensor>& tensors, std::span<const std::byte> bytes, uint64_t end_of_infos, uint32_t alignment,
                           const std::string& file) {
    const uint64_t padding = (alignment - end_of_infos % alignment) % alignment;
    if (padding > bytes.size() - end_of_infos) {
        return fail("{}: truncated: the data of {} tensors should begin at byte {}, but the file has {} bytes", file, tensors.size(),
                    end_of_infos + padding, bytes.size());
    }
    const std::span<const std::byte> data = bytes.subspan(static_cast<size_t>(end_of_infos + padding));
    for (RawTensor& tensor : tensors) {
        TensorInfo& info = tensor.info;
        if (tensor.offset % alignment != 0) {
            return fail("{}: tensor {} begins at offset {}, which is not aligned to {}", file, quoted(info.name), tensor.offset, alignment);
        }
        if (tensor.offset > data.size() || info.bytes > data.size() - tensor.offset) {
            return fail("{}: tensor {} lies outside the file: {} bytes at offset {} of {} bytes of data; the file may be truncated", file,
                        quoted(info.name), info.bytes, tensor.offset, data.size());
        }
        info.data = data.data() + tensor.offset;
    }
    std::vector<uint32_t> order(tensors.size());
    std::iota(order.begin(), order.end(), uint32_t{0});
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return tensors[a].offset < tensors[b].offset; });
    for (size_t i = 1; i < order.size(); ++i) {
        const RawTensor& before = tensors[order[i - 1]];
        const RawTensor& after = tensors[order[i]];
        if (before.offset + before.info.bytes > after.offset) {
            return fail("{}: tensors {} and {} overlap: {} bytes at offset {}, and offset {}", file, quoted(before.info.name),
                        quoted(after.info.name), before.info.bytes, before.offset, after.offset);
        }
    }
    return {};
}

}  // namespace

size_t fixed_bytes(ValueType type) {
    switch (type) {
        case ValueType::U8:
        case ValueType::I8:
        case ValueType::Bool:
            return 1;
        case ValueType::U16:
        case ValueType::I16:
            return 2;
        case ValueType::U32:
        case ValueType::I32:
        case ValueType::F32:
            return 4;
        case ValueType::U64:
        case ValueType::I64:
        case ValueType::F64:
            return 8;
        case ValueType::String:
        case ValueType::Array:
            return 0;
    }
    return 0;
}

bool is_float(ValueType type) {
    return type == ValueType::F32 || type == ValueType::F64;
}

bool is_integer(ValueType type) {
    return !is_float(type) && type != ValueType::Bool && fixed_bytes(type) != 0;
}

Result<Part> parse_part(std::span<const std::byte> bytes, const std::string& file) {
    Cursor cursor(bytes, file);
    CELLAR_TRY(const Header header, read_header(cursor, bytes, file));
    if (header.keys > UINT32_MAX || header.tensors > UINT32_MAX) return fail("{}: more than 2^32 keys or tensors", file);
    Part part;
    part.version = header.version;
    part.keys.reserve(static_cast<size_t>(header.keys));
    KeyReader reader(cursor, file);
    for (uint64_t i = 0; i < header.keys; ++i) {
        CELLAR_TRY(const Key key, reader.read(i));
        part.keys.push_back(key);
    }
    part.key_order = order_by_name(part.keys);
    if (const Key* twice = find_duplicate(part.keys, part.key_order)) return fail("{}: duplicate key {}", file, quoted(twice->name));
    CELLAR_TRY(part.alignment, read_alignment(part, file));

    std::vector<RawTensor> tensors;
    tensors.reserve(static_cast<size_t>(header.tensors));
    for (uint64_t i = 0; i < header.tensors; ++i) {
        CELLAR_TRY(const RawTensor tensor, read_tensor(cursor, i, file));
        tensors.push_back(tensor);
    }
    if (tensors.empty()) return part;
    CELLAR_TRY_VOID(place_tensors(tensors, bytes, cursor.position(), part.alignment, file));
    part.tensors.reserve(tensors.size());
    for (const RawTensor& tensor : tensors) part.tensors.push_back(tensor.info);
    return part;
}

}  // namespace cellar::gguf
