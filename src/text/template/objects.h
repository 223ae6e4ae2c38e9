#pragma once
// What a Value refers to when it is no plain number. What only one part of the interpreter makes is declared there: functions, macros, loops, scopes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/value.h"

namespace cellar::jinja {

struct Undefined : Object {
    explicit Undefined(std::string m) : Object(Kind::Undefined), message(std::move(m)) {}
    std::string message;  // what using it as more than a test or an empty text is answered with
};

struct String : Object {
    explicit String(std::string t) : Object(Kind::String), text(std::move(t)) {}
    std::string text;          // valid UTF-8
    std::int64_t points = -1;  // code points, once counted
    bool markup = false;       // came through `safe` or `escape`: escapes what is added to it
};

struct List : Object {  // List and Tuple
    explicit List(Kind k) : Object(k) {}
    void drop() override { items.clear(); }
    bool attribute(std::string_view name, Value& out) override;
    void push(Value value);
    std::vector<Value> items;
    bool group = false;  // a pair of groupby: its items are also .grouper and .list
};

struct Dict : Object {
    struct Entry {
        Value key;
        Value value;
    };
    Dict() : Object(Kind::Dict) {}
    void drop() override { entries.clear(); }
    const Value* find(const Value& key) const;  // Fails on a key that cannot be one.
    const Value* find(std::string_view key) const;
    void set(Value key, Value value);
    std::vector<Entry> entries;  // in the order in which the keys came

  private:
    template <class Same>
    std::size_t locate(std::uint64_t hash, Same same) const;
    void index();

    std::vector<std::uint32_t> slots_;  // hash table of 1 + index in entries; empty while there are few
    std::vector<std::uint64_t> hashes_;
};

struct View : Object {  // dict.keys(), .values(), .items()
    enum class What { Keys, Values, Items };
    View(Value d, What w) : Object(Kind::View), dict(std::move(d)), what(w) {}
    void drop() override { dict = Value(); }
    Value dict;
    What what;
};

struct Range : Object {
    Range(std::int64_t b, std::int64_t e, std::int64_t s, std::int64_t n) : Object(Kind::Range), begin(b), end(e), step(s), size(n) {}
    std::int64_t at(std::int64_t i) const { return begin + i * step; }
    std::int64_t begin, end, step, size;  // end: as it was written, for printing
};

struct Iterator : Object {  // what filters such as map give: it can be walked once
    Iterator() : Object(Kind::Iterator) {}
    void drop() override { items.clear(); }
    void push(Value value);
    std::vector<Value> items;
    std::size_t at = 0;
};

struct Namespace : Object {
    Namespace() : Object(Kind::Namespace) {}
    void drop() override { fields.clear(); }
    bool attribute(std::string_view name, Value& out) override;
    const Value* find(std::string_view name) const;
    void set(std::string_view name, Value value);
    std::vector<std::pair<std::string, Value>> fields;
};

struct Cycler : Object {
    Cycler() : Object(Kind::Cycler) {}
    void drop() override { items.clear(); }
    bool attribute(std::string_view name, Value& out) override;
    std::vector<Value> items;
    std::size_t at = 0;
};

struct Joiner : Object {
    explicit Joiner(Value s) : Object(Kind::Joiner), separator(std::move(s)) {}
    void drop() override { separator = Value(); }
    Value separator;
    bool used = false;
};

inline const std::string& Value::text() const {
    return as<String>().text;
}
inline const std::vector<Value>& Value::items() const {
    return as<List>().items;
}

}  // namespace cellar::jinja
