#include "text/template/format.h"

#include <cmath>

#include "text/template/builtin.h"
#include "text/template/markup.h"
#include "text/template/number_text.h"
#include "text/template/ops.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

// '%s' and its like, one after the other.
class PercentFormatter {
  public:
    PercentFormatter(Heap& heap, const Value& format, const Value& values)
        : heap_(heap), out_(heap), rest_(format.text()), values_(values), markup_(is_markup(format)) {}

    Value run() {
        while (!rest_.empty()) {
            const std::size_t plain = std::min(rest_.find('%'), rest_.size());
            out_.append(rest_.substr(0, plain));
            rest_.remove_prefix(plain);
            if (!rest_.empty()) conversion();
        }
        // What can be subscripted counts as a mapping, which need not be used up; that includes lists.
        const bool mapping = values_.is(Kind::Dict) || values_.is(Kind::List) || values_.is(Kind::Range) || values_.is(Kind::Undefined);
        if (!mapping && used_ < (values_.is(Kind::Tuple) ? values_.items().size() : 1)) raise("not all arguments converted during string formatting");
        return out_.finish(markup_);
    }

  private:
    const Value& next_value() {
        const bool tuple = values_.is(Kind::Tuple);
        if (used_ >= (tuple ? values_.items().size() : 1)) raise("not enough arguments for format string");
        return tuple ? values_.items()[used_++] : (++used_, values_);
    }

    void conversion() {
        heap_.budget().step();
        rest_.remove_prefix(1);
        const Value* named = nullptr;
        if (rest_.starts_with('(')) named = &field();
        std::string flags;
        while (!rest_.empty() && std::string_view("-+ #0").find(rest_.front()) != std::string_view::npos) {
            if (flags.find(rest_.front()) == std::string::npos) flags.push_back(rest_.front());
            rest_.remove_prefix(1);
        }
        std::int64_t width = number().value_or(0);
        if (width < 0) flags.push_back('-'), width = -width;
        std::optional<std::int64_t> precision;
        if (rest_.starts_with('.')) {
            rest_.remove_prefix(1);
            precision = std::max<std::int64_t>(number().value_or(0), 0);
        }
        while (!rest_.empty() && std::string_view("hlL").find(rest_.front()) != std::string_view::npos) rest_.remove_prefix(1);
        if (rest_.empty()) raise("incomplete format");
        const char type = rest_.front();
        rest_.remove_prefix(1);
        if (type == '%') return out_.append("%");
        const Value value = named != nullptr ? *named : next_value();
        append(type, value, flags, static_cast<std::size_t>(width), precision);
    }

    const Value& field() {
        const std::size_t end = rest_.find(')');
        if (end == std::string_view::npos) raise("incomplete format key");
        if (!values_.is(Kind::Dict)) raise("format requires a mapping");
        const std::string_view key = rest_.substr(1, end - 1);
        const Value* value = values_.as<Dict>().find(key);
        if (value == nullptr) raise("the format names '{}', which is not given", shortened(key));
        rest_.remove_prefix(end + 1);
        return *value;
    }

    std::optional<std::int64_t> number() {
        if (!rest_.starts_with('*')) {
            const auto digits = take_number(rest_, heap_.budget().limits().value_bytes);
            return digits ? std::optional(static_cast<std::int64_t>(*digits)) : std::nullopt;
        }
        rest_.remove_prefix(1);
        const Value& value = next_value();
        const auto most = static_cast<std::int64_t>(heap_.budget().limits().value_bytes);
        if (!value.is_integer()) raise("* wants int");
        if (value.as_int() > most || value.as_int() < -most) raise("a width or precision is over the limit of {}", most);
        return value.as_int();
    }

