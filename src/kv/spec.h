#pragma once
// What a model asks of the cache: groups of layers with one lifetime, the rows of their cells, and what a query can see.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv/run.h"

namespace cellar::kv {

enum class RowFormat : uint8_t { F32, F16, BF16, Q8_0 };

std::string_view name(RowFormat format);                      // "f32", "f16", "bf16", "q8_0"
std::optional<RowFormat> parse_row_format(std::string_view);  // exact spelling only

// Bytes of one cell's row of one KV head. A packed row is whole 32-value blocks of 34 bytes, zero-padded where width is no
// multiple of 32, rounded up to 4 bytes; so a block never spans heads or cells.
size_t head_row_bytes(RowFormat format, int width);

// How long a cell lives: as long as a future query can see it.
struct Keep {
    enum class Kind : uint8_t { All, Window, Chunk, State };
    Kind kind = Kind::All;
    int32_t size = 0;   // Window: a token sees itself and size - 1 before it. Chunk: positions with the same pos / size see each other
    int32_t sinks = 0;  // Window only: the first `sinks` positions stay visible

    static Keep all() { return {}; }
    static Keep window(int32_t size, int32_t sinks = 0) { return {Kind::Window, size, sinks}; }
    static Keep chunk(int32_t size) { return {Kind::Chunk, size, 0}; }
    static Keep state() { return {Kind::State, 0, 0}; }
    friend bool operator==(const Keep&, const Keep&) = default;
};

// What the query at `pos` sees when nothing is bidirectional: hi is pos + 1. Requires: pos >= 0.
Visible visible(const Keep& keep, int32_t pos);

// The first position behind the sinks that the query at `pos` sees; `pos` at most. Requires: pos >= 0.
int32_t first_needed(const Keep& keep, int32_t pos);

// One row of a cell: K, V, a latent row, an indexer key...
struct RowSpec {
    std::string name;
    int heads = 0;
    int width = 0;  // elements of one head
    RowFormat format = RowFormat::F16;

    [[nodiscard]] size_t bytes() const { return static_cast<size_t>(heads) * head_row_bytes(format, width); }
};

// Layers with one lifetime. Every layer of the group is a plane of its arena.
struct GroupSpec {
    Keep keep;
    int planes = 0;
    std::vector<RowSpec> rows;

    [[nodiscard]] size_t cell_bytes() const;  // all rows of all planes
};

struct LayerPlace {
    int group = -1;  // -1: the layer keeps nothing here
    int plane = -1;  // layers that share KV point at the same plane
};

struct CacheSpec {
    std::vector<GroupSpec> groups;
    std::vector<LayerPlace> layers;

    [[nodiscard]] size_t bytes_per_token() const;  // of groups that keep every token
};

}  // namespace cellar::kv
