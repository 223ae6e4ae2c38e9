#include "text/template/builder.h"

#include <fmt/core.h>

#include "text/template/unicode.h"

namespace cellar::jinja {

void Builder::append_point(char32_t code) {
    pay(4);
    jinja::append_point(text_, code);
}

std::string Builder::take() {
    heap_.budget().refund(std::exchange(charged_, 0));
    return std::move(text_);
}

void Builder::pay(std::size_t bytes) {
    const std::uint64_t size = text_.size() + bytes;
    if (most_ == 0) {
        heap_.budget().check_value(size);
    } else if (size > most_) {
        throw Failure{fmt::format("the output is over the limit of {} bytes", most_), ErrorKind::Full};
    }
    heap_.budget().charge(bytes);
    charged_ += bytes;
    heap_.budget().step(bytes / 256);
}

}  // namespace cellar::jinja
