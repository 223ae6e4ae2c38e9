#pragma once
// The values of the template language, with Python's meaning: None, bool, int (64 bits), float, str, list, tuple, dict and what builtins give.
//
// A Value is 16 bytes: a kind and either a plain number or a counted reference to an Object. Objects belong to the Heap of one rendering:
// 1. Every object is charged to the budget while it lives.
// 2. Freeing is iterative: dropping a list nested a million deep uses no stack.
// 3. References may form cycles (a namespace may hold itself); the heap frees those at its end.
// Lists, tuples and dicts never change once a template can see them; only namespaces, scopes and counters do.
// Not thread-safe: a heap and its values belong to one thread.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/budget.h"

namespace cellar::jinja {

enum class Kind : std::uint8_t {
    Missing,  // an argument that was not given; never seen by a template
    None,
    Bool,
    Int,
    Huge,  // an integer of the input from 2^63 to 2^64 - 1: it can be printed and compared, not computed with
    Float,
    Undefined,  // from here on values refer to an object; Undefined may do without
    String,
    List,
    Tuple,
    Dict,
    View,
    Range,
    Iterator,
    Namespace,
    Function,
    Method,
    Macro,
    Loop,
    Cycler,
    Joiner,
    Scope,
};

class Heap;
class Value;

struct Object {
    explicit Object(Kind k) : kind(k) {}
    virtual ~Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    virtual void drop() {}  // lets go of every value it refers to
    // The attributes that this kind of object has besides methods, such as loop.index; false if there is none of this name.
    virtual bool attribute(std::string_view, Value&) { return false; }

    void add_charge(std::uint64_t bytes);  // pays for memory that the object owns, until it dies

    Heap* heap = nullptr;
    Object* previous = nullptr;
    Object* next = nullptr;
    std::uint64_t charged = 0;
    std::uint32_t references = 0;
    Kind kind;
};

class Value {
  public:
    Value() : kind_(Kind::None), int_(0) {}
    explicit Value(Object* object) : kind_(object->kind), object_(object) { ++object->references; }
    Value(const Value& other) : kind_(other.kind_), int_(other.int_) {
        if (has_object()) ++object_->references;
    }
    Value(Value&& other) noexcept : kind_(other.kind_), int_(other.int_) { other.kind_ = Kind::None; }
    Value& operator=(Value other) noexcept {
        std::swap(kind_, other.kind_);
        std::swap(int_, other.int_);
        return *this;
    }
    ~Value() {
        if (has_object()) release();
    }

    static Value missing() { return Value(Kind::Missing, 0); }
    static Value undefined() { return Value(Kind::Undefined, 0); }
    static Value boolean(bool b) { return Value(Kind::Bool, b ? 1 : 0); }
    static Value integer(std::int64_t i) { return Value(Kind::Int, i); }
    static Value huge(std::uint64_t u) { return Value(Kind::Huge, static_cast<std::int64_t>(u)); }
    static Value real(double d) {
        Value v(Kind::Float, 0);
        v.real_ = d;
        return v;
    }

    Kind kind() const { return kind_; }
    bool is(Kind k) const { return kind_ == k; }
    bool has_object() const { return kind_ >= Kind::Undefined && object_ != nullptr; }
    bool is_number() const { return kind_ >= Kind::Bool && kind_ <= Kind::Float; }
    bool is_integer() const { return kind_ == Kind::Int || kind_ == Kind::Bool; }  // what Python takes where it wants an index
    bool is_sequence() const { return kind_ == Kind::List || kind_ == Kind::Tuple; }

    bool as_bool() const { return int_ != 0; }
    std::int64_t as_int() const { return int_; }  // Requires: is_integer()
    std::uint64_t as_huge() const { return static_cast<std::uint64_t>(int_); }
    double as_real() const { return real_; }
    Object* object() const { return object_; }
    template <class T>
    T& as() const {
        return static_cast<T&>(*object_);
    }
    const std::string& text() const;          // Requires: String
    const std::vector<Value>& items() const;  // Requires: List or Tuple

  private:
    Value(Kind kind, std::int64_t i) : kind_(kind), int_(i) {}
    void release() noexcept;

    Kind kind_;
    union {
        std::int64_t int_;
        double real_;
        Object* object_;
    };
};

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

class Heap {
  public:
    explicit Heap(Budget& budget) : budget_(budget) {}
    ~Heap();
    Heap(const Heap&) = delete;
    Heap& operator=(const Heap&) = delete;

    Budget& budget() const { return budget_; }

    // The new object has no owner yet: put it into a Value at once.
    template <class T, class... Args>
    T* make(Args&&... args) {
        budget_.charge(sizeof(T));
        T* object = new T(std::forward<Args>(args)...);
        object->charged = sizeof(T);
        link(object);
        return object;
    }
    Value string(std::string text, bool markup = false);
    Value undefined(std::string message) { return Value(make<Undefined>(std::move(message))); }

    void release(Object* object) noexcept;

  private:
    void link(Object* object) noexcept;
    void destroy(Object* object) noexcept;

    Budget& budget_;
    Object* objects_ = nullptr;
    Object* dead_ = nullptr;  // waiting to be destroyed, linked by next
    bool destroying_ = false;
    bool closing_ = false;
};

// Text under construction, charged to the budget as it grows.
class Builder {
  public:
    explicit Builder(Heap& heap) : heap_(heap) {}
    Builder(Heap& heap, std::uint64_t most) : heap_(heap), most_(most) {}  // for the output, which has a limit of its own
    ~Builder() { heap_.budget().refund(charged_); }
    Builder(const Builder&) = delete;
    Builder& operator=(const Builder&) = delete;

    void append(std::string_view text) {
        pay(text.size());
        text_.append(text);
    }
    void append(std::size_t count, char c) {
        pay(count);
        text_.append(count, c);
    }
    void append_point(char32_t code);
    const std::string& text() const { return text_; }
    Heap& heap() const { return heap_; }
    std::string take();
    Value finish(bool markup = false) { return heap_.string(take(), markup); }

  private:
    void pay(std::size_t bytes);

    Heap& heap_;
    std::string text_;
    std::uint64_t charged_ = 0;
    std::uint64_t most_ = 0;  // 0: that of a value
};

// The typed owner of an object.
template <class T>
class Ref {
  public:
    explicit Ref(T* object) : value_(object) {}
    T* operator->() const { return &value_.as<T>(); }
    T& operator*() const { return value_.as<T>(); }
    const Value& value() const { return value_; }

  private:
    Value value_;
};

inline const std::string& Value::text() const {
    return as<String>().text;
}
inline const std::vector<Value>& Value::items() const {
    return as<List>().items;
}

}  // namespace cellar::jinja
