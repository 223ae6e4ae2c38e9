#pragma once
// Where the objects of one rendering live:
// 1. Every object is charged to the budget while it lives.
// 2. Freeing is iterative: dropping a list nested a million deep uses no stack.
// 3. References may form cycles (a namespace may hold itself); the heap frees those at its end.
#include <string>
#include <utility>

#include "text/template/budget.h"
#include "text/template/objects.h"

namespace cellar::jinja {

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

}  // namespace cellar::jinja
