// Any bytes, read as a GGUF file; whatever is accepted is walked to its last byte.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "model/gguf.h"

namespace {

using cellar::gguf::File;

void walk(const File& file) {
    size_t sum = 0;
    for (const auto& key : file.keys()) {
        if (file.find(key.name) != &key) std::abort();
        sum += file.value_text(key.name).size() + file.value_text(key.name, SIZE_MAX, SIZE_MAX).size();
        if (const auto value = file.integer(key.name)) sum += static_cast<size_t>(*value);
        if (const auto value = file.number(key.name)) sum += *value > 0 ? 1 : 0;
        if (const auto value = file.boolean(key.name)) sum += *value ? 1 : 0;
        if (const auto value = file.string(key.name)) sum += value->size();
        if (const auto values = file.integers(key.name, 0, 1000)) sum += values->size();
        if (const auto values = file.numbers(key.name)) sum += values->size();
        if (const auto values = file.booleans(key.name)) sum += values->size();
        if (const auto values = file.strings(key.name)) {
            for (const std::string_view text : *values) {
                for (const char c : text) sum += static_cast<unsigned char>(c);
            }
        }
    }
    for (const auto& tensor : file.tensors()) {
        if (file.tensor(tensor.name) != &tensor) std::abort();
        int64_t elements = 1;
        for (const int64_t dim : tensor.dims) elements *= dim;
        if (elements < 1 || tensor.bytes == 0) std::abort();
        for (size_t i = 0; i < tensor.bytes; ++i) sum += std::to_integer<size_t>(tensor.data[i]);
    }
    // Keeps the reads above.
    volatile size_t result = sum;
    (void)result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // A copy of exactly this size, so that a read behind the end is seen.
    const auto exact = std::make_unique<std::byte[]>(size);
    if (size > 0) std::memcpy(exact.get(), data, size);
    if (const auto file = File::parse({exact.get(), size}, "fuzz.gguf")) {
        walk(*file);
    } else if (file.error().message.find('\n') != std::string::npos) {
        std::abort();
    }
    return 0;
}
