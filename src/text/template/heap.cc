#include "text/template/heap.h"

namespace cellar::jinja {

void Object::add_charge(std::uint64_t bytes) {
    heap->budget().charge(bytes);
    charged += bytes;
}

void Value::release() noexcept {
    if (--object_->references == 0) object_->heap->release(object_);
}

Heap::~Heap() {
    // What is still here refers to itself in a circle. First every object lets go, then all can be deleted in any order.
    closing_ = true;
    for (Object* object = objects_; object != nullptr; object = object->next) object->drop();
    while (objects_ != nullptr) {
        Object* next = objects_->next;
        delete objects_;
        objects_ = next;
    }
}

void Heap::link(Object* object) noexcept {
    object->heap = this;
    object->next = objects_;
    if (objects_ != nullptr) objects_->previous = object;
    objects_ = object;
}

void Heap::release(Object* object) noexcept {
    if (closing_) return;
    if (object->previous != nullptr) object->previous->next = object->next;
    if (object->next != nullptr) object->next->previous = object->previous;
    if (objects_ == object) objects_ = object->next;
    object->next = dead_;
    dead_ = object;
    if (destroying_) return;
    destroying_ = true;
    while (dead_ != nullptr) {
        Object* first = dead_;
        dead_ = first->next;
        destroy(first);
    }
    destroying_ = false;
}

void Heap::destroy(Object* object) noexcept {
    budget_.refund(object->charged);
    delete object;
}

Value Heap::string(std::string text, bool markup) {
    budget_.check_value(text.size());
    budget_.charge(text.size());
    budget_.refund(text.size());
    auto* object = make<String>(std::move(text));
    Value value(object);
    object->add_charge(object->text.size());
    object->markup = markup;
    return value;
}

}  // namespace cellar::jinja
