// Session files of any bytes: opened, read, and their rows taken into a cache. The mutator begins with files that a cache wrote and puts the
// checksums right behind every change, so that what lies behind them is reached too.
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/session_directory.h"
#include "engine/session_file.h"
#include "kv/snapshot.h"
#include "kv/verify.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace cellar;  // NOLINT: a program of one file

std::string scratch(const char* name) {
    return "/dev/shm/cellar-fuzz-" + std::to_string(getpid()) + name;
}

kv::Cache& cache() {
    static const std::unique_ptr<kv::Cache> made = [] {
        kv::CacheSpec spec;
        spec.groups.push_back({kv::Keep::all(), 1, {{"k", 1, 4, kv::RowFormat::F16}, {"v", 1, 33, kv::RowFormat::Q8_0}}});
        spec.groups.push_back({kv::Keep::window(8, 2), 2, {{"k", 1, 3, kv::RowFormat::F32}}});
        kv::CacheLimits limits;
        limits.context = 96;
        limits.max_seqs = 2;
        limits.block = 16;
        limits.max_step_tokens = 20;
        limits.poison = true;
        return *kv::Cache::make(spec, limits);
    }();
    return *made;
}

// Behind the file another save, whose state holds a section that lies in the content of another.
void add_nested_save(std::vector<std::byte>& file) {
    const auto state = find_state(file, "seed", Reading::Whole);
    CHECK(state.has_value());
    std::map<uint64_t, Section> alive = state->alive;
    uint64_t id = state->next_id;
    const auto add = [&](Section section, const std::vector<std::byte>& content) {
        section.id = id++;
        section.length = content.size();
        section.checksum = XXH3_64bits(content.data(), content.size());
        std::vector<std::byte> out = section_header(section);
        out.insert(out.end(), content.begin(), content.end());
        out.resize(padded(out.size()));
        if (section.kind != SectionKind::Commit) alive[section.id] = section;
        return out;
    };
    const uint64_t at = state->end;
    file.resize(at);
    const auto inner = add({SectionKind::Host, 0, at + kSectionHeaderBytes, 0, 0}, std::vector<std::byte>(24));
    const auto outer = add({SectionKind::Host, 0, at, 0, 0}, inner);
    file.insert(file.end(), outer.begin(), outer.end());
    const auto commit = add({SectionKind::Commit, 0, file.size(), 0, 0}, commit_content(state->saves + 1, alive));
    file.insert(file.end(), commit.begin(), commit.end());
}

// A file with two branches of a few tokens, one of them edited.
std::vector<std::byte> written_file(uint32_t seed) {
    std::mt19937 random(seed);
    kv::Cache& store = cache();
    const std::string path = scratch(".seed");
    unlink(path.c_str());
    auto file = *SessionFile::open(path);
    {
        SessionFile::Save save = file->begin();
        std::vector<uint64_t> alive{*save.add(SectionKind::Model, model_content({{"architecture", "tiny"}, {"layers", "3"}}))};
        std::vector<SessionBranch> branches;
        for (const char* name : {"main", "other"}) {
            const kv::SeqId id = *store.open();
            std::vector<kv::Token> tokens;
            for (int32_t i = 0; i < static_cast<int32_t>(1 + random() % 20); ++i) tokens.push_back({static_cast<int32_t>(random() % 9), i, 0});
            const kv::Append append{id, tokens};
            kv::Step step;
            CHECK(store.begin({&append, 1}, step).has_value());
            store.commit(step);
            if (random() % 2 == 0) store.remove(id, {1, 3});
            if (random() % 2 == 0) (void)store.remove_and_shift(id, {0, 1});
            if (const int32_t length = store.length(id); length > 0) {
                const kv::Interval all{0, length};
                const auto piece = save.add(SectionKind::Piece, kv::piece_bytes(store, id, all),
                                            [&](const SessionFile::Save::Sink& sink) { return kv::write_piece(store, id, all, sink); });
                const uint64_t host = *save.add(SectionKind::Host, std::as_bytes(std::span("{}", 2)));
                alive.insert(alive.end(), {*piece, host});
                branches.push_back({name, "SCALAR", length, store.pure(id), host, {{*piece, 0, length}}});
            }
            store.close(id);
        }
        alive.push_back(*save.add(SectionKind::Branches, branches_content(branches)));
        CHECK(save.commit(alive).has_value());
    }
    file.reset();
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    unlink(path.c_str());
    const auto raw = std::as_bytes(std::span(bytes));
    std::vector<std::byte> out(raw.begin(), raw.end());
    if (random() % 4 == 0) add_nested_save(out);
    return out;
}

// Every checksum becomes right, and the entries of commits say what the sections say.
void put_right(std::span<std::byte> file) {
    if (file.size() < kSessionHeaderBytes) return;
    const auto put = [](std::byte* at, uint64_t value) { std::memcpy(at, &value, sizeof value); };
    const auto get = [](const std::byte* at) {
        uint64_t value = 0;
        std::memcpy(&value, at, sizeof value);
        return value;
    };
    const auto head = session_header();
    std::copy(head.begin(), head.end(), file.begin());
    std::vector<std::byte*> sections;
    for (uint64_t at = kSessionHeaderBytes; at + kSectionHeaderBytes <= file.size();) {
        std::byte* section = file.data() + at;
        const uint64_t length = get(section + 16);
        if (length > file.size() - at - kSectionHeaderBytes) break;
        std::byte* content = section + kSectionHeaderBytes;
        if (static_cast<int>(section[0]) == static_cast<int>(SectionKind::Commit)) {
            for (uint64_t entry = 16; entry + kCommitEntryBytes <= length; entry += kCommitEntryBytes) {
                for (const std::byte* other : sections) {
                    if (get(other + 8) != get(content + entry)) continue;
                    put(content + entry + 16, get(other + 16));
                    put(content + entry + 24, get(other + 24));
                }
            }
        }
        put(section + 24, XXH3_64bits(content, length));
        put(section + 32, XXH3_64bits(section, 32));
        sections.push_back(section);
        at += kSectionHeaderBytes + padded(length);
    }
}

void take_branch(const SessionFile& file, const SessionBranch& branch) {
    kv::Cache& store = cache();
    (void)host_text(file, branch);
    const kv::SeqId id = *store.open();
    for (const SessionBranch::Part& part : branch.parts) {
        const auto piece = kv::parse_piece(file.content(part.piece), "file", store.spec());
        if (!piece || part.lo < piece->positions.lo || part.hi > piece->positions.hi || part.hi > store.limits().context) break;
        (void)kv::converts(*piece, store.spec());
        if (!kv::append_piece(store, id, *piece, part.hi)) break;
    }
    const std::string wrong = kv::verify(store);
    if (!wrong.empty()) {
        std::fprintf(stderr, "%s\n", wrong.c_str());
        std::abort();
    }
    store.close(id);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
    if (size < kSessionHeaderBytes || seed % 64 == 0) {
        const auto fresh = written_file(seed);
        if (fresh.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
        std::memcpy(data, fresh.data(), fresh.size());
        return fresh.size();
    }
    const size_t mutated = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 8 != 0) put_right(std::as_writable_bytes(std::span(data, mutated)));
    return mutated;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string path = scratch(".session");
    std::ofstream(path, std::ios::binary | std::ios::trunc).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    for (const Reading reading : {Reading::Whole, Reading::Prefix}) {
        const auto file = SessionFile::open(path, reading);
        if (!file) continue;
        const auto directory = read_directory(**file);
        if (!directory) continue;
        for (const SessionBranch& branch : directory->branches) take_branch(**file, branch);
    }
    unlink(path.c_str());
    return 0;
}
