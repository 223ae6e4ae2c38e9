#include "model/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "base/file.h"
#include "base/quote.h"
#include "tensor/row_codec.h"

namespace cellar::gguf {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& out, std::span<const std::byte> bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
void append_value(Bytes& out, T value) {
    append(out, std::as_bytes(std::span<const T>(&value, 1)));
}

void append_string(Bytes& out, std::string_view text) {
    append_value(out, static_cast<uint64_t>(text.size()));
    append(out, std::as_bytes(std::span<const char>(text)));
}

void append_type(Bytes& out, ValueType type) {
    append_value(out, static_cast<uint32_t>(type));
}

uint64_t padding(uint64_t position, uint64_t alignment) {
    return (alignment - position % alignment) % alignment;
}

uint64_t tensor_bytes(DType type, const std::vector<int64_t>& dims) {
    CHECK(!dims.empty() && dims.size() <= 4);
    uint64_t bytes = row_bytes(type, dims[0]);
    for (size_t i = 1; i < dims.size(); ++i) bytes *= static_cast<uint64_t>(dims[i]);
    return bytes;
}

}  // namespace

Writer::Writer(uint32_t version, uint32_t alignment) : version_(version), alignment_(alignment) {
    CHECK(std::has_single_bit(alignment));
    if (alignment != 32) add("general.alignment", alignment);
}

void Writer::add_scalars(std::string_view key, ValueType type, bool array, uint64_t count, std::span<const std::byte> values) {
    Bytes value;
    if (array) append_type(value, ValueType::Array);
    append_type(value, type);
    if (array) append_value(value, count);
    append(value, values);
    keys_.push_back({std::string(key), std::move(value)});
}

void Writer::add(std::string_view key, std::string_view text) {
    Bytes value;
    append_type(value, ValueType::String);
    append_string(value, text);
    keys_.push_back({std::string(key), std::move(value)});
}

void Writer::add_strings(std::string_view key, const std::vector<std::string>& texts) {
    Bytes value;
    append_type(value, ValueType::Array);
    append_type(value, ValueType::String);
    append_value(value, static_cast<uint64_t>(texts.size()));
    for (const std::string& text : texts) append_string(value, text);
    keys_.push_back({std::string(key), std::move(value)});
}

void Writer::add_raw(std::string_view key, ValueType type, std::span<const std::byte> value) {
    add_scalars(key, type, false, 1, value);
}

void Writer::add_tensor(std::string_view name, DType type, const std::vector<int64_t>& dims, Bytes data) {
    const uint64_t bytes = tensor_bytes(type, dims);
    CHECK_EQ(data.size(), bytes);
    tensors_.push_back({std::string(name), type, dims, bytes, std::move(data), nullptr});
}

void Writer::add_tensor(std::string_view name, DType type, const std::vector<int64_t>& dims, const std::vector<float>& values) {
    Bytes data(static_cast<size_t>(tensor_bytes(type, dims)));
    const auto width = static_cast<size_t>(dims[0]);
    const size_t bytes = row_bytes(type, dims[0]);
    CHECK_EQ(values.size() * bytes, data.size() * width);
    for (size_t row = 0; row * width < values.size(); ++row) {
        encode_row(type, values.data() + row * width, dims[0], data.data() + row * bytes);
    }
    add_tensor(name, type, dims, std::move(data));
}

void Writer::add_tensor(std::string_view name, DType type, const std::vector<int64_t>& dims, Source source) {
    tensors_.push_back({std::string(name), type, dims, tensor_bytes(type, dims), {}, std::move(source)});
}