    void append(char type, const Value& value, const std::string& flags, std::size_t width, std::optional<std::int64_t> precision) {
        const bool left = flags.find('-') != std::string::npos;
        const bool zero = flags.find('0') != std::string::npos && !left;
        const auto digits = static_cast<std::size_t>(precision.value_or(6));
        const Value text = converted(type, value, flags, digits, precision);
        std::string_view body = text.text();
        if (precision && (type == 's' || type == 'r')) body = body.substr(0, offset_of(body, digits));
        const std::size_t points = count_points(body);
        const std::size_t padding = width > points ? width - points : 0;
        heap_.budget().work(padding);
        if (left) {
            out_.append(body);
            return out_.append(padding, ' ');
        }
        if (zero && type != 's' && type != 'r' && type != 'c') {
            // Zeros go behind the sign and the 0x.
            std::size_t prefix = body.starts_with('-') || body.starts_with('+') || body.starts_with(' ') ? 1 : 0;
            if ((type == 'x' || type == 'X') && body.size() > prefix + 1 && (body[prefix + 1] | 0x20) == 'x') prefix += 2;
            out_.append(body.substr(0, prefix));
            out_.append(padding, '0');
            return out_.append(body.substr(prefix));
        }
        out_.append(padding, ' ');
        out_.append(body);
    }

    // The value as text, with its sign but without padding.
    Value converted(char type, const Value& value, const std::string& flags, std::size_t digits, std::optional<std::int64_t> precision) {
        switch (type) {
            case 's':
                return markup_ ? escape(heap_, value) : to_text(heap_, value);
            case 'r': {
                Builder text(heap_);
                append_repr(text, value);
                const Value plain = text.finish();
                return markup_ ? escape(heap_, plain) : plain;
            }
            case 'c':
                if (value.is(Kind::String) && length_of(value) == 1) return value;
                if (!value.is_integer()) raise("%c requires int or char");
                [[fallthrough]];
            default:
                return heap_.string(number_text(type, value, flags, digits, precision));
        }
    }

    std::string number_text(char type, const Value& value, const std::string& flags, std::size_t digits, std::optional<std::int64_t> precision) {
        auto flag = [&](char c) { return flags.find(c) != std::string::npos; };
        std::string spec = flag('+') ? "+" : flag(' ') && type != 'c' ? " " : "";
        if (std::string_view("feFgEG").find(type) != std::string_view::npos) {
            if (!value.is_number()) raise("must be real number, not {}", type_name(value));
            const double number = to_double(value);
            const std::string text = float_digits(number, type, digits, flag('#'));
            return (std::signbit(number) || spec.empty()) ? text : spec + text;
        }
        if (std::string_view("diuxXoc").find(type) == std::string_view::npos)
            raise("unsupported format character '{}'", shortened(std::string(1, type)));
        const bool decimal = type == 'd' || type == 'i' || type == 'u';
        Value whole = value;
        if (decimal && value.is(Kind::Float)) whole = Value::integer(truncated(value.as_real()));
        if (!whole.is_number() || whole.is(Kind::Float))
            raise("%{} format: {} is required, not {}", type, decimal ? "a real number" : "an integer", type_name(value));
        if (flag('#') && !decimal && type != 'c') spec += '#';
        Builder text(heap_);
        append_formatted(text, whole, spec + (decimal ? 'd' : type));
        std::string out = text.take();
        if (precision && type != 'c') {
            const std::size_t sign = out.starts_with('-') || out.starts_with('+') || out.starts_with(' ') ? 1 : 0;
            heap_.budget().check_value(digits);
            if (out.size() - sign < digits) out.insert(sign, digits - (out.size() - sign), '0');
        }
        return out;
    }

    Heap& heap_;
    Builder out_;
    std::string_view rest_;
    const Value& values_;
    std::size_t used_ = 0;
    bool markup_;
};

// '{}', '{0.name[key]!r:>8}' and their like.
class BraceFormatter {
  public:
    BraceFormatter(Heap& heap, const Args& args, bool markup) : heap_(heap), args_(args), markup_(markup) {}

    void run(Builder& out, std::string_view text, int nesting) {
        if (nesting > 1) raise("Max string recursion exceeded");
        while (!text.empty()) {
            const std::size_t plain = std::min(text.find_first_of("{}"), text.size());
            out.append(text.substr(0, plain));
            text.remove_prefix(plain);
            if (text.empty()) return;
            if (text.size() > 1 && text[1] == text[0]) {
                out.append(text.substr(0, 1));
                text.remove_prefix(2);
                continue;
            }
            if (text[0] == '}') raise("Single '}}' encountered in format string");
            const std::size_t end = closing(text);
            field(out, text.substr(1, end - 1), nesting);
            text.remove_prefix(end + 1);
        }
    }

