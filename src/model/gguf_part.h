#pragma once
// One GGUF file, or one part of a split file: where everything stands in its bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"

namespace cellar::gguf {

struct Part {
    uint32_t version = 0;
    uint32_t alignment = 0;
    std::vector<Key> keys;            // in file order, names unique
    std::vector<uint32_t> key_order;  // [keys], sorted by name
    std::vector<TensorInfo> tensors;  // in file order; inside the bytes, aligned, not overlapping
};

// Checks everything that File promises of one file, except that tensor names are unique. `file` stands in messages.
Result<Part> parse_part(std::span<const std::byte> bytes, const std::string& file);

// Bytes of a value of a type of fixed size; 0 for strings and arrays.
size_t fixed_bytes(ValueType type);
bool is_integer(ValueType type);
bool is_float(ValueType type);

template <class T>
T load(const std::byte* data) {
    T value;
    std::memcpy(&value, data, sizeof(value));
    return value;
}

// Positions in `items`, sorted by name. A sorted list is as fast as a hash table at these sizes, and no choice of names
// makes it slow.
template <class Named>
std::vector<uint32_t> order_by_name(const std::vector<Named>& items) {
    std::vector<uint32_t> order(items.size());
    std::iota(order.begin(), order.end(), uint32_t{0});
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return items[a].name < items[b].name; });
    return order;
}

// The item of that name, or nullptr.
template <class Named>
const Named* find_by_name(const std::vector<Named>& items, const std::vector<uint32_t>& order, std::string_view name) {
    const auto at = std::lower_bound(order.begin(), order.end(), name, [&](uint32_t a, std::string_view b) { return items[a].name < b; });
    return at != order.end() && items[*at].name == name ? &items[*at] : nullptr;
}

// The first name that stands there twice, or nullptr.
template <class Named>
const Named* find_duplicate(const std::vector<Named>& items, const std::vector<uint32_t>& order) {
    const auto at = std::adjacent_find(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return items[a].name == items[b].name; });
    return at == order.end() ? nullptr : &items[*at];
}

}  // namespace cellar::gguf
