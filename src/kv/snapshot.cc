#include "kv/snapshot.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "kv/copy_rows.h"

namespace cellar::kv {
namespace {

constexpr int32_t kMostRotary = 1 << 29;  // and the most that a run is turned: two turns differ by no more than an int32_t holds
constexpr uint32_t kPlainText = 1;        // flag: ids alone; rotary positions count with the positions, no media

void add_tokens(bool plain, const std::vector<Token>& tokens, ByteWriter& out) {
    for (const Token& token : tokens) {
        out.add(token.id);
        if (plain) continue;
        out.add(token.rotary);
        out.add(token.media);
    }
    out.align(8);
}

// What stands before the rows of a group.
void add_group_head(const GroupSpec& group, const std::vector<Run>& runs, ByteWriter& out) {
    out.add(static_cast<uint32_t>(group.planes));
    out.add(static_cast<uint32_t>(group.rows.size()));
    for (const RowSpec& row : group.rows) {
        out.add(static_cast<uint32_t>(row.format));
        out.add(static_cast<uint32_t>(row.heads));
        out.add(static_cast<uint32_t>(row.width));
    }
    out.add(static_cast<uint32_t>(runs.size()));
    for (const Run& run : runs) {
        out.add(run.pos);
        out.add(run.len);
        out.add(run.turn);
    }
    out.align(8);
}

Result<std::vector<Token>> read_tokens(ByteReader& in, Interval positions, bool plain) {
    std::vector<Token> out;
    const auto n = static_cast<uint64_t>(positions.length());
    CELLAR_TRY(const std::span<const std::byte> raw, in.take_records(n, plain ? 4 : 16, "tokens"));
    out.resize(n);
    const std::byte* at = raw.data();
    for (size_t i = 0; i < n; ++i) {
        std::memcpy(&out[i].id, at, 4);
        out[i].rotary = positions.lo + static_cast<int32_t>(i);
        if (!plain) {
            std::memcpy(&out[i].rotary, at + 4, 4);
            std::memcpy(&out[i].media, at + 8, 8);
            if (out[i].rotary < 0 || out[i].rotary > kMostRotary) return fail("a token has the rotary position {}", out[i].rotary);
        }
        at += plain ? 4 : 16;
    }
    CELLAR_TRY_VOID(in.seek((in.position() + 7) / 8 * 8, "padding behind the tokens"));
    return out;
}

Result<Piece::Group> read_group(ByteReader& in, std::string_view source, const GroupSpec& spec, Interval positions, size_t index) {
    Piece::Group out;
    CELLAR_TRY(const uint32_t planes, in.read<uint32_t>("layers"));
    CELLAR_TRY(const uint32_t rows, in.read<uint32_t>("rows"));
    if (planes != static_cast<uint32_t>(spec.planes) || rows != spec.rows.size())
        return fail("{}: group {} has {} layers of {} rows, but the model has {} of {}", source, index, planes, rows, spec.planes, spec.rows.size());
    out.planes = spec.planes;
    for (const RowSpec& row : spec.rows) {
        CELLAR_TRY(const uint32_t format, in.read<uint32_t>("row format"));
        CELLAR_TRY(const uint32_t heads, in.read<uint32_t>("row heads"));
        CELLAR_TRY(const uint32_t width, in.read<uint32_t>("row width"));
        if (format > static_cast<uint32_t>(RowFormat::Q8_0)) return fail("{}: row '{}' has format {}, which is none", source, row.name, format);
        if (heads != static_cast<uint32_t>(row.heads) || width != static_cast<uint32_t>(row.width))
            return fail("{}: row '{}' has {} heads of {}, but the model has {} of {}", source, row.name, heads, width, row.heads, row.width);
        RowTable table;
        table.format = static_cast<RowFormat>(format);
        table.heads = row.heads;
        table.width = row.width;
        table.row_bytes = head_row_bytes(table.format, row.width);
        out.rows.push_back(table);
    }
    CELLAR_TRY(const uint32_t count, in.read<uint32_t>("runs"));
    CELLAR_TRY(const std::span<const std::byte> raw, in.take_records(count, 12, "runs"));
    int32_t held = 0;
    int32_t reached = positions.lo;
    for (uint32_t i = 0; i < count; ++i) {
        Run run;
        std::memcpy(&run.pos, raw.data() + i * 12, 4);
        std::memcpy(&run.len, raw.data() + i * 12 + 4, 4);
        std::memcpy(&run.turn, raw.data() + i * 12 + 8, 4);
        if (run.turn < -kMostRotary || run.turn > kMostRotary) return fail("{}: group {}: run {} is turned by {}", source, index, i, run.turn);
        if (run.pos < reached || run.len < 1 || run.len > positions.hi - run.pos)
            return fail("{}: group {}: run {} of {} positions from {} is not within [{}, {})", source, index, i, run.len, run.pos, reached,
                        positions.hi);
        run.cell = held;
        held += run.len;
        reached = run.end();
        out.runs.push_back(run);
    }
    CELLAR_TRY_VOID(in.seek((in.position() + 7) / 8 * 8, "padding behind the runs"));
    for (RowTable& table : out.rows) {
        table.head_stride = static_cast<size_t>(held) * table.row_bytes;
        table.plane_stride = table.head_stride * static_cast<size_t>(table.heads);
        CELLAR_TRY(const std::span<const std::byte> bytes, in.take_records(table.plane_stride, static_cast<uint64_t>(planes), "rows"));
        table.base = const_cast<std::byte*>(bytes.data());  // copy_rows only reads from it
    }
    CELLAR_TRY_VOID(in.seek((in.position() + 7) / 8 * 8, "padding behind the rows"));
    return out;
}

// Rows of positions [part.lo, part.hi) into the cells that a step handed out for them.
void fill_cells(const Cache& cache, const Piece& piece, Interval part, const View& view) {
    for (size_t g = 0; g < piece.groups.size(); ++g) {
        const Piece::Group& group = piece.groups[g];
        const GroupView& target = view.groups[g];
        for (const Run& run : runs_within(group.runs, part)) {
            int32_t done = 0;
            while (done < run.len) {
                const int32_t first_row = run.pos - part.lo + done;
                const auto first = static_cast<size_t>(first_row);
                int32_t len = 1;
                while (done + len < run.len && target.write_cells[first + static_cast<size_t>(len)] == target.write_cells[first] + len) ++len;
                for (size_t r = 0; r < group.rows.size(); ++r)
                    for (int plane = 0; plane < group.planes; ++plane)
                        copy_rows(group.rows[r], plane, run.cell + done, cache.rows(static_cast<int>(g))[r], plane, target.write_cells[first], len);
                done += len;
            }
        }
    }
}

// Lets go of what the piece does not have of [from, end), group by group: removed on purpose, or let go by a window before it was written.
void drop_missing(Cache& cache, SeqId id, const Piece& piece, int32_t from, int32_t end) {
    for (size_t g = 0; g < piece.groups.size(); ++g) {
        const auto drop = [&](Interval missing) {
            if (missing.length() == 0) return;
            cache.drop_rows(id, static_cast<int>(g), missing);
            if (cache.spec().groups[g].keep.kind == Keep::Kind::All) cache.colour(id, missing.lo);
        };
        int32_t at = from;
        for (const Run& run : runs_within(piece.groups[g].runs, {from, end})) {
            drop({at, run.pos});
            at = run.end();
        }
        drop({at, end});
    }
}

}  // namespace

Result<void> write_piece(const Cache& cache, SeqId id, Interval positions, const Sink& sink) {
    CHECK(positions.lo >= 0 && positions.lo < positions.hi && positions.hi <= cache.length(id));
    std::vector<Token> tokens(static_cast<size_t>(positions.length()));
    cache.copy_tokens(id, positions, tokens);
    bool plain = true;
    for (size_t i = 0; i < tokens.size() && plain; ++i) plain = tokens[i].media == 0 && tokens[i].rotary == positions.lo + static_cast<int32_t>(i);
    ByteWriter head;
    head.add(static_cast<uint32_t>(positions.lo));
    head.add(static_cast<uint32_t>(positions.hi));
    head.add(plain ? kPlainText : 0U);
    head.add(static_cast<uint32_t>(cache.spec().groups.size()));
    add_tokens(plain, tokens, head);
    CELLAR_TRY_VOID(sink(head.view()));
    for (size_t g = 0; g < cache.spec().groups.size(); ++g) {
        const std::vector<Run> runs = runs_within(cache.runs(id, static_cast<int>(g)), positions);
        ByteWriter group;
        add_group_head(cache.spec().groups[g], runs, group);
        CELLAR_TRY_VOID(sink(group.view()));
        uint64_t written = 0;
        for (const RowTable& table : cache.rows(static_cast<int>(g))) {
            for (int plane = 0; plane < cache.spec().groups[g].planes; ++plane) {
                for (int head_index = 0; head_index < table.heads; ++head_index) {
                    for (const Run& run : runs) {
                        const size_t bytes = static_cast<size_t>(run.len) * table.row_bytes;
                        CELLAR_TRY_VOID(sink({table.at(plane, head_index, run.cell), bytes}));
                        written += bytes;
                    }
                }
            }
        }
        constexpr std::byte kPadding[8]{};
        if (written % 8 != 0) CELLAR_TRY_VOID(sink({kPadding, 8 - written % 8}));
    }
    return {};
}

uint64_t piece_bytes(const Cache& cache, SeqId id, Interval positions) {
    uint64_t bytes = 0;
    const auto counted = write_piece(cache, id, positions, [&](std::span<const std::byte> part) -> Result<void> {
        bytes += part.size();
        return {};
    });
    CHECK(counted.has_value());
    return bytes;
}

Result<Piece> parse_piece(std::span<const std::byte> bytes, std::string_view source, const CacheSpec& spec) {
    ByteReader in(bytes, source);
    Piece out;
    CELLAR_TRY(const uint32_t lo, in.read<uint32_t>("first position"));
    CELLAR_TRY(const uint32_t hi, in.read<uint32_t>("last position"));
    CELLAR_TRY(const uint32_t flags, in.read<uint32_t>("flags"));
    CELLAR_TRY(const uint32_t groups, in.read<uint32_t>("groups"));
    if (lo >= hi || hi > static_cast<uint32_t>(INT32_MAX)) return fail("{}: a piece of positions [{}, {}) is none", source, lo, hi);
    if ((flags & ~kPlainText) != 0) return fail("{}: flags {:#x} are not known", source, flags);
    if (groups != spec.groups.size()) return fail("{}: it has {} groups of layers, but the model has {}", source, groups, spec.groups.size());
    out.positions = {static_cast<int32_t>(lo), static_cast<int32_t>(hi)};
    CELLAR_TRY(out.tokens, read_tokens(in, out.positions, (flags & kPlainText) != 0));
    for (size_t g = 0; g < spec.groups.size(); ++g) {
        CELLAR_TRY(Piece::Group group, read_group(in, source, spec.groups[g], out.positions, g));
        out.groups.push_back(std::move(group));
    }
    if (in.remaining() != 0) return fail("{}: {} bytes stand behind its end", source, in.remaining());
    return out;
}

Result<void> append_piece(Cache& cache, SeqId id, const Piece& piece, int32_t end) {
    const int32_t from = cache.length(id);
    CHECK(piece.positions.lo <= from && from < end && end <= piece.positions.hi);
    Step step;
    for (int32_t at = from; at < end;) {
        const int32_t n = std::min(cache.limits().max_step_tokens, end - at);
        const Append append{id, std::span<const Token>(piece.tokens).subspan(static_cast<size_t>(at - piece.positions.lo), static_cast<size_t>(n))};
        CELLAR_TRY_VOID(cache.begin({&append, 1}, step));
        fill_cells(cache, piece, {at, at + n}, step.view());
        cache.commit(step);
        at += n;
    }
    for (size_t g = 0; g < piece.groups.size(); ++g) {
        int32_t turned = 0;
        for (const Run& run : runs_within(piece.groups[g].runs, {from, end})) {
            if (run.turn != turned) cache.turn_rows(id, static_cast<int>(g), run.pos, run.turn - turned);
            turned = run.turn;
        }
    }
    drop_missing(cache, id, piece, from, end);
    return {};
}

bool converts(const Piece& piece, const CacheSpec& spec) {
    for (size_t g = 0; g < piece.groups.size(); ++g)
        for (size_t r = 0; r < piece.groups[g].rows.size(); ++r)
            if (piece.groups[g].rows[r].format != spec.groups[g].rows[r].format) return true;
    return false;
}

}  // namespace cellar::kv