  private:
    // Where the brace that opens text is closed.
    static std::size_t closing(std::string_view text) {
        int open = 0;
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] == '{') ++open;
            if (text[i] == '}' && --open == 0) return i;
        }
        raise("expected '}}' before end of string");
    }

    void field(Builder& out, std::string_view field, int nesting) {
        heap_.budget().step();
        std::size_t colon = std::string_view::npos;
        for (std::size_t i = 0, open = 0; i < field.size() && colon == std::string_view::npos; ++i) {
            if (field[i] == '[') ++open;
            if (field[i] == ']' && open > 0) --open;
            if (field[i] == ':' && open == 0) colon = i;
        }
        std::string_view name = field.substr(0, colon);
        char conversion = 0;
        if (const std::size_t mark = name.rfind('!'); mark != std::string_view::npos && mark + 2 == name.size()) {
            conversion = name.back();
            name = name.substr(0, mark);
        }
        Value value = lookup(name);
        if (conversion == 'r') {
            Builder text(heap_);
            append_repr(text, value);
            value = text.finish();
        } else if (conversion == 's') {
            value = to_text(heap_, value);
        } else if (conversion != 0) {
            raise("Unknown conversion specifier '{}'", shortened(std::string(1, conversion)));
        }
        Builder spec(heap_);
        if (colon != std::string_view::npos) run(spec, field.substr(colon + 1), nesting + 1);
        if (!markup_) return append_formatted(out, value, spec.text());
        if (is_markup(value)) return out.append(value.text());
        Builder text(heap_);
        append_formatted(text, value, spec.text());
        append_escaped(out, text.text());
    }

    Value lookup(std::string_view name) {
        const std::size_t first = std::min(name.find_first_of(".["), name.size());
        Value value = argument(name.substr(0, first));
        name.remove_prefix(first);
        while (!name.empty()) {
            if (name[0] == '.') {
                const std::size_t end = std::min(name.find_first_of(".[", 1), name.size());
                if (end == 1) raise("Empty attribute in format string");
                value = get_attribute(heap_, value, name.substr(1, end - 1));
                name.remove_prefix(end);
            } else if (name[0] == '[') {
                const std::size_t end = name.find(']');
                if (end == std::string_view::npos || end == 1) raise("Missing ']' in format string");
                std::string_view key = name.substr(1, end - 1);
                const std::string_view whole = key;
                const auto number = take_number(key, INT32_MAX);
                value = get_item(heap_, value,
                                 number && key.empty() ? Value::integer(static_cast<std::int64_t>(*number)) : heap_.string(std::string(whole)));
                name.remove_prefix(end + 1);
            } else {
                raise("Only '.' or '[' may follow ']' in format field specifier");
            }
        }
        return value;
    }

    Value argument(std::string_view name) {
        std::string_view digits = name;
        const auto number = take_number(digits, INT32_MAX);
        if (name.empty() || (number && digits.empty())) {
            if (name.empty() ? numbered_ : next_ > 0) raise("cannot mix '{{}}' and '{{0}}' in one format string");
            numbered_ = !name.empty();
            const std::size_t i = name.empty() ? next_++ : *number;
            const Value* value = args_.at(i);
            if (value == nullptr) raise("Replacement index {} out of range for positional args tuple", i);
            return *value;
        }
        heap_.budget().step(args_.named.size() / 8);
        for (const auto& [key, value] : args_.named)
            if (key == name) return value;
        raise("the format names '{}', which is not given", shortened(name));
    }

    Heap& heap_;
    const Args& args_;
    bool markup_;
    bool numbered_ = false;
    std::size_t next_ = 0;
};

}  // namespace

Value format_percent(Heap& heap, const Value& format, const Value& values) {
    return PercentFormatter(heap, format, values).run();
}

Value format_braces(Heap& heap, const Value& format, const Args& args) {
    Builder out(heap);
    BraceFormatter(heap, args, is_markup(format)).run(out, format.text(), 0);
    return out.finish(is_markup(format));
}

}  // namespace cellar::jinja
