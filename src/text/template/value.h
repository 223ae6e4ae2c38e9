#pragma once
// The values of the template language, with Python's meaning: None, bool, int (64 bits), float, str, list, tuple, dict and what builtins give.
//
// A Value is 16 bytes: a kind and either a plain number or a counted reference to an Object (objects.h), which belongs to the Heap of one rendering
// (heap.h). Lists, tuples and dicts never change once a template can see them; only namespaces, scopes and counters do.
// Not thread-safe: a heap and its values belong to one thread.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
    const std::string& text() const;          // Requires: String; inline in objects.h
    const std::vector<Value>& items() const;  // Requires: List or Tuple; inline in objects.h

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

}  // namespace cellar::jinja
