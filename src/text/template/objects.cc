#include "text/template/objects.h"

#include "text/template/heap.h"
#include "text/template/ops.h"

namespace cellar::jinja {

namespace {
constexpr std::size_t entries_without_index = 8;
constexpr std::size_t nowhere = SIZE_MAX;
}  // namespace

void List::push(Value value) {
    heap->budget().check_value((items.size() + 1) * sizeof(Value));
    add_charge(sizeof(Value));
    items.push_back(std::move(value));
}

bool List::attribute(std::string_view name, Value& out) {
    if (!group || (name != "grouper" && name != "list")) return false;
    out = items[name == "grouper" ? 0 : 1];
    return true;
}

bool Namespace::attribute(std::string_view name, Value& out) {
    const Value* field = find(name);
    if (field != nullptr) out = *field;
    return field != nullptr;
}

bool Cycler::attribute(std::string_view name, Value& out) {
    if (name != "current") return false;
    out = items[at];
    return true;
}

void Iterator::push(Value value) {
    heap->budget().check_value((items.size() + 1) * sizeof(Value));
    add_charge(sizeof(Value));
    items.push_back(std::move(value));
}

template <class Same>
std::size_t Dict::locate(std::uint64_t hash, Same same) const {
    if (slots_.empty()) {
        for (std::size_t i = 0; i < entries.size(); ++i)
            if (hashes_[i] == hash && same(entries[i].key)) return i;
        return nowhere;
    }
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = hash & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
        // Many keys with one hash are walked one by one, so each probe is paid for.
        heap->budget().step();
        const std::size_t i = slots_[slot] - 1;
        if (hashes_[i] == hash && same(entries[i].key)) return i;
    }
    return nowhere;
}

const Value* Dict::find(const Value& key) const {
    if (key.is(Kind::String)) return find(key.text());
    const std::size_t i = locate(hash_of(heap->budget(), key), [&](const Value& other) { return equal(heap->budget(), key, other); });
    return i == nowhere ? nullptr : &entries[i].value;
}

const Value* Dict::find(std::string_view key) const {
    heap->budget().work(key.size());
    const std::size_t i = locate(hash_of(key), [&](const Value& other) { return other.is(Kind::String) && other.text() == key; });
    return i == nowhere ? nullptr : &entries[i].value;
}

void Dict::set(Value key, Value value) {
    Budget& budget = heap->budget();
    const std::uint64_t hash = hash_of(budget, key);
    const std::size_t i = locate(hash, [&](const Value& other) { return equal(budget, key, other); });
    if (i != nowhere) {
        entries[i].value = std::move(value);
        return;
    }
    budget.check_value((entries.size() + 1) * sizeof(Entry));
    add_charge(sizeof(Entry) + 2 * sizeof(std::uint64_t));
    entries.push_back({std::move(key), std::move(value)});
    hashes_.push_back(hash);
    if (entries.size() > entries_without_index) index();
}

void Dict::index() {
    auto place = [&](std::size_t i) {
        const std::size_t mask = slots_.size() - 1;
        std::size_t slot = hashes_[i] & mask;
        while (slots_[slot] != 0) {
            heap->budget().step();
            slot = (slot + 1) & mask;
        }
        slots_[slot] = static_cast<std::uint32_t>(i + 1);
    };
    if (slots_.size() >= 2 * entries.size()) return place(entries.size() - 1);
    slots_.assign(slots_.empty() ? 4 * entries_without_index : 2 * slots_.size(), 0);
    for (std::size_t i = 0; i < entries.size(); ++i) place(i);
}

const Value* Namespace::find(std::string_view name) const {
    heap->budget().step(1 + fields.size() / 8);
    for (const auto& [key, value] : fields)
        if (key == name) return &value;
    return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
    heap->budget().step(1 + fields.size() / 8);
    for (auto& [key, old] : fields) {
        if (key != name) continue;
        old = std::move(value);
        return;
    }
    add_charge(sizeof(fields[0]) + name.size());
    fields.emplace_back(std::string(name), std::move(value));
}

}  // namespace cellar::jinja