// Everything up to the data of the first tensor.
Bytes Writer::head(std::span<const Pair> keys, std::span<const Tensor> tensors) const {
    Bytes out;
    append(out, std::as_bytes(std::span<const char>("GGUF", 4)));
    append_value(out, version_);
    append_value(out, static_cast<uint64_t>(tensors.size()));
    append_value(out, static_cast<uint64_t>(keys.size()));
    for (const Pair& pair : keys) {
        append_string(out, pair.key);
        append(out, pair.value);
    }
    uint64_t offset = 0;
    for (const Tensor& tensor : tensors) {
        append_string(out, tensor.name);
        append_value(out, static_cast<uint32_t>(tensor.dims.size()));
        for (const int64_t dim : tensor.dims) append_value(out, dim);
        append_value(out, static_cast<uint32_t>(tensor.type));
        append_value(out, offset);
        offset += tensor.bytes + padding(tensor.bytes, alignment_);
    }
    if (!tensors.empty()) out.resize(out.size() + static_cast<size_t>(padding(out.size(), alignment_)));
    return out;
}

Result<void> Writer::emit(std::span<const Pair> keys, std::span<const Tensor> tensors, const Sink& sink) const {
    CELLAR_TRY_VOID(sink(head(keys, tensors)));
    const Bytes zeros(alignment_);
    for (const Tensor& tensor : tensors) {
        if (tensor.source) {
            uint64_t sent = 0;
            CELLAR_TRY_VOID(tensor.source([&](std::span<const std::byte> bytes) {
                sent += bytes.size();
                return sink(bytes);
            }));
            if (sent != tensor.bytes) {
                return fail("tensor {}: its source sent {} bytes, but it has {}", quoted(tensor.name), sent, tensor.bytes);
            }
        } else {
            CELLAR_TRY_VOID(sink(tensor.data));
        }
        CELLAR_TRY_VOID(sink(std::span(zeros).first(static_cast<size_t>(padding(tensor.bytes, alignment_)))));
    }
    return {};
}

Result<void> Writer::write_part(std::span<const Pair> keys, std::span<const Tensor> tensors, const std::string& path) const {
    CELLAR_TRY(AtomicFile file, AtomicFile::create(path));
    // Small pieces are gathered: a tiny model has hundreds of tensors of a few bytes.
    constexpr size_t kGather = 1 << 20;
    Bytes gathered;
    const auto flush = [&]() -> Result<void> {
        CELLAR_TRY_VOID(file.write(gathered));
        gathered.clear();
        return {};
    };
    CELLAR_TRY_VOID(emit(keys, tensors, [&](std::span<const std::byte> bytes) -> Result<void> {
        if (gathered.size() + bytes.size() > kGather) CELLAR_TRY_VOID(flush());
        if (bytes.size() > kGather) return file.write(bytes);
        append(gathered, bytes);
        return {};
    }));
    CELLAR_TRY_VOID(flush());
    return file.commit();
}

Result<void> Writer::write(const std::string& path) const {
    return write_part(keys_, tensors_, path);
}

Result<Bytes> Writer::to_bytes() const {
    uint64_t total = 0;
    for (const Tensor& tensor : tensors_) total += tensor.bytes + alignment_;
    Bytes out;
    out.reserve(static_cast<size_t>(total) + 65536);
    CELLAR_TRY_VOID(emit(keys_, tensors_, [&](std::span<const std::byte> bytes) -> Result<void> {
        append(out, bytes);
        return {};
    }));
    return out;
}

Result<std::vector<std::string>> Writer::write_split(const std::string& stem, int parts) const {
    CHECK(parts >= 1 && parts <= 65535);
    const auto count = static_cast<size_t>(parts);
    std::vector<std::string> paths;
    for (size_t part = 0; part < count; ++part) {
        Writer keys(version_, alignment_);
        if (part == 0) keys.keys_ = keys_;
        keys.add("split.no", static_cast<uint16_t>(part));
        keys.add("split.count", static_cast<uint16_t>(count));
        keys.add("split.tensors.count", static_cast<int32_t>(tensors_.size()));
        const size_t begin = tensors_.size() * part / count;
        const size_t end = tensors_.size() * (part + 1) / count;
        paths.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", stem, part + 1, count));
        CELLAR_TRY_VOID(write_part(keys.keys_, std::span(tensors_).subspan(begin, end - begin), paths.back()));
    }
    return paths;
}

}  // namespace cellar::gguf
